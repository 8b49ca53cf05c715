/**
 * `/console/api`: the console's pages call the rows of `/admin`, `/account`, `/v1` and the tenants' other paths here,
 * with their session in place of a key. The rows are the same ones; nothing is served twice. Cookies open nothing
 * elsewhere.
 *
 * Every call has to come from the console's own pages: `Origin` and `Sec-Fetch-Site` are checked, on signing in too.
 */
import type { Context } from "hono";
import { HonoBase as Hono } from "hono/hono-base";
import { TrieRouter } from "hono/router/trie-router";
import type { Standing } from "../../core/account/key-status.ts";
import type { Operator } from "../../core/account/operators.ts";
import { isTenantPath } from "../../core/endpoints/served-path.ts";
import { parseJson } from "../../core/formats/json.ts";
import { toHttp } from "../../core/http-refusal.ts";
import { type Outcome, refused } from "../../core/outcome.ts";
import type { Refusal } from "../../core/refusal.ts";
import { askOrRefuse } from "../../gateway/account-client.ts";
import { authenticate } from "../../gateway/authenticate.ts";
import { readBody, SMALL_BODIES } from "../../gateway/http/body-reader.ts";
import type { SignedIn } from "../../gateway/ports.ts";
import { log } from "../../platform/log.ts";
import type { PlatformPorts } from "../../platform/ports.ts";
import { answerError, invalid, Problem, type ProblemStatus } from "../kit/problem.ts";
import { toIso } from "../kit/serializers.ts";
import { operatorOfToken } from "../operator/auth.ts";
import { type CookiePlace, cookieLine, cookiePlace, SESSION_SECONDS } from "./cookie.ts";
import { consolePage } from "./pages.ts";
import { firstDigest, type Holder, openSession, type Session, type SessionEnv, sealHolder } from "./session.ts";

interface Bindings {
  Bindings: SessionEnv;
}
/** Serves a request by the application's own routes. */
export type Serve = (request: Request, env: object, context: ExecutionContext) => Response | Promise<Response>;

/** Before the paths of the rows that the console calls. */
const CONSOLE_API = "/console/api";
const MOST_LOGIN_BYTES = 2_000;

/** The path of the row that is meant; unchanged where it is none of the console's. */
export const rowPath = (path: string): string =>
  path.startsWith(`${CONSOLE_API}/`) ? path.slice(CONSOLE_API.length) : path;

export function consoleApp(serve: () => Serve): Hono<Bindings> {
  const app = new Hono<Bindings>();
  app.router = new TrieRouter();
  app.onError((error, context) => answerError(error, context, log));
  app.use(`${CONSOLE_API}/*`, async (context, next) => {
    context.header("cache-control", "no-store");
    context.header("x-content-type-options", "nosniff");
    requireOwnPage(context.req.raw);
    await next();
  });
  app.get(`${CONSOLE_API}/session`, async (context) => {
    const session = await sessionOf(context, placeOf(context));
    return context.json({ session: session ? await shown(session, context.env.ports) : null });
  });
  app.post(`${CONSOLE_API}/session`, signIn);
  app.delete(`${CONSOLE_API}/session`, (context) => {
    context.header("set-cookie", cookieLine(placeOf(context), ""));
    return context.json({ session: null });
  });
  app.all(`${CONSOLE_API}/*`, (context) => serveRow(context, serve()));
  // `/console/*` matches `/console` too.
  app.get("/console/*", (context) => consolePage(context.req.raw, context.env.ASSETS));
  return app;
}

/** A browser names the page's origin with each change, and how it came here with each call. */
function requireOwnPage({ method, headers, url }: Request): void {
  const [origin, site] = [headers.get("origin"), headers.get("sec-fetch-site")];
  const foreign = origin === null ? method !== "GET" : origin !== new URL(url).origin;
  if (!foreign && (site === null || site === "same-origin")) return;
  throw new Problem(403, "foreign_origin", "This call did not come from the console's own pages. Open /console.");
}

function placeOf({ req }: Context<Bindings>): CookiePlace {
  const place = cookiePlace(req.url);
  if (place) return place;
  throw new Problem(403, "https_needed", "A session needs https, or http://localhost. Open the console there.");
}

const sessionOf = ({ req, env, executionCtx }: Context<Bindings>, place: CookiePlace) =>
  openSession(req.raw, place, env, executionCtx);

async function signIn(context: Context<Bindings>): Promise<Response> {
  const { env } = context;
  const place = placeOf(context);
  const given = await givenKey(context.req.raw);
  const found = (await operatorHolder(given, context)) ?? (await tenantHolder(given, env.ports));
  if (!found.ok) {
    env.ports.log({ event: "console_login_refused", reason: found.refusal.kind });
    throw problemOf(found.refusal);
  }
  context.header("set-cookie", cookieLine(place, await sealHolder(found.holder, place, env.ports)));
  const expiresAtMs = env.ports.now() + SESSION_SECONDS * 1_000;
  const { holder } = found;
  const session: Session | undefined = found.operator
    ? { kind: "operator", operator: found.operator, expiresAtMs }
    : holder.kind === "key"
      ? { kind: "tenant", signedIn: holder, expiresAtMs }
      : undefined;
  return context.json({ session: session && (await shown(session, env.ports)) }, 201);
}

async function givenKey(request: Request): Promise<string> {
  const upload = await readBody(request, MOST_LOGIN_BYTES, SMALL_BODIES, Date.now);
  if (!upload.ok) throw problemOf(upload.refusal);
  const json = parseJson(upload.bytes, 10);
  const key = json.ok ? (json.value as { key?: unknown } | null)?.key : undefined;
  if (typeof key === "string" && key.trim() !== "") return key.trim();
  throw invalid("key", '`key`: send `{"key": "..."}`, an operator\'s token or a virtual key.');
}

type Found = Outcome<{ holder: Holder; operator?: Operator }>;

/** Undefined: not a token of an operator. */
async function operatorHolder(given: string, { env, executionCtx }: Context<Bindings>): Promise<Found | undefined> {
  const found = await operatorOfToken(env, executionCtx, given, env.ports.secrets);
  if (!found) return undefined;
  const { operator, digest } = found;
  const holder: Holder =
    digest === null ? { kind: "first", digest: await firstDigest(given, env.ports) } : { kind: "operator", digest };
  return { ok: true, holder, operator };
}

async function tenantHolder(given: string, ports: PlatformPorts): Promise<Found> {
  const unknown = refused({ kind: "bad_key", why: "unknown" });
  // What cannot stand in a header is no key.
  if (!/^[!-~]+$/.test(given)) return unknown;
  const found = await authenticate(new Headers({ authorization: `Bearer ${given}` }), ports);
  if (!found.ok) return found;
  const { digest, number } = found.caller;
  const answer = await standing({ digest, number }, ports);
  return answer.ok ? { ok: true, holder: { kind: "key", digest, number } } : answer;
}

async function standing({ digest, number }: SignedIn, ports: PlatformPorts): Promise<Outcome<{ standing: Standing }>> {
  const answer = await askOrRefuse(ports, number, null, (object) => object.standing(digest, "read"));
  return answer ?? refused({ kind: "bad_key", why: "unknown" });
}

/** Who signed in, for the page; null where the key has ended meanwhile. */
async function shown(session: Session, ports: PlatformPorts): Promise<object | null> {
  const expires_at = toIso(session.expiresAtMs);
  if (session.kind === "operator") {
    const { id, name, role } = session.operator;
    return { kind: "operator", id, name, role, expires_at };
  }
  const answer = await standing(session.signedIn, ports);
  if (!answer.ok && answer.refusal.kind !== "bad_key") throw problemOf(answer.refusal);
  if (!answer.ok) return null;
  const { account, key } = answer.standing;
  const { id, name, role, scopes } = key;
  return { kind: "tenant", account: account.id, account_name: account.name, id, name, role, scopes, expires_at };
}

async function serveRow(context: Context<Bindings>, serve: Serve): Promise<Response> {
  const { env, req } = context;
  const session = await sessionOf(context, placeOf(context));
  if (!session)
    throw new Problem(401, "no_session", "You are not signed in, or your session has ended. Sign in again.");
  const path = rowPath(req.path);
  const admin = /^\/admin(\/|$)/.test(path);
  if (admin !== (session.kind === "operator") || !(admin || isTenantPath(path))) {
    throw new Problem(403, "not_in_this_session", `${path.slice(0, 200)} is not open to a session of your kind.`);
  }
  const signed =
    session.kind === "operator"
      ? { ...env, signedIn: { operator: session.operator } }
      : { ...env, signedIn: {}, ports: { ...env.ports, signedIn: session.signedIn } };
  const answer = await serve(req.raw, signed, context.executionCtx as ExecutionContext);
  // What a row answers as a whole response does not get what the context was given above.
  answer.headers.set("x-content-type-options", "nosniff");
  answer.headers.set("cache-control", "no-store");
  return answer;
}

function problemOf(refusal: Refusal): Problem {
  const { status, code, message, retryAfterSeconds } = toHttp(refusal);
  return new Problem(status as ProblemStatus, code, message, "key", retryAfterSeconds ?? null);
}
