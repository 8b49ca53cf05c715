/**
 * The way of most calls around the router: a POST whose URL ends in a row's path as it stands in the endpoint table.
 * The router gives the same answer, but writes the response anew to add the headers of `browsers`. Every other spelling
 * of a path, and all that is not a call of the table, is the router's.
 */
import type { Endpoint } from "./core/endpoints/endpoint.ts";
import { ENDPOINTS } from "./core/endpoints/table.ts";
import { refuseCrashed } from "./gateway/http/responses.ts";
import type { Ports } from "./gateway/ports.ts";
import { serve } from "./gateway/serve.ts";

/** Headers that a browser's script may read besides the simple ones. */
export const EXPOSED = [
  "x-request-id",
  "x-service-request-id",
  "x-service-region",
  "retry-after",
  "retry-after-ms",
  "x-should-retry",
  "inference-id",
  ...["limit", "remaining", "reset"].flatMap((part) => [`x-ratelimit-${part}-requests`, `x-ratelimit-${part}-tokens`]),
];
const EXPOSED_TEXT = EXPOSED.join(",");

const ROWS: ReadonlyMap<string, Endpoint> = new Map(
  ENDPOINTS.filter(({ method, path }) => method === "POST" && !path.includes("{")).map((row) => [row.path, row]),
);

/** Null: the router has to look at it. */
export function serveDirectly(request: Request, ports: Ports): Promise<Response> | null {
  if (request.method !== "POST") return null;
  const { url } = request;
  const endpoint = ROWS.get(url.slice(url.indexOf("/", url.indexOf("://") + 3)));
  return endpoint ? answered(request, endpoint, ports) : null;
}

async function answered(request: Request, endpoint: Endpoint, ports: Ports): Promise<Response> {
  const response = await serve(request, endpoint, {}, ports).catch((error) =>
    refuseCrashed(error, endpoint.errors, ports),
  );
  response.headers.set("access-control-allow-origin", "*");
  response.headers.set("access-control-expose-headers", EXPOSED_TEXT);
  return response;
}
