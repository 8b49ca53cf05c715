/**
 * Hold rows: one per admitted call, inserted at admission, updated once when it ends, deleted an hour later, or a day
 * later if it expired. A single index on (open, due) finds the open holds, the due ones and those that may be deleted.
 *
 * This folder has one class per table of the account object: it reads and writes the table's rows and keeps their
 * mirror in memory, inside the caller's transaction. It must not know the rules by which calls are admitted, charged or
 * refused; those are one folder up and in core.
 */
import type { HeldCall, HoldEnd, Progress } from "../../../core/account/hold.ts";
import type { LeaseRest } from "../../../core/account/lease.ts";
import type { CallId, KeyId, TeamId } from "../../../core/ids.ts";
import type { UnitPrices } from "../../../core/pricing/prices.ts";
import { earliest } from "../earliest.ts";
import type { Sql } from "../schema.ts";
import { endedOf } from "./lease-calls.ts";
import type { Party } from "./limit-scopes.ts";

export type HoldState = "open" | Exclude<HoldEnd["state"], "unknown">;

/** A new hold. */
export interface NewHold extends Party, HeldCall {
  readonly admittedAtMs: number;
  readonly expiresAtMs: number;
  /** The resource whose time this hold pays; null: a call's. Such a hold takes no slot, request or token. */
  readonly rental: number | null;
}

/** A rental's hold does not expire. */
export const NEVER_MS = 8_640_000_000_000_000;

export interface HoldRow extends NewHold {
  readonly lease: LeaseRest | null;
  readonly state: HoldState;
  readonly chargedNanoUsd: number;
  /** The usage that the last renewal reported. */
  readonly progress: Progress | null;
  /** True once a late end has corrected an expired hold; further ends are ignored. */
  readonly corrected: boolean;
  readonly endedAtMs: number | null;
}

/** How long holds live. */
export interface HoldTimes {
  /** Without a renewal, ms. */
  readonly ttlMs: number;
  /** With any number of renewals, ms; at least twice `ttlMs`. A job's hold has its own time. */
  readonly longestMs: number;
}

/** What the mirrors need of a hold. */
export interface RecentHold
  extends Pick<HoldRow, "keyId" | "teamId" | "amountNanoUsd" | "countedTokens" | "admittedAtMs" | "rental" | "lease"> {
  readonly seq: number;
  readonly open: boolean;
}

/** How an open hold becomes an ended one. */
export interface Ending {
  readonly state: Exclude<HoldState, "open">;
  readonly chargedNanoUsd: number;
  readonly countedTokens: number;
  readonly endedAtMs: number;
  readonly entryId: number | null;
}

/** How long after its end the row of an expired hold is kept, ms: a late end corrects it. `due_ms` says this of any. */
export const HOLD_KEPT_MS = 25 * 3_600_000;
/** How much sooner a settled or released one goes: an end that comes after that finds its entry in the ledger. */
const ENDED_SOONER_MS = 24 * 3_600_000;

/** When the row of a hold that ends now may go. */
export const goesAtMs = ({ state, endedAtMs }: Pick<Ending, "state" | "endedAtMs">): number =>
  endedAtMs + HOLD_KEPT_MS - (state === "expired" ? 0 : ENDED_SOONER_MS);

type StoredHold = {
  call_id: string;
  state: string;
  due_ms: number;
  key_id: string;
  team_id: string | null;
  endpoint: string;
  model: string;
  alias: string | null;
  amount_nano_usd: number;
  charged_nano_usd: number;
  counted_tokens: number;
  output_cap: number | null;
  prices: string;
  price_rule: string;
  started_at_ms: number;
  admitted_at_ms: number;
  ended_at_ms: number | null;
  progress: string | null;
  corrected: number;
  rental: number | null;
  lease: string | null;
};
type StoredRecent = {
  seq: number;
  open: number;
  key_id: string;
  team_id: string | null;
  amount_nano_usd: number;
  counted_tokens: number;
  admitted_at_ms: number;
  ended_at_ms: number | null;
  rental: number | null;
  lease: string | null;
  lease_calls: string | null;
};

export class Holds {
  readonly #sql: Sql;

  constructor(sql: Sql) {
    this.#sql = sql;
  }

  insert(hold: NewHold, seq: number): void {
    this.#sql.exec(
      `INSERT INTO holds (call_id, seq, state, due_ms, key_id, team_id, endpoint, model, alias, amount_nano_usd,
         counted_tokens, output_cap, prices, price_rule, started_at_ms, admitted_at_ms, rental)
       VALUES (?, ?, 'open', ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
      hold.callId,
      seq,
      hold.expiresAtMs,
      hold.keyId,
      hold.teamId,
      hold.endpoint,
      hold.model,
      hold.alias,
      hold.amountNanoUsd,
      hold.countedTokens,
      hold.outputCap ?? null,
      JSON.stringify(hold.prices),
      hold.priceRule,
      hold.startedAtMs,
      hold.admittedAtMs,
      hold.rental,
    );
  }

  /** Sets the amount of an open hold. */
  resize(callId: CallId, amountNanoUsd: number): void {
    this.#sql.exec("UPDATE holds SET amount_nano_usd = ? WHERE call_id = ? AND state = 'open'", amountNanoUsd, callId);
  }

  find(callId: CallId): HoldRow | undefined {
    const [stored] = this.#sql.exec<StoredHold>("SELECT * FROM holds WHERE call_id = ?", callId).toArray();
    return stored && toHold(stored);
  }

  end(callId: CallId, ending: Ending): void {
    this.#sql.exec(
      `UPDATE holds SET state = ?, charged_nano_usd = ?, counted_tokens = ?, ended_at_ms = ?, due_ms = ?, entry_id = ?
       WHERE call_id = ? AND state = 'open'`,
      ending.state,
      ending.chargedNanoUsd,
      ending.countedTokens,
      ending.endedAtMs,
      ending.endedAtMs + HOLD_KEPT_MS,
      ending.entryId,
      callId,
    );
  }

  /** A null `progress` keeps what was reported before. */
  renew(callId: CallId, expiresAtMs: number, progress: Progress | null): void {
    this.#sql.exec(
      "UPDATE holds SET due_ms = ?, progress = coalesce(?, progress) WHERE call_id = ? AND state = 'open'",
      expiresAtMs,
      progress && JSON.stringify(progress),
      callId,
    );
  }

  /** Records the late end of an expired hold. */
  correct(callId: CallId, chargedNanoUsd: number, entryId: number | null): void {
    this.#sql.exec(
      `UPDATE holds SET charged_nano_usd = ?, late_entry_id = ?, corrected = 1
       WHERE call_id = ? AND state = 'expired' AND corrected = 0`,
      chargedNanoUsd,
      entryId,
      callId,
    );
  }

  /** Open holds of calls whose last renewal names this upstream, and those that were not renewed yet. */
  callsAt(upstream: string): { readonly calls: number; readonly youngCalls: number } {
    const { there, young } = this.#sql
      .exec<{ there: number; young: number }>(
        `SELECT count(*) FILTER (WHERE json_extract(progress, '$.servedBy.upstream') = ?) AS there,
           count(*) FILTER (WHERE progress IS NULL AND NOT EXISTS (SELECT 1 FROM jobs WHERE jobs.call_id = holds.call_id)) AS young
         FROM holds WHERE open = 1 AND rental IS NULL`,
        upstream,
      )
      .one();
    return { calls: there, youngCalls: young };
  }

  /** Open holds past their time, oldest first. */
  due(nowMs: number, limit: number): readonly HoldRow[] {
    const rows = this.#sql.exec<StoredHold>(
      "SELECT * FROM holds WHERE open = 1 AND due_ms <= ? ORDER BY due_ms LIMIT ?",
      nowMs,
      limit,
    );
    return rows.toArray().map(toHold);
  }

  nextExpiryMs(): number | null {
    const { at } = this.#sql.exec<{ at: number | null }>("SELECT min(due_ms) AS at FROM holds WHERE open = 1").one();
    return at === NEVER_MS ? null : at;
  }

  /** Reads past the expired holds of a day, and no others. */
  nextPruneMs(): number | null {
    const first = (state: string, soonerMs: number) =>
      this.#sql
        .exec<{ at: number }>(
          `SELECT due_ms - ? AS at FROM holds WHERE open = 0 AND ${state} ORDER BY due_ms LIMIT 1`,
          soonerMs,
        )
        .toArray()[0]?.at ?? null;
    return earliest([first("state <> 'expired'", ENDED_SOONER_MS), first("true", 0)]);
  }

  /** Deletes at most `limit` ended rows whose time is over. */
  prune(nowMs: number, limit: number): void {
    this.#sql.exec(
      `DELETE FROM holds WHERE call_id IN
         (SELECT call_id FROM holds WHERE open = 0 AND due_ms <= ?1 + ?2 AND (state <> 'expired' OR due_ms <= ?1)
          ORDER BY due_ms LIMIT ?3)`,
      nowMs,
      ENDED_SOONER_MS,
      limit,
    );
  }

  /**
   * All open holds and those that ended at `sinceMs` or later, and the ended calls of such leases; this includes all
   * that was admitted since then.
   */
  *recent(sinceMs: number): Iterable<RecentHold> {
    const columns =
      "seq, open, key_id, team_id, amount_nano_usd, counted_tokens, admitted_at_ms, ended_at_ms, rental, lease, lease_calls";
    const rows = this.#sql.exec<StoredRecent>(
      `SELECT ${columns} FROM holds WHERE open = 1 UNION ALL SELECT ${columns} FROM holds WHERE open = 0 AND due_ms >= ?`,
      sinceMs + HOLD_KEPT_MS,
    );
    for (const row of rows) {
      yield {
        seq: row.seq,
        open: row.open === 1,
        keyId: row.key_id as KeyId,
        teamId: row.team_id as TeamId | null,
        amountNanoUsd: row.amount_nano_usd,
        countedTokens: row.counted_tokens,
        admittedAtMs: row.admitted_at_ms,
        rental: row.rental,
        lease: restIn(row.lease),
      };
      if (row.lease_calls !== null) yield* endedOf({ ...row, lease_calls: row.lease_calls });
    }
  }
}

function toHold(stored: StoredHold): HoldRow {
  return {
    callId: stored.call_id as CallId,
    state: stored.state as HoldState,
    keyId: stored.key_id as KeyId,
    teamId: stored.team_id as TeamId | null,
    endpoint: stored.endpoint,
    model: stored.model,
    alias: stored.alias,
    amountNanoUsd: stored.amount_nano_usd,
    chargedNanoUsd: stored.charged_nano_usd,
    countedTokens: stored.counted_tokens,
    outputCap: stored.output_cap ?? undefined,
    prices: JSON.parse(stored.prices) as UnitPrices,
    priceRule: stored.price_rule,
    startedAtMs: stored.started_at_ms,
    admittedAtMs: stored.admitted_at_ms,
    expiresAtMs: stored.due_ms,
    progress: stored.progress === null ? null : (JSON.parse(stored.progress) as Progress),
    corrected: stored.corrected === 1,
    endedAtMs: stored.ended_at_ms,
    rental: stored.rental,
    lease: restIn(stored.lease),
  };
}

const restIn = (stored: string | null): LeaseRest | null => (stored === null ? null : JSON.parse(stored));
