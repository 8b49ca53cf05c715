/**
 * Keys and routing at the edge: the gateway's `Directory`, and how the operator's API reports changes to it.
 *
 * This folder caches what calls need before they reach their account object. Nothing here decides whether a call is
 * allowed. `EdgeState` lives as long as the isolate, everything else for one request. The caches' rules are in
 * key-cache.ts and routing-cache.ts.
 */
import type { KeyDigest } from "../../core/ids.ts";
import type { Directory } from "../../gateway/ports.ts";
import {
  type CallerCache,
  dropRecords,
  type EdgeKeyParts,
  type EdgeRecord,
  findCaller,
  newCallerCache,
  recentCaller,
  writeRecord,
} from "./key-cache.ts";
import {
  newRoutingState,
  type RoutingParts,
  type RoutingState,
  refresh,
  routing,
  routingChanged,
} from "./routing-cache.ts";

/** What an isolate caches of keys and routing; shared by all its requests. */
export interface EdgeState {
  readonly callers: CallerCache;
  readonly routing: RoutingState;
}
export const newEdgeState = (): EdgeState => ({ callers: newCallerCache(), routing: newRoutingState() });

export type DirectoryParts = EdgeKeyParts & RoutingParts;

/** Changes that the operator's API reports to the edge. */
export interface EdgeNotices {
  /** Upstreams, aliases, instances or models changed in D1. */
  routingChanged(): Promise<void>;
  keyMade(digest: KeyDigest, record: EdgeRecord): void;
  keysDropped(digests: readonly KeyDigest[]): void;
}

export function openDirectory(parts: DirectoryParts, state: EdgeState): Directory & EdgeNotices {
  return {
    findCaller: (number, digest) => findCaller(parts, state.callers, number, digest),
    recentCaller: (digest) => recentCaller(parts, state.callers, digest),
    routing: () => routing(parts, state.routing),
    refresh: (asker) => refresh(parts, state.routing, asker),
    routingChanged: () => routingChanged(parts, state.routing),
    keyMade: (digest, record) => parts.waitUntil(writeRecord(parts, digest, record)),
    keysDropped: (digests) => parts.waitUntil(dropRecords(parts, state.callers, digests)),
  };
}
