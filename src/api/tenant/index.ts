/**
 * Self-service with a virtual key: `/account` (limits, what is left, usage, keys and teams) and `/billing` in the shape
 * of the compute contract.
 *
 * Each call asks the account object for the key's status, so a revoked key reads nothing. The object checks a change
 * again in the transaction that makes it. Tenants see their own prices and limits, but never cost, upstreams, the plan,
 * or other tenants. Another account's ids answer as unknown ones.
 */
import type { Context } from "hono";
import { HonoBase as Hono } from "hono/hono-base";
import { TrieRouter } from "hono/router/trie-router";
import { manages } from "../../core/account/permissions.ts";
import { errorShapeAt } from "../../core/endpoints/served-path.ts";
import { toHttp } from "../../core/http-refusal.ts";
import type { Refusal } from "../../core/refusal.ts";
import { askOrRefuse } from "../../gateway/account-client.ts";
import { authenticate } from "../../gateway/authenticate.ts";
import { callHeaders, refuse } from "../../gateway/http/responses.ts";
import { BodyPlace } from "../../gateway/http/upload-slot.ts";
import { log } from "../../platform/log.ts";
import { accountInTime } from "../kit/account-object.ts";
import { recordChange } from "../kit/change-log.ts";
import { contextOf } from "../kit/context.ts";
import { addKeys } from "../kit/keys.ts";
import type { ManagedAt } from "../kit/manager.ts";
import { carryOutOnce } from "../kit/once.ts";
import { answerError, Problem, type ProblemStatus } from "../kit/problem.ts";
import { ApiRoutes, type Route } from "../kit/route.ts";
import { addTeams } from "../kit/teams.ts";
import { addSelfAccount } from "./account.ts";
import { addSelfBilling } from "./billing.ts";
import { addSelfCalls } from "./calls.ts";
import type { SelfServiceBindings, SelfServiceRoutes, Tenant } from "./self-service.ts";
import { addSelfStatement } from "./statement.ts";
import { addSelfWebhooks } from "./webhooks.ts";

/** `/account/*` also matches `/account`. Adding that path would ask the object twice. */
const PATHS = ["/account/*", "/billing/*"];

/** Owners and admins manage the keys and teams of their account, with their own key as the ceiling. */
const IN_OWN_ACCOUNT: ManagedAt<Tenant> = {
  base: "/account",
  refusals: [403],
  managerOf: async ({ context, caller, standing, object }) => ({
    actor: { by: "key", digest: caller.digest },
    ceiling: standing.key,
    account: caller.account,
    number: caller.number,
    object,
    context,
  }),
};

/** Serves `/account...` and `/billing...`. Its paths are absolute, so mount it at the root. */
export function selfServiceApp(): { app: Hono<SelfServiceBindings>; routes: readonly Route[] } {
  const app = new Hono<SelfServiceBindings>();
  app.router = new TrieRouter();
  app.onError((error, context) => inShape(context, answerError(error, context, log)));
  for (const path of PATHS) {
    app.use(path, async (context, next) => {
      const refused = await identify(context);
      if (refused) return refused;
      return next();
    });
  }
  const api: SelfServiceRoutes = new ApiRoutes(app, (context) => context.get("tenant"), {
    refusals: [429],
    placeOf: ({ place, caller }) => ({ holder: place.of(caller), leave: () => place.leave() }),
    record: ({ context, caller, standing }, call) => {
      // A member's call is refused: that needs no row.
      if (!manages(standing.key)) return call.carryOut();
      const actor = { kind: "key", id: caller.keyId, name: standing.key.name } as const;
      return carryOutOnce(context, `key ${caller.number} ${caller.keyId}`, call, (once) =>
        recordChange(context, actor, once, caller.account),
      );
    },
  });
  addSelfAccount(api);
  addKeys(api, IN_OWN_ACCOUNT);
  addTeams(api, IN_OWN_ACCOUNT);
  addSelfBilling(api);
  addSelfCalls(api);
  addSelfStatement(api);
  addSelfWebhooks(api);
  for (const path of PATHS) {
    app.all(path, (context) => {
      throw new Problem(404, "not_found", `${context.req.method} ${context.req.path} is not served here.`);
    });
  }
  return { app, routes: api.routes };
}

/** Finds the caller and the key's status, or gives the refusal. */
async function identify(context: Context<SelfServiceBindings>): Promise<Response | undefined> {
  const { ports } = context.env;
  const callId = ports.newCallId();
  const no = (refusal: Refusal) => refuse(refusal, callId, isCompute(context) ? "compute" : "openai");
  callHeaders(callId, null, undefined).forEach((value, name) => {
    context.header(name, value);
  });
  const authentication = await authenticate(context.req.raw.headers, ports);
  if (!authentication.ok) return no(authentication.refusal);
  const { caller } = authentication;
  const purpose = context.req.method === "GET" ? "read" : "change";
  const answer = await askOrRefuse(ports, caller.number, callId, (object) => object.standing(caller.digest, purpose));
  if (!answer) return no({ kind: "bad_key", why: "unknown" });
  if (!answer.ok) return no(answer.refusal);
  const { standing } = answer;
  const object = accountInTime(ports, caller.number, unanswered);
  const place = new BodyPlace(context.req.raw.signal, ports);
  context.set("tenant", { context: contextOf(context.env, ports, context.req.url), caller, standing, object, place });
  return undefined;
}

/** An unreachable account object is not the request's fault. */
function unanswered(error: unknown): never {
  log({ event: "admission_failed", error: String(error) });
  const { status, code, message } = toHttp({ kind: "admission_unavailable" });
  throw new Problem(status as ProblemStatus, code, message);
}

const isCompute = (context: Context): boolean => errorShapeAt(context.req.path) === "compute";

/** The compute contract has errors as plain text in `error`. */
async function inShape(context: Context, response: Response): Promise<Response> {
  if (!isCompute(context)) return response;
  const { error } = await response.json<{ error: { message: string } }>();
  return context.json({ error: error.message }, response.status as 400);
}
