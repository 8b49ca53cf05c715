/**
 * The ledger's rows: append-only entries, each with the balance after it. The last entry's balance is the account's; it
 * is kept in memory, so appending reads nothing. Old charges leave once the archive has them (parts.ts): what is said
 * of entries here is of those above `parts.foldedThrough`, and of credits, which stay.
 */

import type { Credit, EntryKind, LedgerEntry, Page, PageRequest } from "../../../core/account/tenant.ts";
import type { LedgerLine } from "../../../core/archive/ledger-line.ts";
import type { CallId, KeyId, TeamId } from "../../../core/ids.ts";
import type { Sql } from "../schema.ts";
import { pageOf } from "./pages.ts";
import { Parts } from "./parts.ts";

type StoredEntry = {
  seq: number;
  kind: string;
  amount_nano_usd: number;
  balance_nano_usd: number;
  at_ms: number;
  call_id: string | null;
  model: string | null;
  key_id: string | null;
  reference: string | null;
  note: string | null;
};

/** A charge to enter. */
export interface Charge {
  readonly callId: CallId;
  readonly model: string;
  readonly keyId: KeyId;
  readonly teamId: TeamId | null;
  /** Negative: a late correction gives back. */
  readonly chargedNanoUsd: number;
  readonly atMs: number;
  /** The time whose budget windows the charge counts in; null: `atMs`. */
  readonly countsAtMs: number | null;
}

const COLUMNS = "id AS seq, kind, amount_nano_usd, balance_nano_usd, at_ms, call_id, model, key_id, reference, note";

export class Ledger {
  readonly parts: Parts;
  readonly #sql: Sql;
  #balanceNanoUsd = 0;
  #lastId = 0;

  constructor(sql: Sql) {
    this.#sql = sql;
    this.parts = new Parts(sql);
    const [last] = sql
      .exec<{ id: number; balance: number }>(
        "SELECT id, balance_nano_usd AS balance FROM entries ORDER BY id DESC LIMIT 1",
      )
      .toArray();
    if (last) {
      this.#lastId = last.id;
      this.#balanceNanoUsd = last.balance;
    }
    // Of an account at rest the last charge may have left.
    const { lastId, balanceNanoUsd } = this.parts.last ?? { lastId: 0, balanceNanoUsd: 0 };
    if (lastId > this.#lastId) [this.#lastId, this.#balanceNanoUsd] = [lastId, balanceNanoUsd];
  }

  get lastId(): number {
    return this.#lastId;
  }
  get balanceNanoUsd(): number {
    return this.#balanceNanoUsd;
  }

  /** Enters what a call was charged, even if it is zero, and returns the entry's id. */
  charge(charge: Charge): number {
    const { balanceNanoUsd } = this.#next(0 - charge.chargedNanoUsd, charge.atMs);
    this.#sql.exec(
      `INSERT INTO entries (id, kind, amount_nano_usd, balance_nano_usd, at_ms, call_id, model, key_id, team_id,
         counts_at_ms)
       VALUES (?, 'charge', ?, ?, ?, ?, ?, ?, ?, ?)`,
      this.#lastId,
      0 - charge.chargedNanoUsd,
      balanceNanoUsd,
      charge.atMs,
      charge.callId,
      charge.model,
      charge.keyId,
      charge.teamId,
      charge.countsAtMs,
    );
    return this.#lastId;
  }

  /** Gives back a part of what a rental was charged, as an entry that names its period. */
  correct(
    { callId, model, keyId, teamId }: Pick<Charge, "callId" | "model" | "keyId" | "teamId">,
    givenNanoUsd: number,
    atMs: number,
    countsAtMs: number,
  ): number {
    const { balanceNanoUsd } = this.#next(givenNanoUsd, atMs);
    this.#sql.exec(
      `INSERT INTO entries (id, kind, amount_nano_usd, balance_nano_usd, at_ms, counts_at_ms, call_id, model, key_id, team_id)
       VALUES (?, 'correction', ?, ?, ?, ?, ?, ?, ?, ?)`,
      this.#lastId,
      givenNanoUsd,
      balanceNanoUsd,
      atMs,
      countsAtMs,
      callId,
      model,
      keyId,
      teamId,
    );
    return this.#lastId;
  }

  credit(credit: Credit, atMs: number): LedgerEntry {
    const { balanceNanoUsd } = this.#next(credit.amountNanoUsd, atMs);
    this.#sql.exec(
      `INSERT INTO entries (id, kind, amount_nano_usd, balance_nano_usd, at_ms, reference, note, call_id)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
      this.#lastId,
      credit.kind,
      credit.amountNanoUsd,
      balanceNanoUsd,
      atMs,
      credit.reference,
      credit.note,
      credit.callId ?? null,
    );
    const { kind, amountNanoUsd, reference, note, callId = null } = credit;
    const id = this.#lastId;
    return { id, kind, amountNanoUsd, balanceNanoUsd, atMs, callId, model: null, keyId: null, reference, note };
  }

  /**
   * What a call was charged by the entries from `afterId` (exclusive) to `throughId`; undefined if it has none there.
   * What the operator corrected about it by hand, under a reference, is not among them.
   */
  chargedBetween(callId: CallId, afterId: number, throughId: number): number | undefined {
    const { charged } = this.#sql
      .exec<{ charged: number | null }>(
        "SELECT sum(amount_nano_usd) AS charged FROM entries WHERE id > ? AND id <= ? AND call_id = ? AND reference IS NULL",
        afterId,
        throughId,
        callId,
      )
      .one();
    return charged === null ? undefined : 0 - charged;
  }

  /**
   * The last entry before a time, by halving: entries stand in the order of their times. A clock that was set back far
   * leaves a place where they do not, and a span there may begin at a neighbour. Where charges were folded it is the
   * last entry of a part, which is exact for whole hours.
   */
  lastBefore(ms: number): { id: number; balanceNanoUsd: number } {
    const folded = this.parts.foldedBefore(ms);
    let [low, high] = [folded?.lastId ?? 0, this.#lastId];
    let balanceNanoUsd = folded?.balanceNanoUsd ?? 0;
    if (low < this.parts.foldedThrough) return { id: low, balanceNanoUsd };
    while (low < high) {
      const middle = Math.ceil((low + high) / 2);
      const [entry] = this.#sql
        .exec<{ at: number; balance: number }>(
          "SELECT at_ms AS at, balance_nano_usd AS balance FROM entries WHERE id = ?",
          middle,
        )
        .toArray();
      if (entry && entry.at < ms) [low, balanceNanoUsd] = [middle, entry.balance];
      else high = middle - 1;
    }
    return { id: low, balanceNanoUsd };
  }

  /**
   * What was booked under a reference after one entry and up to another, oldest first: `limit` of them, the sum of all.
   */
  creditsBetween(afterId: number, throughId: number, limit: number) {
    const those = "FROM entries INDEXED BY entries_reference WHERE reference IS NOT NULL AND id > ? AND id <= ?";
    const { count, sum } = this.#sql
      .exec<{ count: number; sum: string }>(
        `SELECT count(*) AS count, CAST(coalesce(sum(amount_nano_usd), 0) AS TEXT) AS sum ${those}`,
        afterId,
        throughId,
      )
      .one();
    const rows = this.#sql.exec<StoredEntry>(
      `SELECT ${COLUMNS} ${those} ORDER BY id LIMIT ?`,
      afterId,
      throughId,
      limit,
    );
    return { creditsNanoUsd: BigInt(sum), creditCount: count, credits: rows.toArray().map(toEntry) };
  }

  /** The account is closed: what somebody wrote beside a credit may name a person. Its reference stays. */
  forgetNotes(): void {
    this.#sql.exec("UPDATE entries SET note = NULL WHERE reference IS NOT NULL AND note IS NOT NULL");
  }

  byReference(reference: string): LedgerEntry | undefined {
    const [stored] = this.#sql
      .exec<StoredEntry>(`SELECT ${COLUMNS} FROM entries WHERE reference = ?`, reference)
      .toArray();
    return stored && toEntry(stored);
  }

  /** Newest first, down to what is read from the archive: then the cursor goes on there. */
  entries(page: PageRequest): Page<LedgerEntry> {
    const { foldedThrough } = this.parts;
    const found = pageOf(page, "descending", toEntry, (before, limit) =>
      this.#sql.exec<StoredEntry>(
        `SELECT ${COLUMNS} FROM entries WHERE id < ? AND id > ? ORDER BY id DESC LIMIT ?`,
        before,
        foldedThrough,
        limit,
      ),
    );
    if (found.nextCursor !== null) return found;
    const next = Math.min(page.cursor === null ? Number.POSITIVE_INFINITY : Number(page.cursor), foldedThrough + 1);
    return next > 1 ? { ...found, nextCursor: String(next) } : found;
  }

  /** Entries that may have been booked between two times. Where charges were folded it is by whole parts. */
  between(fromMs: number, toMs: number): { afterId: number; throughId: number } {
    const { id } = this.lastBefore(toMs);
    const throughId = id < this.parts.foldedThrough ? (this.parts.foldedHoursBefore(toMs) ?? id) : id;
    return { afterId: this.lastBefore(fromMs).id, throughId };
  }

  /** Entries after one, oldest first, as the archive has them. */
  lines(afterId: number, limit: number): readonly LedgerLine[] {
    return this.#sql
      .exec<StoredEntry & { team_id: string | null; counts_at_ms: number | null }>(
        `SELECT ${COLUMNS}, team_id, counts_at_ms FROM entries WHERE id > ? ORDER BY id LIMIT ?`,
        afterId,
        limit,
      )
      .toArray()
      .map((stored) => ({ ...toEntry(stored), teamId: stored.team_id, countsAtMs: stored.counts_at_ms }));
  }

  #next(amountNanoUsd: number, atMs: number): { balanceNanoUsd: number } {
    this.parts.entered(atMs);
    this.#lastId += 1;
    this.#balanceNanoUsd += amountNanoUsd;
    return { balanceNanoUsd: this.#balanceNanoUsd };
  }
}

function toEntry(stored: StoredEntry): LedgerEntry {
  return {
    id: stored.seq,
    kind: stored.kind as EntryKind,
    amountNanoUsd: stored.amount_nano_usd,
    balanceNanoUsd: stored.balance_nano_usd,
    atMs: stored.at_ms,
    callId: stored.call_id as CallId | null,
    model: stored.model,
    keyId: stored.key_id as KeyId | null,
    reference: stored.reference,
    note: stored.note,
  };
}
