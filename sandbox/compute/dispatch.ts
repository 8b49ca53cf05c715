/**
 * From a call to its answer: the key, access and scope, the calls a minute, the body, then the route. The first that
 * fails answers.
 */
import type { ComputeCallLog } from "./call-log.ts";
import { IMAGES } from "./images.ts";
import { MACHINES } from "./machines.ts";
import { gpuPrices, MARKET } from "./market.ts";
import type { Account, Key } from "./records.ts";
import { type Access, type Answer, answer, type Call, findRoute, type Route, refuse } from "./route.ts";
import { SSH_KEYS } from "./ssh-keys.ts";
import { STORAGE } from "./storage-routes.ts";
import { TEMPLATES } from "./templates.ts";
import type { World } from "./world.ts";

/** Earlier rows win: `availability` is no id. */
const ROUTES: readonly Route[] = [...MARKET, ...MACHINES, ...STORAGE, ...IMAGES, ...SSH_KEYS, ...TEMPLATES];

const CALLS_A_MINUTE = 60;
const LAUNCHES_A_MINUTE = 10;

export interface Incoming {
  readonly method: string;
  readonly path: string;
  readonly origin: string;
  /** The key in `Authorization: Bearer`; null: none. */
  readonly key: string | null;
  readonly body: string | null;
  readonly requestId: string | null;
}

export interface Holder {
  readonly account: Account;
  readonly key: Key;
}

/** The counts that limits ask for. */
export type CallCounts = Pick<ComputeCallLog, "count" | "launchWait">;

export interface Dispatched {
  readonly answer: Answer;
  readonly launched: boolean;
  readonly lists: boolean;
}

/** Null: the key may do this. */
export function accessRefusal(holder: Holder | undefined, access: Access): Answer | null {
  if (!holder || holder.key.state === "revoked" || holder.key.state === "expired") {
    return refuse(401, "The API key is missing, wrong, revoked or expired. Send `Authorization: Bearer <key>`.");
  }
  if (holder.key.state === "not_member")
    return refuse(403, "The user of this key is no longer a member of the account.");
  if (access === "key") return null;
  if (!holder.account.enabled) return refuse(403, "The account lacks Compute API access. Ask support to enable it.");
  if (!holder.key.scopes.includes("compute")) {
    return refuse(403, "The key has no compute scope. Create a key with it.");
  }
  return null;
}

const tooMany = (what: string, waitMs: number): Answer => ({
  ...refuse(429, `Too many ${what}. Wait before you try again.`),
  retryAfterS: Math.max(1, Math.ceil(waitMs / 1000)),
});

export function dispatch(
  world: World,
  log: CallCounts,
  holder: Holder | undefined,
  incoming: Incoming,
  callId: number,
  fingerprint: string | null,
): Dispatched {
  const only = (answer: Answer): Dispatched => ({ answer, launched: false, lists: false });
  if (incoming.method === "GET" && incoming.path === "/platform/gpu-prices") return only(answer(200, gpuPrices(world)));
  const found = findRoute(ROUTES, incoming.method, incoming.path);
  const refused = accessRefusal(holder, found?.route.access ?? "compute");
  if (refused || !holder) return only(refused ?? refuse(401, "There is no such key."));
  const { account, key } = holder;
  const nowMs = world.now(account);
  const wait = log.count(callId, key.key, nowMs, CALLS_A_MINUTE);
  if (wait !== null) return only(tooMany("requests", wait));
  if (!found) return only(refuse(404, `There is no ${incoming.method} ${incoming.path}.`));
  const body = found.route.read(parse(incoming.body));
  if (!body.ok) return only(body.answer);
  let launching = false;
  const call: Call = {
    world,
    account,
    key,
    nowMs,
    origin: incoming.origin,
    fingerprint,
    launch: () => {
      const waitMs = log.launchWait(account.account, nowMs, LAUNCHES_A_MINUTE);
      launching = waitMs === null;
      return waitMs === null ? null : tooMany("launches", waitMs);
    },
  };
  const result = found.route.serve(call, found.id, body.value);
  return { answer: result, launched: launching && result.status < 400, lists: found.route.lists };
}

/** Undefined for what is no JSON: every schema refuses that. */
function parse(body: string | null): unknown {
  try {
    return JSON.parse(body ?? "");
  } catch {
    return undefined;
  }
}
