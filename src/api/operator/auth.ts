/**
 * Admits only the operator: bearer `ADMIN_TOKEN`, compared in constant time. Without a token, or with a short one, the
 * Worker refuses to serve `/admin` at all.
 */
import type { MiddlewareHandler } from "hono";
import { equalInConstantTime } from "../../core/account/api-key.ts";
import { readSecrets } from "../../platform/secrets.ts";
import { type AdminBindings, openContext } from "../kit/context.ts";
import { Problem } from "../kit/problem.ts";

const LEAST_TOKEN_CHARACTERS = 24;

export const operatorOnly: MiddlewareHandler<AdminBindings> = async (context, next) => {
  context.header("cache-control", "no-store");
  const token = context.env.ADMIN_TOKEN ?? "";
  if (token.length < LEAST_TOKEN_CHARACTERS) {
    throw new Problem(
      503,
      "not_configured",
      `The secret ADMIN_TOKEN is ${token ? "too short" : "not set"}: give it at least ${LEAST_TOKEN_CHARACTERS} ` +
        "characters (wrangler secret put ADMIN_TOKEN).",
    );
  }
  const [, given] = /^Bearer +(\S+)$/i.exec(context.req.header("authorization") ?? "") ?? [];
  if (given === undefined || !equalInConstantTime(token, given)) {
    context.header("www-authenticate", "Bearer");
    throw new Problem(401, "invalid_admin_token", "Send `Authorization: Bearer <ADMIN_TOKEN>`.");
  }
  const secrets = await readSecrets(context.env);
  if (!secrets.ok) throw new Problem(503, "not_configured", secrets.fault.message);
  context.set("admin", openContext(context.env, context.executionCtx, secrets.secrets));
  await next();
};
