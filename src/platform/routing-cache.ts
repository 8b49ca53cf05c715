/**
 * The routing snapshot of one isolate, and its way to the others.
 *
 * The truth is D1; each of its changes raises a version there. KV carries the snapshot to isolates, which read it at most
 * every 10 s and never go back to a lower version than they have. Who changed something reads the books anew, uses
 * that at once, and publishes it: at most one KV write a second, and the writer goes on until what it wrote is
 * the version that D1 has, so two isolates writing at once cannot leave the older one standing. A name that the
 * snapshot lacks is settled by asking D1 for the version alone: higher than ours, and the snapshot is read anew.
 *
 * KV failing costs speed only. With D1 failing too, a snapshot stays in use for 90 s after it was last confirmed.
 */
import { EMPTY_SNAPSHOT } from "../core/routes.ts";
import type { LogLine } from "../gateway/ports.ts";
import { raiseRoutingVersion, readRouting, readRoutingVersion, type VersionedRouting } from "./books/routing.ts";
import { Flights } from "./flights.ts";
import { RecentMap } from "./recent-map.ts";

export const ROUTING_KEY = "routing";
/** How long a snapshot is used without asking. */
export const ROUTING_FRESH_MS = 10_000;
/** Up to this age a call does not wait for the newer one. */
export const ROUTING_USABLE_MS = 20_000;
/** With KV and D1 both failing. */
export const ROUTING_LAST_RESORT_MS = 90_000;
export const PROBE_INTERVAL_MS = 1_000;
export const PUBLISH_INTERVAL_MS = 1_000;
/** A `waitUntil` lives 30 s after the answer: a publisher older than this is taken for dead. */
const PUBLISHER_LIFETIME_MS = 25_000;
const MOST_PROBED_NAMES = 1_000;

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
  readonly probes: Flights<VersionedRouting>;
  /** Names that D1 was asked about lately. */
  readonly probed: RecentMap<string, true>;
  publishedAtMs: number;
  publishingSinceMs: number;
  /** Grows with each wish to publish; the publisher goes on until it has seen the last one. */
  wishes: number;
}

export const newRoutingState = (): RoutingState => ({
  snapshot: { ...EMPTY_SNAPSHOT, version: 0 },
  confirmedAtMs: Number.NEGATIVE_INFINITY,
  reads: new Flights(),
  probes: new Flights(),
  probed: new RecentMap(MOST_PROBED_NAMES),
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

/** For a name that the snapshot lacks. Rejects where D1 cannot say: an outage is not an unknown name. */
export function refresh(parts: RoutingParts, state: RoutingState, name: string): Promise<VersionedRouting> {
  if (state.probed.get(name, parts.now())) return Promise.resolve(state.snapshot);
  return state.probes.run(name, () => probe(parts, state, name));
}

async function probe(parts: RoutingParts, state: RoutingState, name: string): Promise<VersionedRouting> {
  const askedAtMs = parts.now();
  if ((await readRoutingVersion(parts.books)) > state.snapshot.version) {
    adopt(parts, state, await readRouting(parts.books, parts.now()));
  }
  state.probed.set(name, true, askedAtMs + PROBE_INTERVAL_MS);
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

/** Writes to KV until that is what D1 has and nobody here wished for more. */
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
