/**
 * Open leases: hold rows whose `lease` is set. Money and tokens stand where those of any hold do, requests and slots in
 * `lease`. A call of it that was reported already ended stands in `lease_calls`, and there counts in its windows; any
 * other has a hold row of its own. So a closed lease counts nothing by itself; one that expired counts the requests that
 * nobody reported.
 */
import type { LeaseRest, Slice } from "../../../core/account/lease.ts";
import type { CallId, KeyId, TeamId } from "../../../core/ids.ts";
import { OVER_MS } from "../../../core/leases/slice.ts";
import type { Sql } from "../schema.ts";
import { HOLD_KEPT_MS } from "./holds.ts";
import { type EndedCall, idsIn, type StoredCall } from "./lease-calls.ts";
import { type Party, type Subject, subjectsOf } from "./limit-scopes.ts";
import type { Activities } from "./rate-windows.ts";

export interface OpenLease extends Party {
  readonly id: CallId;
  readonly grantedAtMs: number;
  /** It admits nothing more from then on, by the object's clock. Later than granted where the object has restarted. */
  readonly overAtMs: number;
  readonly slice: Slice;
  /** Calls that were reported of it. */
  readonly calls: number;
  /** Those of them that were reported already ended, and have no hold. */
  readonly ended: ReadonlySet<CallId>;
  /** How many it admitted, where its isolate has said so; forgotten at a restart. */
  readonly admitted?: number;
}

type StoredLease = {
  call_id: string;
  key_id: string;
  team_id: string | null;
  amount_nano_usd: number;
  counted_tokens: number;
  admitted_at_ms: number;
  lease: string;
  lease_calls: string | null;
};

/** An open lease, and what the mirrors have of it: it is brought up to date when it is written. */
interface Kept {
  lease: OpenLease;
  counted: Slice;
  readonly ended: Set<CallId>;
  /** Ended calls that the row does not have yet. */
  unwritten: StoredCall[];
}

/** How long nothing is granted after a turn had to wait, ms: longer than until it is tried again. */
const PAUSED_MS = 500;
/** How long after its end a lease may still be closed, ms; later its isolate is taken for dead. */
const CLOSES_WITHIN_MS = 500;

export class Leases {
  readonly #sql: Sql;
  readonly #activities: Activities;
  readonly #open = new Map<CallId, Kept>();
  #pausedUntilMs = Number.NEGATIVE_INFINITY;

  constructor(sql: Sql, activities: Activities, nowMs: number) {
    this.#sql = sql;
    this.#activities = activities;
    const rows = sql.exec<StoredLease>(
      `SELECT call_id, key_id, team_id, amount_nano_usd, counted_tokens, admitted_at_ms, lease, lease_calls
       FROM holds WHERE open = 1 AND lease IS NOT NULL`,
    );
    for (const row of rows) {
      const { requests, slots, calls } = JSON.parse(row.lease) as LeaseRest;
      const id = row.call_id as CallId;
      this.#keep({
        id,
        keyId: row.key_id as KeyId,
        teamId: row.team_id as TeamId | null,
        grantedAtMs: row.admitted_at_ms,
        overAtMs: nowMs + OVER_MS,
        slice: { requests, tokens: row.counted_tokens, slots, nanoUsd: row.amount_nano_usd },
        calls,
        ended: idsIn(row.lease_calls),
      });
    }
  }

  find(id: CallId): OpenLease | undefined {
    return this.#open.get(id)?.lease;
  }

  /** One that is open no more: whether it expired, and its calls that had ended when they were reported. */
  closed(id: CallId): { readonly expired: boolean; readonly ended: ReadonlySet<CallId> } | undefined {
    const [row] = this.#sql
      .exec<{ state: string; calls: string | null }>(
        "SELECT state, lease_calls AS calls FROM holds WHERE call_id = ? AND open = 0",
        id,
      )
      .toArray();
    return row && { expired: row.state === "expired", ended: idsIn(row.calls) };
  }

  all(): readonly OpenLease[] {
    return [...this.#open.values()].map(({ lease }) => lease);
  }

  /** Whether a lease is out whose room may soon come back. */
  soonClosed(nowMs: number): boolean {
    for (const { lease } of this.#open.values()) if (nowMs < lease.overAtMs + CLOSES_WITHIN_MS) return true;
    return false;
  }

  /** Money in leases that may soon come back. */
  soonNanoUsd(nowMs: number): number {
    return this.soonClosed(nowMs) ? this.of("account").nanoUsd : 0;
  }

  /** A turn waits for what is leased out: nothing more is granted meanwhile. */
  pause(nowMs: number): void {
    this.#pausedUntilMs = nowMs + PAUSED_MS;
  }

  paused(nowMs: number): boolean {
    return nowMs < this.#pausedUntilMs;
  }

  /** What all open leases have of one subject. */
  of(subject: Subject): Slice {
    let [requests, tokens, slots, nanoUsd] = [0, 0, 0, 0];
    for (const { lease } of this.#open.values()) {
      if (!subjectsOf(lease).includes(subject)) continue;
      requests += lease.slice.requests;
      tokens += lease.slice.tokens;
      slots += lease.slice.slots;
      nanoUsd += lease.slice.nanoUsd;
    }
    return { requests, tokens, slots, nanoUsd };
  }

  insert(lease: OpenLease, dueMs: number): void {
    this.#sql.exec(
      `INSERT INTO holds (call_id, seq, state, due_ms, key_id, team_id, endpoint, model, alias, amount_nano_usd,
         counted_tokens, output_cap, prices, price_rule, started_at_ms, admitted_at_ms, lease)
       VALUES (?, 0, 'open', ?, ?, ?, 'lease', 'lease', NULL, ?, ?, NULL, '{}', 'lease', ?, ?, ?)`,
      lease.id,
      dueMs,
      lease.keyId,
      lease.teamId,
      lease.slice.nanoUsd,
      lease.slice.tokens,
      lease.grantedAtMs,
      lease.grantedAtMs,
      restOf(lease),
    );
    this.#keep(lease);
  }

  /** Sets what is left of it; nothing else changes until it is written. */
  set(id: CallId, slice: Slice, calls: number): void {
    const kept = this.#open.get(id);
    if (kept) kept.lease = { ...kept.lease, slice, calls };
  }

  /** A call of it has ended that has no hold. Stands in its row once that is written. */
  endedCall(id: CallId, { callId, admittedAtMs, countedTokens, seq, entryId }: EndedCall): void {
    const kept = this.#open.get(id);
    if (!kept) return;
    kept.ended.add(callId);
    kept.unwritten.push([callId, admittedAtMs - kept.lease.grantedAtMs, countedTokens, seq, entryId]);
  }

  /** Its isolate has returned it, and some of its calls are still to come. */
  returned(id: CallId, admitted: number): void {
    const kept = this.#open.get(id);
    if (kept) kept.lease = { ...kept.lease, admitted };
  }

  /** Gives by how much more money it holds than before: never more than nothing. */
  write(id: CallId, dueMs: number): number {
    const kept = this.#open.get(id);
    if (!kept) return 0;
    const { lease, counted } = kept;
    this.#sql.exec(
      `UPDATE holds SET due_ms = ?, amount_nano_usd = ?, counted_tokens = ?, lease = ?, lease_calls = ${APPENDED}
       WHERE call_id = ? AND state = 'open'`,
      dueMs,
      lease.slice.nanoUsd,
      lease.slice.tokens,
      restOf(lease),
      ...linesOf(kept),
      id,
    );
    kept.unwritten = [];
    kept.counted = lease.slice;
    this.#activities.leased(lease, difference(lease.slice, counted));
    return lease.slice.nanoUsd - counted.nanoUsd;
  }

  /** All its calls are known. Its row keeps nothing to count but them. Gives the money that it held. */
  close(id: CallId, nowMs: number): number {
    const kept = this.#open.get(id);
    if (!kept) return 0;
    this.#sql.exec(
      `UPDATE holds SET state = 'released', counted_tokens = 0, ended_at_ms = ?, due_ms = ?, amount_nano_usd = ?,
         lease = ?, lease_calls = ${APPENDED} WHERE call_id = ? AND state = 'open'`,
      nowMs,
      nowMs + HOLD_KEPT_MS,
      kept.lease.slice.nanoUsd,
      restOf({ ...kept.lease, slice: { ...kept.lease.slice, requests: 0 } }),
      ...linesOf(kept),
      id,
    );
    const { nanoUsd } = kept.counted;
    this.ended(id);
    return nanoUsd;
  }

  /** The hold row has ended: frees what the lease had. */
  ended(id: CallId): void {
    const kept = this.#open.get(id);
    if (!kept) return;
    this.#activities.leased(kept.lease, difference(NOTHING, kept.counted));
    this.#open.delete(id);
  }

  #keep(lease: OpenLease): void {
    this.#activities.leased(lease, lease.slice);
    const ended = new Set(lease.ended);
    this.#open.set(lease.id, { lease: { ...lease, ended }, counted: lease.slice, ended, unwritten: [] });
  }
}

const NOTHING: Slice = { requests: 0, tokens: 0, slots: 0, nanoUsd: 0 };
const difference = (now: Slice, before: Slice): Slice => ({
  requests: now.requests - before.requests,
  tokens: now.tokens - before.tokens,
  slots: now.slots - before.slots,
  nanoUsd: now.nanoUsd - before.nanoUsd,
});

/** Of `lease_calls`, with the two values of `linesOf`. */
const APPENDED = "coalesce(lease_calls || ',' || ?, ?, lease_calls)";

function linesOf({ unwritten }: Kept): readonly [string | null, string | null] {
  const lines = unwritten.length === 0 ? null : JSON.stringify(unwritten).slice(1, -1);
  return [lines, lines];
}

const restOf = ({ slice: { requests, slots }, calls }: OpenLease): string =>
  JSON.stringify({ requests, slots, calls } satisfies LeaseRest);
