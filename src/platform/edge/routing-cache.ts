/**
 * The routing snapshot of one isolate, and how changes reach the other isolates.
 *
 * D1 is the truth; each change there raises a version. KV carries the snapshot to isolates, which read it at most every
 * 10 s and never go back to a lower version. The isolate that made a change reads D1 again, uses the result at once and
 * publishes it to KV: at most one write a second, repeated until KV has D1's version. So two isolates that write at
 * once cannot leave the older snapshot in KV.
 *
 * If the snapshot lacks a name, D1 is asked for its version only; if it is higher, the snapshot is read again. One such
 * look-up a second serves all names. A caller in the same second waits for the next look-up, so that a new name is
 * never reported unknown, and all who wait share it. An account whose look-up in that second found nothing, or that has
 * many calls waiting, is answered from the current snapshot. So a flood of made-up names neither reads D1 nor piles up,
 * and it delays new names for that account only.
 *
 * If KV fails, only speed is lost. If D1 fails too, a snapshot is used for 90 s after it was last confirmed.
 */
import { EMPTY_SNAPSHOT } from "../../core/routing/routes.ts";
import type { LogLine } from "../../gateway/ports.ts";
import { raiseRoutingVersion, readRouting, readRoutingVersion, type VersionedRouting } from "../d1/routing.ts";
import { Flights } from "./single-flight.ts";
import { RecentMap } from "./ttl-cache.ts";

const ROUTING_KEY = "routing";
/** A snapshot is used this long without asking. */
const ROUTING_FRESH_MS = 10_000;
/** Up to this age a call uses the snapshot while a newer one is read. */
const ROUTING_USABLE_MS = 20_000;
/** With KV and D1 both failing. */
const ROUTING_LAST_RESORT_MS = 90_000;
/** D1 is asked for the version at most this often, whatever names are missing. */
const LOOK_UP_INTERVAL_MS = 1_000;
const PUBLISH_INTERVAL_MS = 1_000;
/** A `waitUntil` lives 30 s after the answer. A publisher older than this is taken for dead. */
const PUBLISHER_LIFETIME_MS = 25_000;
const LOOK_UP = "look-up";
const MOST_ASKERS = 1_000;
/** Calls of one account that may wait at once; further ones are answered from the current snapshot. */
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
  /** When the snapshot was last known to equal what KV or D1 has. */
  confirmedAtMs: number;
  /** Reads of KV and D1 under way, so that a burst of calls makes one of each. */
  readonly reads: Flights<VersionedRouting>;
  readonly lookUps: Flights<VersionedRouting>;
  /** Accounts whose look-up within the last second found nothing new. */
  readonly vain: RecentMap<string, true>;
  /** Per account, how many calls began to wait for the next look-up within the last second. */
  readonly waiting: RecentMap<string, number>;
  /** Look-ups begun so far, the time of the last one, and its error if it failed. */
  lookUpsBegun: number;
  lookedUpAtMs: number;
  lookUpFailure: { readonly error: unknown } | undefined;
  publishedAtMs: number;
  publishingSinceMs: number;
  /** Counts the requests to publish. The publisher repeats until it has handled the last one. */
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

/** The snapshot to use now. A warm isolate reads nothing. */
export function routing(parts: RoutingParts, state: RoutingState): Promise<VersionedRouting> {
  const age = parts.now() - state.confirmedAtMs;
  if (age < ROUTING_FRESH_MS) return Promise.resolve(state.snapshot);
  const read = () => state.reads.run(ROUTING_KEY, () => confirm(parts, state));
  if (age >= ROUTING_USABLE_MS) return read();
  if (!state.reads.has(ROUTING_KEY)) parts.waitUntil(read().catch(() => undefined));
  return Promise.resolve(state.snapshot);
}

/** Reads the snapshot from KV, or from D1 if KV has none or fails. */
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

/** Looks for a name that the snapshot lacks. Rejects if D1 cannot answer: an outage does not mean an unknown name. */
export async function refresh(parts: RoutingParts, state: RoutingState, asker: string): Promise<VersionedRouting> {
  const known = state.snapshot.version;
  const lookUpNow = () => state.lookUps.run(LOOK_UP, () => lookUp(parts, state, asker));
  if (state.lookUps.has(LOOK_UP)) {
    await lookUpNow();
    // That look-up may have begun before the name was made, so only a newer version settles the question.
    if (state.snapshot.version > known) return state.snapshot;
  }
  const begun = state.lookUpsBegun;
  const waitMs = state.lookedUpAtMs + LOOK_UP_INTERVAL_MS - parts.now();
  if (waitMs <= 0) return lookUpNow();
  throwIfFailed(state);
  const waiting = state.waiting.get(asker, parts.now()) ?? 0;
  if (waiting >= MOST_WAITING || state.vain.get(asker, parts.now())) return state.snapshot;
  // Never decremented, because a call whose client left may stop here at any point. It expires instead.
  state.waiting.set(asker, waiting + 1, parts.now() + LOOK_UP_INTERVAL_MS);
  await pause(Math.min(waitMs, LOOK_UP_INTERVAL_MS));
  // The first caller to wake up starts the look-up. Others join it if it runs, or use its result if it is over.
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

/** Call it after a change of D1. This isolate uses the change at once, the others when they next read KV. */
export async function routingChanged(parts: RoutingParts, state: RoutingState): Promise<void> {
  adopt(parts, state, await readRouting(parts.books, parts.now()));
  state.wishes += 1;
  if (parts.now() - state.publishingSinceMs < PUBLISHER_LIFETIME_MS) return;
  state.publishingSinceMs = parts.now();
  parts.waitUntil(publish(parts, state));
}

/** Writes to KV until KV has D1's version and no further publishing was requested. */
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
      // After its lifetime another publisher has taken over.
      if (state.publishingSinceMs !== sinceMs) return;
    }
  } catch {
    // The scheduled run will publish it.
    parts.log({ event: "routing_not_published" });
  }
  if (state.publishingSinceMs === sinceMs) state.publishingSinceMs = Number.NEGATIVE_INFINITY;
}

const pause = (ms: number): Promise<void> =>
  ms > 0 ? new Promise((resolve) => setTimeout(resolve, ms)) : Promise.resolve();

/**
 * For the scheduled run: publishes what an interrupted publisher left, and raises the version of a D1 that was restored
 * to an older state.
 */
export async function republish(parts: RoutingParts): Promise<"unchanged" | "published"> {
  const published = await readPublished(parts);
  const version = await readRoutingVersion(parts.books);
  if (published?.version === version) return "unchanged";
  if (published && published.version > version) await raiseRoutingVersion(parts.books, published.version);
  await parts.kv.put(ROUTING_KEY, JSON.stringify(await readRouting(parts.books, parts.now())));
  return "published";
}
