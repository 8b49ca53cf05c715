/**
 * Admits only the operator's people: bearer `ADMIN_TOKEN`, the first owner, compared in constant time, or an operator's
 * own token, whose row is read at each call: a revoked one opens nothing more. Without `ADMIN_TOKEN`, or with a short
 * one, the Worker refuses to serve `/admin` at all.
 */
import type { Context, MiddlewareHandler } from "hono";
import { equalInConstantTime } from "../../core/account/api-key.ts";
import { FIRST_OWNER, fieldRefused, mayCall, type Operator, shapeOperatorToken } from "../../core/account/operators.ts";
import { noteOperatorUse, operatorByDigest } from "../../platform/d1/operators.ts";
import { type PlatformSecrets, readSecrets } from "../../platform/secrets.ts";
import { type AdminBindings, openContext } from "../kit/context.ts";
import { Problem } from "../kit/problem.ts";
import type { Route } from "../kit/route.ts";

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
  const first = given !== undefined && equalInConstantTime(token, given);
  if (given === undefined || !(first || shapeOperatorToken(given))) throw unknownToken(context);
  const secrets = await readSecrets(context.env);
  if (!secrets.ok) throw new Problem(503, "not_configured", secrets.fault.message);
  const operator = first ? FIRST_OWNER : await named(context, given, secrets.secrets);
  if (!operator) throw unknownToken(context);
  context.set("admin", { ...openContext(context.env, context.executionCtx, secrets.secrets), operator });
  await next();
};

function unknownToken(context: Context): Problem {
  context.header("www-authenticate", "Bearer");
  return new Problem(401, "invalid_admin_token", "Send `Authorization: Bearer <ADMIN_TOKEN>`, or an operator's token.");
}

async function named(
  context: Context<AdminBindings>,
  token: string,
  secrets: PlatformSecrets,
): Promise<Operator | undefined> {
  const { BOOKS: books } = context.env;
  const digest = await secrets.operatorDigest(token);
  const row = digest === undefined ? undefined : await operatorByDigest(books, digest);
  if (row) context.executionCtx.waitUntil(noteOperatorUse(books, row, Date.now()).catch(() => undefined));
  return row;
}

/** Throws where the operator's role may not make the call. */
export function admitRole({ role }: Operator, { roles }: Route): void {
  if (mayCall(role, roles)) return;
  const may = ["owner", ...Object.keys(roles ?? {})].join(", ");
  throw new Problem(403, "role_not_allowed", `Your role is ${role}. This call is for: ${may}.`);
}

/** Throws where the operator's role may not send one of these fields. */
export function permitFields({ role }: Operator, { roles }: Route, fields: readonly string[]): void {
  const field = fieldRefused(role, roles, fields);
  if (field === undefined) return;
  throw new Problem(403, "role_not_allowed", `Your role is ${role}, which may not change \`${field}\`.`, field);
}
