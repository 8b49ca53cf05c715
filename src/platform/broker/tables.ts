/** The broker's rows: calls sent, what accounts watch, what was seen, and single values. */
import { BUDGET_SPAN_MS, type CallClass, type SentCall } from "../../core/compute/call-budget.ts";
import type { Seen } from "../../core/compute/control.ts";
import type { Listed, ListedKind, Told, Watch } from "../../core/compute/listing.ts";
import type { AccountNumber } from "../../core/ids.ts";
import type { Sql } from "./broker-schema.ts";

export class BrokerTables {
  readonly #sql: Sql;
  /** Mirror of the rows of the last minute, in order of time. */
  #sent: SentCall[];

  constructor(sql: Sql) {
    this.#sql = sql;
    this.#sent = sql
      .exec<{ at_ms: number; cls: CallClass }>("SELECT at_ms, cls FROM sent ORDER BY seq")
      .toArray()
      .map(({ at_ms, cls }) => ({ atMs: at_ms, cls }));
  }

  get sent(): readonly SentCall[] {
    return this.#sent;
  }

  recordCall(cls: CallClass, nowMs: number): void {
    // After a step back of the clock, what seems to lie in the future was sent now at the latest.
    const kept = this.#sent.filter(({ atMs }) => Math.min(atMs, nowMs) > nowMs - BUDGET_SPAN_MS);
    if (kept.length < this.#sent.length) {
      this.#sql.exec("DELETE FROM sent WHERE at_ms <= ?", nowMs - BUDGET_SPAN_MS);
    }
    this.#sql.exec("INSERT INTO sent (at_ms, cls) VALUES (?, ?)", nowMs, cls);
    this.#sent = [...kept, { atMs: nowMs, cls }];
  }

  /** The latest time at which something was sent or listed; 0: never. */
  latestMs(): number {
    const { at } = this.#sql
      .exec<{ at: number | null }>("SELECT max(CAST(value AS INTEGER)) AS at FROM facts WHERE name LIKE 'listed %'")
      .one();
    return Math.max(at ?? 0, this.#sent.at(-1)?.atMs ?? 0);
  }

  /**
   * The clock was set back by so much: times after now were written by a clock that was ahead, and count as now. Else
   * nothing would be listed, and less could be sent, until the clock has caught up.
   */
  setBack(nowMs: number, byMs: number, longestPauseMs: number): void {
    this.#sql.exec("UPDATE sent SET at_ms = ?1 WHERE at_ms > ?1", nowMs);
    this.#sent = this.#sent.map((call) => ({ ...call, atMs: Math.min(call.atMs, nowMs) }));
    const setFacts = (names: string, value: string, ...given: number[]) =>
      this.#sql.exec(`UPDATE facts SET value = ${value} WHERE ${names}`, nowMs, ...given);
    const least = "CAST(min(CAST(value AS INTEGER), ?1) AS TEXT)";
    setFacts("name LIKE 'listed %' OR name IN ('balance_at', 'low_balance_told', 'launch_key_next')", least);
    // What the last list showed was so then: a little before now.
    setFacts("name LIKE 'seen %' AND CAST(value AS INTEGER) > ?1", "CAST(CAST(value AS INTEGER) - ?2 AS TEXT)", byMs);
    setFacts("name = 'paused_until'", "CAST(min(CAST(value AS INTEGER), ?1 + ?2) AS TEXT)", longestPauseMs);
    const sent = "json_set(value, '$.sentAtMs', min(json_extract(value, '$.sentAtMs'), ?1))";
    setFacts("name = 'launch_key' AND value <> 'null'", sent);
  }

  watch(account: AccountNumber, watches: readonly Omit<Watch, "account">[]): void {
    this.#sql.exec("DELETE FROM watches WHERE account = ?", account);
    for (const { kind, tags, inTransition } of watches) {
      const lists = [JSON.stringify(tags), JSON.stringify(inTransition)];
      this.#sql.exec("INSERT INTO watches VALUES (?, ?, ?, ?)", account, kind, ...lists);
    }
  }

  watches(kind?: ListedKind): Watch[] {
    type Stored = { account: number; kind: ListedKind; tags: string; in_transition: string };
    return this.#sql
      .exec<Stored>(
        "SELECT account, kind, tags, in_transition FROM watches WHERE ?1 IS NULL OR kind = ?1",
        kind ?? null,
      )
      .toArray()
      .map(({ account, kind, tags, in_transition }) => ({
        account,
        kind,
        tags: JSON.parse(tags) as string[],
        inTransition: JSON.parse(in_transition) as string[],
      }));
  }

  /** Replaces what is seen of a kind; unchanged rows are not written. */
  see(kind: ListedKind, listed: readonly Listed[]): void {
    const ids = JSON.stringify(listed.map(({ upstreamId }) => upstreamId));
    this.#sql.exec(
      "DELETE FROM seen WHERE kind = ?1 AND upstream_id NOT IN (SELECT value FROM json_each(?2))",
      kind,
      ids,
    );
    for (const { upstreamId, tag, account, document } of listed) {
      this.#sql.exec(
        `INSERT INTO seen (kind, upstream_id, tag, account, document) VALUES (?1, ?2, ?3, ?4, ?5)
         ON CONFLICT DO UPDATE SET tag = ?3, account = ?4, document = ?5 WHERE document <> ?5`,
        kind,
        upstreamId,
        tag,
        account,
        document,
      );
    }
  }

  /** What each account was told last, by upstream id; `listedAtMs`: when the last list was asked for that is kept. */
  told(kind: ListedKind, listedAtMs: number | null): Map<number, Told> {
    const rows = this.#sql
      .exec<{ id: number; tag: string; told: string; current: number }>(
        "SELECT upstream_id AS id, tag, told, told = document AS current FROM seen WHERE kind = ? AND told IS NOT NULL",
        kind,
      )
      .toArray();
    return new Map(
      rows.map(({ id, tag, told, current }) => [id, { tag, document: told, sameUntilMs: current ? listedAtMs : null }]),
    );
  }

  /** Whether its account was told of this one as it was seen last. */
  isAsTold(kind: ListedKind, upstreamId: number): boolean {
    const found = "SELECT 1 FROM seen WHERE kind = ? AND upstream_id = ? AND told = document";
    return this.#sql.exec(found, kind, upstreamId).toArray().length > 0;
  }

  recordTold(kind: ListedKind, account: number, documents: readonly string[]): void {
    this.#sql.exec(
      `UPDATE seen SET told = document WHERE kind = ?1 AND account = ?2
         AND document IN (SELECT value FROM json_each(?3)) AND told IS NOT document`,
      kind,
      account,
      JSON.stringify(documents),
    );
  }

  /** Marks what is seen under these tags as unknown, and gives what was not marked before. */
  newlyUnknown(kind: ListedKind, tags: readonly string[]): Pick<Seen, "upstreamId" | "tag" | "account">[] {
    if (tags.length === 0) return [];
    return this.#sql
      .exec<{ upstreamId: number; tag: string; account: number | null }>(
        `UPDATE seen SET unknown = 1 WHERE kind = ?1 AND unknown = 0 AND tag IN (SELECT value FROM json_each(?2))
         RETURNING upstream_id AS upstreamId, tag, account`,
        kind,
        JSON.stringify(tags),
      )
      .toArray()
      .map((row) => ({ ...row, account: row.account as AccountNumber | null }));
  }

  seen(): Seen[] {
    type Stored = { kind: ListedKind; upstream_id: number; tag: string; account: number | null; document: string };
    return this.#sql
      .exec<Stored>("SELECT kind, upstream_id, tag, account, document FROM seen ORDER BY kind, upstream_id")
      .toArray()
      .map(({ upstream_id, account, ...row }) => ({
        ...row,
        upstreamId: upstream_id,
        account: account as AccountNumber | null,
      }));
  }

  fact(name: string): string | undefined {
    return this.#sql.exec<{ value: string }>("SELECT value FROM facts WHERE name = ?", name).toArray()[0]?.value;
  }

  setFact(name: string, value: string): void {
    this.#sql.exec("INSERT INTO facts VALUES (?1, ?2) ON CONFLICT DO UPDATE SET value = ?2", name, value);
  }

  time(name: string): number | null {
    const value = this.fact(name);
    return value === undefined ? null : Number(value);
  }
}
