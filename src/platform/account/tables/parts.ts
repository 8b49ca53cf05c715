/**
 * The parts of this account's ledger in the archive, and the sums of charges that were folded. A part is `planned`
 * before it is put, `kept` once it was read back and matched, `folded` from the first charge of it that leaves. Parts
 * are planned and folded in their order, so what is folded is the ledger's beginning.
 */
import type { LedgerPart, PartsAsked } from "../../../core/archive/archived-ledger.ts";
import { closesAtMs, type DetailLimits, FOLDED_AT_ONCE, foldsAtMs, type LastPart } from "../../../core/archive/cut.ts";
import { HOUR_MS } from "../../../core/archive/part.ts";
import { type PartRow, recordOf } from "../../archive/part-row.ts";
import type { Sql } from "../schema.ts";

type Stored = PartRow & {
  state: string;
  more: number;
  first_id: number;
  last_id: number;
  balance_nano_usd: number;
  folded_through: number;
};

/** Parts in one answer. */
const MOST_PARTS = 500;

export class Parts {
  readonly #sql: Sql;
  /** The last one, in any state. */
  #last: Stored | undefined;
  /** The first one that has charges left in the ledger, if it is kept. */
  #toFold: Stored | undefined;
  /** Entries up to this one are read from the archive. */
  #foldedThrough = 0;
  /** When the first entry was booked that is in no part; null: there is none. */
  #unwrittenSinceMs: number | null;

  constructor(sql: Sql) {
    this.#sql = sql;
    this.#read();
    this.#unwrittenSinceMs = this.#firstUnwritten();
  }

  get last(): Pick<LedgerPart, "lastId" | "balanceNanoUsd"> | undefined {
    return this.#last && { lastId: this.#last.last_id, balanceNanoUsd: this.#last.balance_nano_usd };
  }
  get foldedThrough(): number {
    return this.#foldedThrough;
  }
  get unwrittenSinceMs(): number | null {
    return this.#unwrittenSinceMs;
  }

  /** An entry was booked. */
  entered(atMs: number): void {
    this.#unwrittenSinceMs ??= atMs;
  }

  /** What the next part goes on from. */
  before(): { readonly n: number; readonly lastId: number; readonly last: LastPart | null } {
    const part = this.#last;
    if (!part) return { n: 0, lastId: 0, last: null };
    return { n: part.n, lastId: part.last_id, last: { hourMs: part.hour_ms, more: part.more === 1 } };
  }

  /** When there is something to archive or to fold; infinite: never. `lastId`: the ledger's. */
  nextDueMs(limits: DetailLimits, lastId: number): number {
    if (this.#last?.state === "planned") return 0;
    const sinceMs = this.#unwrittenSinceMs;
    const closesMs = sinceMs === null ? Number.POSITIVE_INFINITY : closesAtMs(this.before().last, sinceMs);
    return Math.min(closesMs, this.foldsAtMs(limits, lastId));
  }

  foldsAtMs(limits: DetailLimits, lastId: number): number {
    if (!this.#toFold) return Number.POSITIVE_INFINITY;
    return foldsAtMs(this.#toFold.hour_ms, lastId - this.#foldedThrough, limits);
  }

  /** A part that may have been put: the next one is planned only after it is kept. */
  planned(account: number): LedgerPart | undefined {
    return this.#last?.state === "planned" ? toPart(this.#last, account) : undefined;
  }

  plan(part: LedgerPart): void {
    this.#sql.exec(
      `INSERT INTO parts (n, state, hour_ms, more, first_id, last_id, lines, nano_usd, balance_nano_usd, bytes,
         footer_bytes, blocks, sha256, etag) VALUES (?, 'planned', ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, '')
       ON CONFLICT (n) DO UPDATE SET bytes = excluded.bytes, footer_bytes = excluded.footer_bytes,
         blocks = excluded.blocks, sha256 = excluded.sha256`,
      part.n,
      part.hourMs,
      part.more ? 1 : 0,
      part.firstId,
      part.lastId,
      part.lines,
      part.nanoUsd,
      part.balanceNanoUsd,
      part.bytes,
      part.footerBytes,
      JSON.stringify(part.blocks),
      part.sha256,
    );
    this.#read();
    this.#unwrittenSinceMs = this.#firstUnwritten();
  }

  keep(n: number, etag: string): void {
    this.#sql.exec("UPDATE parts SET state = 'kept', etag = ? WHERE n = ? AND state = 'planned'", etag, n);
    this.#read();
  }

  /** The oldest part with charges to fold; `begins`: none of them has left yet. */
  toFold(account: number): (LedgerPart & { readonly begins: boolean }) | undefined {
    const part = this.#toFold;
    return part && { ...toPart(part, account), begins: part.state === "kept" };
  }

  /** Folds charges of the oldest part that has some. Call it only when it is due. */
  fold(): void {
    const part = this.#toFold;
    if (!part) return;
    const from = Math.max(part.folded_through, part.first_id - 1);
    const those = `FROM (SELECT * FROM entries WHERE id > ?1 AND id <= ?2 AND kind = 'charge' ORDER BY id LIMIT ${FOLDED_AT_ONCE})`;
    const { lines, nanoUsd, through } = this.#sql
      .exec<{ lines: number; nanoUsd: number; through: number | null }>(
        `SELECT count(*) AS lines, coalesce(sum(amount_nano_usd), 0) AS nanoUsd, max(id) AS through ${those}`,
        from,
        part.last_id,
      )
      .one();
    this.#sql.exec(
      `INSERT INTO folded SELECT at_ms / 86400000, key_id, coalesce(team_id, ''), model, count(*), sum(amount_nano_usd)
       ${those} WHERE true GROUP BY 1, 2, 3, 4
       ON CONFLICT DO UPDATE SET lines = lines + excluded.lines, nano_usd = nano_usd + excluded.nano_usd`,
      from,
      part.last_id,
    );
    const end = lines < FOLDED_AT_ONCE || through === null ? part.last_id : through;
    this.#sql.exec("DELETE FROM entries WHERE id > ? AND id <= ? AND kind = 'charge'", from, end);
    this.#sql.exec(
      `UPDATE parts SET state = 'folded', folded_through = ?, folded_lines = folded_lines + ?,
         folded_nano_usd = folded_nano_usd + ? WHERE n = ?`,
      end,
      lines,
      nanoUsd,
      part.n,
    );
    this.#read();
  }

  /** Whether a call of the next charges to fold has a hold yet: what ends it late looks for the charge. */
  foldAwaited(): boolean {
    const part = this.#toFold;
    if (!part) return false;
    return (
      this.#sql
        .exec(
          `SELECT 1 FROM (SELECT call_id FROM entries WHERE id > ? AND id <= ? AND kind = 'charge' ORDER BY id LIMIT ${FOLDED_AT_ONCE}) AS next
           CROSS JOIN holds ON holds.call_id = next.call_id LIMIT 1`,
          Math.max(part.folded_through, part.first_id - 1),
          part.last_id,
        )
        .toArray().length > 0
    );
  }

  /** The folded part that has this entry. */
  folded(id: number, account: number): LedgerPart | undefined {
    if (id > this.#foldedThrough) return undefined;
    const [part] = this.#sql
      .exec<Stored>("SELECT * FROM parts WHERE first_id <= ? ORDER BY n DESC LIMIT 1", id)
      .toArray();
    return part && toPart(part, account);
  }

  /** The last folded part all of whose lines were booked before this time. */
  foldedBefore(ms: number): Pick<LedgerPart, "lastId" | "balanceNanoUsd"> | undefined {
    const [part] = this.#sql
      .exec<{ last_id: number; balance_nano_usd: number }>(
        `SELECT last_id, balance_nano_usd FROM parts WHERE state = 'folded' AND hour_ms <= ? - ${HOUR_MS}
         ORDER BY n DESC LIMIT 1`,
        ms,
      )
      .toArray();
    return part && { lastId: part.last_id, balanceNanoUsd: part.balance_nano_usd };
  }

  /** Kept parts after a number, of hours between two times, in order. */
  list(account: number, { after, fromMs, toMs }: Extract<PartsAsked, { after: number }>): readonly LedgerPart[] {
    return this.#sql
      .exec<Stored>(
        `SELECT * FROM parts WHERE n > ? AND state <> 'planned' AND hour_ms >= ? AND hour_ms < ? ORDER BY n LIMIT ${MOST_PARTS}`,
        after,
        fromMs,
        toMs,
      )
      .toArray()
      .map((part) => toPart(part, account));
  }

  /** The last entry of the folded parts of hours before this time; undefined: there is none. */
  foldedHoursBefore(ms: number): number | undefined {
    const [part] = this.#sql
      .exec<{ last_id: number }>(
        "SELECT last_id FROM parts WHERE state = 'folded' AND hour_ms < ? ORDER BY n DESC LIMIT 1",
        ms,
      )
      .toArray();
    return part?.last_id;
  }

  #read(): void {
    const one = (query: string) => this.#sql.exec<Stored>(`SELECT * FROM parts ${query} LIMIT 1`).toArray()[0];
    this.#last = one("ORDER BY n DESC");
    const folded = one("WHERE state = 'folded' ORDER BY n DESC");
    this.#foldedThrough = folded?.last_id ?? 0;
    this.#toFold =
      folded && folded.folded_through < folded.last_id
        ? folded
        : one(`WHERE state = 'kept' AND n > ${folded?.n ?? 0} ORDER BY n`);
  }

  #firstUnwritten(): number | null {
    const [first] = this.#sql
      .exec<{ at: number }>(
        "SELECT at_ms AS at FROM entries WHERE id > ? ORDER BY id LIMIT 1",
        this.#last?.last_id ?? 0,
      )
      .toArray();
    return first?.at ?? null;
  }
}

function toPart(stored: Stored, account: number): LedgerPart {
  return {
    ...recordOf(stored, "ledger", account),
    firstId: stored.first_id,
    lastId: stored.last_id,
    more: stored.more === 1,
    balanceNanoUsd: stored.balance_nano_usd,
  };
}
