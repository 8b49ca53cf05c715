/**
 * Open leases: hold rows whose `lease` is set. Money and tokens stand where those of any hold do, requests and slots in
 * `lease`. What a lease admitted has hold rows of its own, so a closed lease counts nothing; one that expired counts
 * the requests that nobody reported.
 */
import type { LeaseRest, Slice } from "../../../core/account/lease.ts";
import type { CallId, KeyId, TeamId } from "../../../core/ids.ts";
import { OVER_MS } from "../../../core/leases/slice.ts";
import type { Sql } from "../schema.ts";
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
};

/** How long after its end a lease may still be closed, ms; later its isolate is taken for dead. */
const CLOSES_WITHIN_MS = 500;

export class Leases {
  readonly #sql: Sql;
  readonly #activities: Activities;
  readonly #open = new Map<CallId, OpenLease>();

  constructor(sql: Sql, activities: Activities, nowMs: number) {
    this.#sql = sql;
    this.#activities = activities;
    const rows = sql.exec<StoredLease>(
      `SELECT call_id, key_id, team_id, amount_nano_usd, counted_tokens, admitted_at_ms, lease
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
      });
    }
  }

  find(id: CallId): OpenLease | undefined {
    return this.#open.get(id);
  }

  all(): readonly OpenLease[] {
    return [...this.#open.values()];
  }

  /** Whether a lease is out whose room may soon come back. */
  soonClosed(nowMs: number): boolean {
    for (const { overAtMs } of this.#open.values()) if (nowMs < overAtMs + CLOSES_WITHIN_MS) return true;
    return false;
  }

  /** What all open leases have of one subject. */
  of(subject: Subject): Slice {
    let [requests, tokens, slots, nanoUsd] = [0, 0, 0, 0];
    for (const lease of this.#open.values()) {
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

  /** Sets what is left of it; in memory until it is written. */
  set(lease: OpenLease, slice: Slice, calls: number): void {
    this.ended(lease.id);
    this.#keep({ ...lease, slice, calls });
  }

  /** Its isolate has returned it, and some of its calls are still to come. */
  returned({ id }: OpenLease, admitted: number): void {
    const lease = this.#open.get(id);
    if (lease) this.#open.set(id, { ...lease, admitted });
  }

  write(id: CallId, dueMs: number): void {
    const lease = this.#open.get(id);
    if (!lease) return;
    this.#sql.exec(
      `UPDATE holds SET due_ms = ?, amount_nano_usd = ?, counted_tokens = ?, lease = ?
       WHERE call_id = ? AND state = 'open'`,
      dueMs,
      lease.slice.nanoUsd,
      lease.slice.tokens,
      restOf(lease),
      id,
    );
  }

  /** The hold row has ended: frees what the lease had. */
  ended(id: CallId): void {
    const lease = this.#open.get(id);
    if (!lease) return;
    const { requests, tokens, slots, nanoUsd } = lease.slice;
    this.#activities.leased(lease, { requests: -requests, tokens: -tokens, slots: -slots, nanoUsd: -nanoUsd });
    this.#open.delete(id);
  }

  #keep(lease: OpenLease): void {
    this.#activities.leased(lease, lease.slice);
    this.#open.set(lease.id, lease);
  }
}

const restOf = ({ slice: { requests, slots }, calls }: OpenLease): string =>
  JSON.stringify({ requests, slots, calls } satisfies LeaseRest);
