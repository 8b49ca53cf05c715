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

/** The secret, where it is one that can be used. */
export const adminTokenOf = ({ ADMIN_TOKEN: token = "" }: Env): string | undefined =>
  token.length < LEAST_TOKEN_CHARACTERS ? undefined : token;

export const operatorOnly: MiddlewareHandler<AdminBindings> = async (context, next) => {
  context.header("cache-control", "no-store");
  const { env } = context;
  if (adminTokenOf(env) === undefined) {
    throw new Problem(
      503,
      "not_configured",
      `The secret ADMIN_TOKEN is ${env.ADMIN_TOKEN ? "too short" : "not set"}: give it at least ` +
        `${LEAST_TOKEN_CHARACTERS} characters (wrangler secret put ADMIN_TOKEN).`,
    );
  }
  const [, given] = /^Bearer +(\S+)$/i.exec(context.req.header("authorization") ?? "") ?? [];
  const signedIn = env.signedIn?.operator;
  if (!signedIn && (given === undefined || !(isFirst(env, given) || shapeOperatorToken(given)))) {
    throw unknownToken(context);
  }
  const secrets = await readSecrets(env);
  if (!secrets.ok) throw new Problem(503, "not_configured", secrets.fault.message);
  const operator =
    signedIn ?? (await operatorOfToken(env, context.executionCtx, given ?? "", secrets.secrets))?.operator;
  if (!operator) throw unknownToken(context);
  const opened = openContext(env, context.executionCtx, secrets.secrets, context.req.url);
  context.set("admin", { ...opened, operator });
  await next();
};

const isFirst = (env: Env, given: string): boolean => {
  const token = adminTokenOf(env);
  return token !== undefined && equalInConstantTime(token, given);
};

function unknownToken(context: Context): Problem {
  context.header("www-authenticate", "Bearer");
  return new Problem(401, "invalid_admin_token", "Send `Authorization: Bearer <ADMIN_TOKEN>`, or an operator's token.");
}

/** Whose token this is; no digest for `ADMIN_TOKEN`. */
export async function operatorOfToken(
  env: Env,
  context: Pick<ExecutionContext, "waitUntil">,
  token: string,
  secrets: PlatformSecrets,
): Promise<{ operator: Operator; digest: string | null } | undefined> {
  if (isFirst(env, token)) return { operator: FIRST_OWNER, digest: null };
  const digest = await secrets.operatorDigest(token);
  const operator = digest === undefined ? undefined : await operatorWith(env, context, digest);
  return operator && digest !== undefined ? { operator, digest } : undefined;
}

/** The live operator whose token has this digest. */
export async function operatorWith(
  { BOOKS: books }: Env,
  context: Pick<ExecutionContext, "waitUntil">,
  digest: string,
): Promise<Operator | undefined> {
  const row = await operatorByDigest(books, digest);
  if (row) context.waitUntil(noteOperatorUse(books, row, Date.now()).catch(() => undefined));
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
