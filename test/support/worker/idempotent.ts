/** Calls of the operator and of tenants with an `Idempotency-Key`, for tests. */
import { env } from "cloudflare:workers";
import { type Answer, send } from "./operator.ts";
import { as } from "./tenant.ts";

const ADMIN = env.ADMIN_TOKEN;

/** `path` goes on after `/admin`. */
export function keyed(method: string, path: string, body: unknown, key: string, token = ADMIN): Promise<Answer> {
  const headers = { authorization: `Bearer ${token}`, "content-type": "application/json", "idempotency-key": key };
  return send(new Request(`http://gateway.test/admin${path}`, { method, headers, body: JSON.stringify(body) }));
}

/** The same of a tenant's key. */
export const keyedBy = (token: string, method: string, path: string, body: unknown, key: string): Promise<Answer> =>
  as(token, method, path, body, undefined, { "idempotency-key": key });
