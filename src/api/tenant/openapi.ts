/** `/openapi.json`: what a tenant can call, from the endpoint table, the models' two calls and self-service. */
import { Hono } from "hono";
import * as z from "zod";
import type { Endpoint } from "../../core/endpoints/endpoint.ts";
import { ENDPOINTS } from "../../core/endpoints/table.ts";
import { documentOnce } from "../kit/openapi.ts";
import { answers, type Route } from "../kit/route.ts";

const Model = z
  .object({ id: z.string(), object: z.literal("model"), created: z.int(), owned_by: z.string() })
  .meta({ id: "Model" });

const MODEL_ROUTES: readonly Route[] = [
  {
    id: "listModels",
    method: "get",
    path: "/v1/models",
    refusals: [429],
    summary: "The models that the key may call",
    answers: { 200: answers("The models", z.object({ object: z.literal("list"), data: z.array(Model) })) },
  },
  {
    id: "getModel",
    method: "get",
    path: "/v1/models/{model}",
    refusals: [404, 429],
    summary: "One model that the key may call",
    answers: { 200: answers("The model", Model) },
  },
];

/** A row of the table as a call of a document; the answer is the service's own. */
function routeOf({ id, method, path, summary, body, retry, errors, creates }: Endpoint): Route {
  const media = { json: "application/json", form: "multipart/form-data", any: "*/*", none: null }[body.kind];
  return {
    id: camelCase(id),
    method: method === "GET" ? "get" : "post",
    path: path.replace("*}", "}"),
    summary,
    ...(media && { body: body.schema ?? z.any(), bodyAs: media, maxBodyBytes: body.maxBytes }),
    answers: { [creates === "video_job" ? 202 : 200]: answers("As the service answers it", z.any()) },
    errors,
    refusals: [402, 403, 404, 422, 429, 502, 504, ...(retry === "safe" ? [] : [409 as const])],
  };
}

/** `chat.completions` as `chatCompletions`. */
const camelCase = (id: string): string => id.replaceAll(/[._]([a-z])/g, (_, letter: string) => letter.toUpperCase());

/** `selfService`: its calls, so that one document has all that a key can do. Not authenticated: it says nothing of anybody. */
export function tenantDocumentApp(selfService: readonly Route[]): Hono {
  const document = documentOnce(() => [...ENDPOINTS.map(routeOf), ...MODEL_ROUTES, ...selfService], {
    title: "Tollgate",
    description: "An OpenAI-compatible inference service, and the holder's own keys, limits, usage and balance.",
    bearer: "A virtual key, sk-tg-...",
  });
  return new Hono().get("/openapi.json", document);
}
