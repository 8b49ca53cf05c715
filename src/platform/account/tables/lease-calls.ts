/**
 * Leased calls that were over when they were reported. They have no hold: the row of their lease has their ids and what
 * counts of them, so they cost no row of their own and are found again as long as that row stands.
 */
import type { CallId, KeyId, TeamId } from "../../../core/ids.ts";

export interface EndedCall {
  readonly callId: CallId;
  readonly admittedAtMs: number;
  readonly countedTokens: number;
  readonly seq: number;
  /** Null: it was released. */
  readonly entryId: number | null;
}

/** How `lease_calls` has one call. Its time is counted from the lease's. */
export type StoredCall = readonly [CallId, afterMs: number, tokens: number, seq: number, entryId: number | null];

/** Of `lease_calls`: calls are appended, so there is no bracket around them. */
const callsIn = (stored: string | null): readonly StoredCall[] => JSON.parse(`[${stored ?? ""}]`);

export const idsIn = (stored: string | null): Set<CallId> => new Set(callsIn(stored).map(([callId]) => callId));

interface StoredLease {
  readonly key_id: string;
  readonly team_id: string | null;
  readonly admitted_at_ms: number;
  readonly ended_at_ms: number | null;
  readonly lease_calls: string;
}

/** What the mirrors need of each, as of a hold that has ended. */
export function* endedOf(row: StoredLease) {
  const party = { keyId: row.key_id as KeyId, teamId: row.team_id as TeamId | null };
  for (const [, afterMs, countedTokens, seq] of callsIn(row.lease_calls)) {
    // A clock that was set back moved the lease, and must not move its calls beyond its end.
    const admittedAtMs = Math.min(row.admitted_at_ms + afterMs, row.ended_at_ms ?? Number.POSITIVE_INFINITY);
    yield { ...party, seq, countedTokens, admittedAtMs, open: false, amountNanoUsd: 0, rental: null, lease: null };
  }
}
