/** The rows of the endpoint tables as routes of a document. */
import * as z from "zod/mini";
import type { ComputeEndpoint } from "../../core/endpoints/compute/compute-endpoint.ts";
import { COMPUTE_ROWS } from "../../core/endpoints/compute/compute-table.ts";
import { SERVICE_ROWS, type ServiceEndpoint } from "../../core/endpoints/compute/service-rows.ts";
import type { Endpoint } from "../../core/endpoints/endpoint.ts";
import { ENDPOINTS } from "../../core/endpoints/table.ts";
import { answers, type Route } from "../kit/route.ts";

const METHODS = { GET: "get", POST: "post", DELETE: "delete" } as const;

/** A row of the table as a route for the document. An answer without a schema is the service's own. */
function routeOf({ id, method, path, summary, body, retry, errors, flow, answerSchema }: Endpoint): Route {
  const media = { json: "application/json", form: "multipart/form-data", any: "*/*", none: null }[body.kind];
  return {
    id: camelCase(id),
    method: METHODS[method],
    path: path.replace("*}", "}"),
    summary,
    ...(media && { body: body.schema ?? z.any(), bodyAs: media, maxBodyBytes: body.maxBytes }),
    answers: {
      [flow.kind === "job" ? 202 : 200]: answers(
        answerSchema ? summary : "As the service answers it",
        answerSchema ?? z.any(),
      ),
    },
    errors,
    refusals:
      flow.kind === "local"
        ? [...(path.includes("{") ? [404 as const] : []), 429]
        : [402, 403, 404, 422, 429, 502, 504, ...(retry === "safe" ? [] : [409 as const])],
  };
}

const COMPUTE_METHODS = { GET: "get", POST: "post", PUT: "put", PATCH: "patch", DELETE: "delete" } as const;

/** A row of the compute table. Its documents are the service's own. */
function computeRoute({ id, method, path, summary, schema, maxBytes, status, on }: ComputeEndpoint): Route {
  return {
    id: camelCase(id),
    method: COMPUTE_METHODS[method],
    path,
    summary,
    ...(schema && { body: schema, maxBodyBytes: maxBytes }),
    answers: { [status]: answers(status === 204 ? "Done" : "As the service answers it", z.any()) },
    errors: "compute",
    refusals: [402, 403, 409, 429, ...(on || path.includes("{") ? [404 as const] : [])],
  };
}

/** The methods that OpenAPI can name and that a service path passes; every other but TRACE and CONNECT passes too. */
const SERVICE_METHODS = ["get", "post", "put", "patch", "delete"] as const;

/** A service path, once for each method. Its answers are the service's own: nothing of them is known here. */
const serviceRoutes = ({ id, path, summary }: ServiceEndpoint): Route[] =>
  SERVICE_METHODS.map((method) => ({
    id: camelCase(`${id}.${method}`),
    method,
    path,
    summary,
    ...(method !== "get" && { passesBody: true }),
    answers: {
      200: answers("What the service answers, with its own status and type, and `x-answer-from: service`", z.any()),
    },
    alsoAs: "*/*",
    errors: "compute",
    refusals: [403, 404, 409, 502, 504],
  }));

const GPU_PRICES: Route = {
  id: "gpuPrices",
  method: "get",
  path: "/platform/gpu-prices",
  summary: "What GPUs cost; needs no key",
  answers: { 200: answers("Price rows", z.any()) },
  errors: "compute",
};

/** `chat.completions` as `chatCompletions`. */
const camelCase = (id: string): string => id.replaceAll(/[._]([a-z])/g, (_, letter: string) => letter.toUpperCase());

/** The routes outside self-service. */
export const tableRoutes = (): readonly Route[] => [
  ...ENDPOINTS.map(routeOf),
  ...COMPUTE_ROWS.map(computeRoute),
  ...Object.values(SERVICE_ROWS).flatMap(serviceRoutes),
  GPU_PRICES,
];
