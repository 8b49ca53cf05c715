/**
 * `GET /metrics` for Prometheus: bearer `METRICS_TOKEN`, which opens nothing else. Without one, or with a short one,
 * there is no such path. `?accounts=true` names the accounts that were charged most, too.
 */
import { equalInConstantTime } from "../core/account/api-key.ts";
import { metricsText } from "../core/metrics.ts";
import { readMetrics } from "../platform/d1/metrics.ts";

const LEAST_TOKEN_CHARACTERS = 24;

/** Undefined: there is no such path. */
export async function metrics(env: Env, request: Request): Promise<Response | undefined> {
  const { METRICS_TOKEN: token = "" } = env as { readonly METRICS_TOKEN?: string };
  if (token.length < LEAST_TOKEN_CHARACTERS) return undefined;
  const [, given = ""] = /^Bearer +(\S+)$/i.exec(request.headers.get("authorization") ?? "") ?? [];
  if (!equalInConstantTime(token, given)) {
    return new Response("Send `Authorization: Bearer <METRICS_TOKEN>`.\n", {
      status: 401,
      headers: { "www-authenticate": "Bearer", "cache-control": "no-store" },
    });
  }
  const accounts = new URL(request.url).searchParams.get("accounts") === "true";
  return new Response(metricsText(await readMetrics(env.BOOKS, accounts)), {
    headers: { "content-type": "text/plain; version=0.0.4; charset=utf-8", "cache-control": "no-store" },
  });
}
