/**
 * The routing snapshot of one isolate, and how changes reach the others.
 *
 * The truth is D1; each of its changes raises a version there. KV carries the snapshot to isolates, which read it at most
 * every 10 s and never go back to a lower version than they have. An isolate that changed something reads D1 again, uses
 * the result at once, and publishes it: at most one KV write a second, until what it wrote is the version that D1 has. So
 * two isolates that write at once cannot leave the older version in place.
 *
 * For a name that the snapshot lacks, D1 is asked for its version only; if that is higher, the snapshot is read again. One
 * such look-up a second serves all names. A caller in the same second waits for the next one, and all who wait share it, so
 * a name that was just made is never called unknown. An account that asked in vain within the second, or has several calls
 * waiting, is answered from what is known: a flood of made-up names neither reads D1 nor piles up, and delays only that
 * account.
 *
 * If KV fails, calls are slower. If D1 fails too, a snapshot stays in use for 90 s after it was last confirmed.
 */
import { EMPTY_SNAPSHOT } from "../../core/routing/routes.ts";
import type { LogLine } from "../../gateway/ports.ts";
import { raiseRoutingVersion, readRouting, readRoutingVersion, type VersionedRouting } from "../d1/routing.ts";
import { Flights } from "./single-flight.ts";
import { RecentMap } from "./ttl-cache.ts";

const ROUTING_KEY = "routing";
/** How long a snapshot is used without asking. */
const ROUTING_FRESH_MS = 10_000;
/** Up to this age a call does not wait for the newer one. */
const ROUTING_USABLE_MS = 20_000;
/** With KV and D1 both failing. */
const ROUTING_LAST_RESORT_MS = 90_000;
/** D1 is asked for the version at most this often, whatever names are missing. */
const LOOK_UP_INTERVAL_MS = 1_000;
const PUBLISH_INTERVAL_MS = 1_000;
/** A `waitUntil` lives 30 s after the answer, so an older publisher is considered dead. */
const PUBLISHER_LIFETIME_MS = 25_000;
const LOOK_UP = "look-up";
const MOST_ASKERS = 1_000;
/** Calls of one account that wait at once; more are answered from what is known. */
const MOST_WAITING = 16;

export interface RoutingParts {
  readonly kv: KVNamespace;
  readonly books: D1Database;
  now(): number;
  waitUntil(work: Promise<unknown>): void;
  log(line: LogLine): void;
}

/** Lives as long as the isolate. */
export interface RoutingState {
  snapshot: VersionedRouting;
  /** When the snapshot was last found to be what KV or D1 has. */
  confirmedAtMs: number;
  /** Reads of KV and questions to D1 under way, so that a burst of calls makes one of each. */
  readonly reads: Flights<VersionedRouting>;
  readonly lookUps: Flights<VersionedRouting>;
  /** Accounts that asked for a name in vain within the last second. */
  readonly vain: RecentMap<string, true>;
  /** How many calls have begun to wait for the next look-up within the last second, by who asks. */
  readonly waiting: RecentMap<string, number>;
  /** Look-ups begun so far; when the last one began; what it failed with, if it did. */
  lookUpsBegun: number;
  lookedUpAtMs: number;
  lookUpFailure: { readonly error: unknown } | undefined;
  publishedAtMs: number;
  publishingSinceMs: number;
  /** Grows with each wish to publish; the publisher goes on until it has seen the last one. */
  wishes: number;
}

export const newRoutingState = (): RoutingState => ({
  snapshot: { ...EMPTY_SNAPSHOT, version: 0 },
  confirmedAtMs: Number.NEGATIVE_INFINITY,
  reads: new Flights(),
  lookUps: new Flights(),
  vain: new RecentMap(MOST_ASKERS),
  waiting: new RecentMap(MOST_ASKERS),
  lookUpsBegun: 0,
  lookedUpAtMs: Number.NEGATIVE_INFINITY,
  lookUpFailure: undefined,
  publishedAtMs: Number.NEGATIVE_INFINITY,
  publishingSinceMs: Number.NEGATIVE_INFINITY,
  wishes: 0,
});

/** The snapshot to use now. Warm: no read of anything. */
export function routing(parts: RoutingParts, state: RoutingState): Promise<VersionedRouting> {
  const age = parts.now() - state.confirmedAtMs;
  if (age < ROUTING_FRESH_MS) return Promise.resolve(state.snapshot);
  const read = () => state.reads.run(ROUTING_KEY, () => confirm(parts, state));
  if (age >= ROUTING_USABLE_MS) return read();
  if (!state.reads.has(ROUTING_KEY)) parts.waitUntil(read().catch(() => undefined));
  return Promise.resolve(state.snapshot);
}

/** Takes what KV has; what D1 has where KV has nothing or fails. */
async function confirm(parts: RoutingParts, state: RoutingState): Promise<VersionedRouting> {
  const published = await readPublished(parts);
  try {
    adopt(parts, state, published ?? (await readRouting(parts.books, parts.now())));
  } catch (error) {
    if (parts.now() - state.confirmedAtMs >= ROUTING_LAST_RESORT_MS) throw error;
    parts.log({ event: "routing_unreadable", age_ms: parts.now() - state.confirmedAtMs });
  }
  return state.snapshot;
}

async function readPublished(parts: RoutingParts): Promise<VersionedRouting | undefined> {
  try {
    const stored = await parts.kv.get<VersionedRouting>(ROUTING_KEY, { type: "json", cacheTtl: 30 });
    return stored && Number.isSafeInteger(stored.version) ? stored : undefined;
  } catch {
    parts.log({ event: "routing_kv_unreadable" });
    return undefined;
  }
}

function adopt(parts: RoutingParts, state: RoutingState, read: VersionedRouting): void {
  if (read.version >= state.snapshot.version) state.snapshot = read;
  state.confirmedAtMs = parts.now();
}

/** For a name that the snapshot lacks. Rejects if D1 fails: an outage is not an unknown name. */
export async function refresh(parts: RoutingParts, state: RoutingState, asker: string): Promise<VersionedRouting> {
  const known = state.snapshot.version;
  const lookUpNow = () => state.lookUps.run(LOOK_UP, () => lookUp(parts, state, asker));
  if (state.lookUps.has(LOOK_UP)) {
    await lookUpNow();
    // It may have begun before this name was made, so only what is new settles it.
    if (state.snapshot.version > known) return state.snapshot;
  }
  const begun = state.lookUpsBegun;
  const waitMs = state.lookedUpAtMs + LOOK_UP_INTERVAL_MS - parts.now();
  if (waitMs <= 0) return lookUpNow();
  throwIfFailed(state);
  const waiting = state.waiting.get(asker, parts.now()) ?? 0;
  if (waiting >= MOST_WAITING || state.vain.get(asker, parts.now())) return state.snapshot;
  // Never counted down: a call whose client left may end here silently.
  state.waiting.set(asker, waiting + 1, parts.now() + LOOK_UP_INTERVAL_MS);
  await pause(Math.min(waitMs, LOOK_UP_INTERVAL_MS));
  // Of all who waited the first asks; one that is under way is joined, one that is over was for everybody.
  if (state.lookUpsBegun === begun || state.lookUps.has(LOOK_UP)) await lookUpNow();
  throwIfFailed(state);
  if (state.snapshot.version === known) state.vain.set(asker, true, parts.now() + LOOK_UP_INTERVAL_MS);
  return state.snapshot;
}

function throwIfFailed({ lookUpFailure }: RoutingState): void {
  if (lookUpFailure) throw lookUpFailure.error;
}

async function lookUp(parts: RoutingParts, state: RoutingState, asker: string): Promise<VersionedRouting> {
  const known = state.snapshot.version;
  state.lookUpsBegun += 1;
  state.lookedUpAtMs = parts.now();
  state.lookUpFailure = undefined;
  state.vain.set(asker, true, state.lookedUpAtMs + LOOK_UP_INTERVAL_MS);
  try {
    if ((await readRoutingVersion(parts.books)) > state.snapshot.version) {
      adopt(parts, state, await readRouting(parts.books, parts.now()));
    }
  } catch (error) {
    state.lookUpFailure = { error };
    throw error;
  } finally {
    if (state.lookUpFailure || state.snapshot.version > known) state.vain.delete(asker);
  }
  return state.snapshot;
}

/** After a change of the books: this isolate uses it from now on, the others when they next read. */
export async function routingChanged(parts: RoutingParts, state: RoutingState): Promise<void> {
  adopt(parts, state, await readRouting(parts.books, parts.now()));
  state.wishes += 1;
  if (parts.now() - state.publishingSinceMs < PUBLISHER_LIFETIME_MS) return;
  state.publishingSinceMs = parts.now();
  parts.waitUntil(publish(parts, state));
}

/** Writes to KV until it has D1's version and no further publication was requested. */
async function publish(parts: RoutingParts, state: RoutingState): Promise<void> {
  const sinceMs = state.publishingSinceMs;
  try {
    for (let seen = -1; seen !== state.wishes; ) {
      seen = state.wishes;
      await pause(state.publishedAtMs + PUBLISH_INTERVAL_MS - parts.now());
      state.publishedAtMs = parts.now();
      const snapshot = await readRouting(parts.books, parts.now());
      await parts.kv.put(ROUTING_KEY, JSON.stringify(snapshot));
      adopt(parts, state, snapshot);
      if ((await readRoutingVersion(parts.books)) !== snapshot.version) seen = -1;
      // Past its time another publisher has taken over.
      if (state.publishingSinceMs !== sinceMs) return;
    }
  } catch {
    // The scheduled run publishes what was not published here.
    parts.log({ event: "routing_not_published" });
  }
  if (state.publishingSinceMs === sinceMs) state.publishingSinceMs = Number.NEGATIVE_INFINITY;
}

const pause = (ms: number): Promise<void> =>
  ms > 0 ? new Promise((resolve) => setTimeout(resolve, ms)) : Promise.resolve();

/** Now and then: publishes what a broken-off publisher left, and goes over a D1 that was restored to an older state. */
export async function republish(parts: RoutingParts): Promise<"unchanged" | "published"> {
  const published = await readPublished(parts);
  const version = await readRoutingVersion(parts.books);
  if (published?.version === version) return "unchanged";
  if (published && published.version > version) await raiseRoutingVersion(parts.books, published.version);
  await parts.kv.put(ROUTING_KEY, JSON.stringify(await readRouting(parts.books, parts.now())));
  return "published";
}
