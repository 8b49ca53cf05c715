/**
 * Compute resources of the account: instances, clusters, drives, filesystems, images and SSH keys. A row is kept for
 * good, since usage and the ledger name it; `live` marks those that something can still happen to.
 */

import { IDEMPOTENCY_KEPT_MS, type IdempotencyRef } from "../../../core/account/idempotency.ts";
import type { ResourceKind, ResourceRow } from "../../../core/compute/resource.ts";
import type { KeyId } from "../../../core/ids.ts";
import type { Sql } from "../schema.ts";
import type { PlacedInference } from "./inference-rentals.ts";

type Stored = { upstream: string; price_rule: string; row: string };

/** A row with the upstream on which it lives, and the rule of its price. */
export interface Placed<Row extends ResourceRow = ResourceRow> {
  readonly upstream: string;
  readonly priceRule: string;
  readonly row: Row;
}

/** Removed images and keys are kept this long, ms. */
const FREE_KEPT_MS = 86_400_000;

/** The first id of an account. */
const FIRST_ID = 1000;

/** All but inference instances by the hour, which are in the same table: tenants do not see them. */
const RENTED_OUT = "kind <> 'inference'";
const MACHINES = "kind IN ('instance', 'cluster')";

export class Resources {
  readonly #sql: Sql;
  /** When the first row is due; undefined: not read yet. */
  #nextDueMs: number | null | undefined;

  constructor(sql: Sql) {
    this.#sql = sql;
  }

  /** The next id: one counter over all kinds. */
  nextId(): number {
    const { last } = this.#sql.exec<{ last: number | null }>("SELECT max(id) AS last FROM resources").one();
    return last === null ? FIRST_ID : last + 1;
  }

  /** Writes a row, new or changed. `dueMs`: when it has something to do by itself. */
  put({ upstream, priceRule, row }: Placed | PlacedInference, live: boolean, dueMs: number | null): void {
    this.#sql.exec(
      `INSERT INTO resources (id, kind, tag, upstream, price_rule, row, live, due_ms, created_at_ms)
       VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9) ON CONFLICT (id) DO UPDATE SET row = ?6, live = ?7, due_ms = ?8`,
      row.id,
      row.kind,
      row.tag,
      upstream,
      priceRule,
      JSON.stringify(row),
      live ? 1 : 0,
      dueMs,
      row.createdAtMs,
    );
    this.#nextDueMs = undefined;
  }

  /**
   * Forgets images and keys that were removed a day ago: neither the ledger nor an event names them. The newest row of
   * all stays, because the next id comes after it.
   */
  pruneFree(nowMs: number): void {
    this.#sql.exec(
      `DELETE FROM resources WHERE live = 0 AND kind IN ('image', 'ssh_key') AND created_at_ms < ?
         AND id < (SELECT max(id) FROM resources)`,
      nowMs - FREE_KEPT_MS,
    );
  }

  /** The account is closed, and nothing lives: what the tenant named has its id for a name. */
  forgetNames(): void {
    const names = ["$.name", "$.asked.name", "$.launched.name"].map((path) => `'${path}', CAST(id AS TEXT)`);
    this.#sql.exec(
      `UPDATE resources SET row = json_replace(row, ${names.join(", ")}, '$.launched.sshPublicKey', null) WHERE live = 0`,
    );
  }

  find(id: number): Placed | undefined {
    return this.#one(`SELECT upstream, price_rule, row FROM resources WHERE id = ? AND ${RENTED_OUT}`, id);
  }

  byTag(tag: string): Placed | undefined {
    return this.#one(`SELECT upstream, price_rule, row FROM resources WHERE tag = ? AND ${RENTED_OUT}`, tag);
  }

  /** What something can still happen to, of every kind. */
  live(): Placed[] {
    return this.#all(`SELECT upstream, price_rule, row FROM resources WHERE live = 1 AND ${RENTED_OUT} ORDER BY id`);
  }

  /** The same, and what was given up or has ended but may run upstream yet: that alone is due without being alive. */
  watched(): Placed[] {
    return this.#all(
      `SELECT upstream, price_rule, row FROM resources WHERE (live = 1 OR due_ms IS NOT NULL) AND ${RENTED_OUT} ORDER BY id`,
    );
  }

  /** When one that lives was last changed or asked for; 0: none lives. */
  latestMs(): number {
    const { at } = this.#sql
      .exec<{ at: number | null }>(
        `SELECT max(max(coalesce(json_extract(row, '$.changedAtMs'), 0), coalesce(json_extract(row, '$.seen.askedAtMs'), 0)))
           AS at FROM resources WHERE live = 1`,
      )
      .one();
    return at ?? 0;
  }

  isLive(id: number): boolean {
    return this.#sql.exec("SELECT 1 FROM resources WHERE id = ? AND live = 1", id).toArray().length > 0;
  }

  /** How much lives, by kind. */
  liveKinds(): { kind: ResourceKind; count: number }[] {
    return this.#sql
      .exec<{ kind: ResourceKind; count: number }>(
        `SELECT kind, count(*) AS count FROM resources WHERE live = 1 AND ${RENTED_OUT} GROUP BY kind ORDER BY kind`,
      )
      .toArray();
  }

  /** What a list may show: what lives, and the newest that ended since `sinceMs`. */
  listed(kind: ResourceKind, sinceMs: number, most: number): Placed[] {
    return this.#all(
      `SELECT upstream, price_rule, row FROM resources WHERE kind = ? AND (live = 1 OR json_extract(row, '$.seen.endedAtMs') > ?)
       ORDER BY id DESC LIMIT ?`,
      kind,
      sinceMs,
      most,
    );
  }

  due(nowMs: number, most: number): Placed[] {
    return this.#all(
      `SELECT upstream, price_rule, row FROM resources WHERE due_ms <= ? AND ${RENTED_OUT} ORDER BY due_ms LIMIT ?`,
      nowMs,
      most,
    );
  }

  nextDueMs(): number | null {
    // Asked after every change: that there is none is remembered too.
    if (this.#nextDueMs === undefined) {
      this.#nextDueMs = this.#sql
        .exec<{ at: number | null }>("SELECT min(due_ms) AS at FROM resources WHERE due_ms IS NOT NULL")
        .one().at;
    }
    return this.#nextDueMs;
  }

  /** The resource that a repeated call made or changed: by key and idempotency key. */
  repeated(key: KeyId, ref: IdempotencyRef, nowMs: number): { resource: number } | "other_body" | undefined {
    const [known] = this.#sql
      .exec<{ body: string; resource: number }>(
        "SELECT body, resource FROM compute_repeats WHERE key_id = ? AND ref = ? AND at_ms > ?",
        key,
        ref.keyHmac,
        nowMs - IDEMPOTENCY_KEPT_MS,
      )
      .toArray();
    return known && (known.body === ref.bodyHmac ? { resource: known.resource } : "other_body");
  }

  recordRepeatable(key: KeyId, ref: IdempotencyRef, resource: number, nowMs: number): void {
    this.#sql.exec("DELETE FROM compute_repeats WHERE at_ms <= ?", nowMs - IDEMPOTENCY_KEPT_MS);
    this.#sql.exec(
      "INSERT OR REPLACE INTO compute_repeats VALUES (?, ?, ?, ?, ?)",
      key,
      ref.keyHmac,
      ref.bodyHmac,
      resource,
      nowMs,
    );
  }

  /** Frees the idempotency key of a call that was refused after all: sent again, it is decided anew. */
  forgetRepeatable(key: KeyId, ref: IdempotencyRef): void {
    this.#sql.exec("DELETE FROM compute_repeats WHERE key_id = ? AND ref = ?", key, ref.keyHmac);
  }

  /** When instances and clusters were launched since then. */
  launches(sinceMs: number): number[] {
    return this.#sql
      .exec<{ at: number }>(
        `SELECT created_at_ms AS at FROM resources WHERE created_at_ms > ? AND ${MACHINES}`,
        sinceMs,
      )
      .toArray()
      .map(({ at }) => at);
  }

  #one(query: string, value: string | number): Placed | undefined {
    return this.#all(query, value)[0];
  }

  #all(query: string, ...values: (string | number)[]): Placed[] {
    return this.#sql
      .exec<Stored>(query, ...values)
      .toArray()
      .map(({ upstream, price_rule: priceRule, row }) => ({
        upstream,
        priceRule,
        row: JSON.parse(row) as ResourceRow,
      }));
  }
}
