/**
 * Virtual keys and the digests of their secrets. A key is found by digest in one look-up, however many keys there are.
 */

import { keyWarnMs } from "../../../core/account/key-expiry.ts";
import {
  type Changes,
  type Key,
  type KeyFields,
  type Limits,
  NO_LIMITS,
  type Page,
  type PageRequest,
  type Role,
} from "../../../core/account/tenant.ts";
import type { KeyDigest, KeyId, TeamId } from "../../../core/ids.ts";
import type { Sql } from "../schema.ts";
import { atLeast, pageOf } from "./pages.ts";
import { merge } from "./tenants.ts";

/** A key as found by one of its secrets. */
export interface FoundKey {
  readonly key: Key;
  /** Set once this secret was rotated out: it is refused from then on. */
  readonly validUntilMs: number | null;
}

/** `ref` names the rotation, so that it happens once. */
export interface Rotation {
  readonly id: KeyId;
  readonly digest: KeyDigest;
  readonly lastFour: string;
  readonly ref?: string | null;
}

type StoredKey = {
  seq: number;
  id: string;
  last_four: string;
  fields: string;
  created_at_ms: number;
  revoked_at_ms: number | null;
};

const COLUMNS = "seq, id, last_four, fields, created_at_ms, revoked_at_ms";

/** Parsed keys kept in memory with the text they were parsed from; beyond it all are dropped and read again. */
const CACHED_KEYS = 4_000;
const CACHED_CHARS = 8_000_000;

export class Keys {
  readonly #sql: Sql;
  readonly #found = new Map<KeyDigest, FoundKey>();
  readonly #limits = new Map<KeyId, Limits | null>();
  /** When the first key is to be warned of; undefined: not read yet. */
  #nextWarnMs: number | null | undefined;
  #cachedChars = 0;

  constructor(sql: Sql) {
    this.#sql = sql;
  }

  find(digest: KeyDigest): FoundKey | undefined {
    const cached = this.#found.get(digest);
    if (cached) return cached;
    const [stored] = this.#sql
      .exec<StoredKey & { valid_until_ms: number | null }>(
        `SELECT ${COLUMNS}, valid_until_ms FROM digests JOIN keys ON keys.id = digests.key_id WHERE digest = ?`,
        digest,
      )
      .toArray();
    if (!stored) return undefined;
    const found = { key: toKey(stored), validUntilMs: stored.valid_until_ms };
    this.#cachedChars += stored.fields.length;
    if (this.#found.size >= CACHED_KEYS || this.#cachedChars > CACHED_CHARS) this.#forget();
    this.#found.set(digest, found);
    return found;
  }

  key(id: KeyId): Key | undefined {
    const [stored] = this.#sql.exec<StoredKey>(`SELECT ${COLUMNS} FROM keys WHERE id = ?`, id).toArray();
    return stored && toKey(stored);
  }

  /** The limits of a key, kept in memory for what asks after each charge; null: there is no such key. */
  limits(id: KeyId): Limits | null {
    const cached = this.#limits.get(id);
    if (cached !== undefined) return cached;
    if (this.#limits.size >= CACHED_KEYS) this.#limits.clear();
    const limits = this.key(id)?.limits ?? null;
    this.#limits.set(id, limits);
    return limits;
  }

  /** When the holder of some key is to be told that it expires; null: none is. */
  nextWarnMs(): number | null {
    // Asked after every change: that there is none is remembered too.
    if (this.#nextWarnMs === undefined) {
      this.#nextWarnMs = this.#sql
        .exec<{ at: number | null }>("SELECT min(warn_at_ms) AS at FROM keys WHERE warn_at_ms IS NOT NULL")
        .one().at;
    }
    return this.#nextWarnMs;
  }

  /** The live keys whose holders are to be told, each once. */
  takeWarned(nowMs: number, most: number): readonly Key[] {
    const rows = this.#sql.exec<StoredKey>(
      `SELECT ${COLUMNS} FROM keys WHERE warn_at_ms <= ? ORDER BY warn_at_ms LIMIT ?`,
      nowMs,
      most,
    );
    const keys = rows.toArray().map(toKey);
    for (const { id } of keys) this.#warnAt(id, null);
    return keys.filter(({ revokedAtMs }) => revokedAtMs === null);
  }

  /** Live keys, oldest first; with `team`, only that team's. */
  keys(page: PageRequest, team: TeamId | null = null): Page<Key> {
    return pageOf(page, "ascending", toKey, (after, limit) =>
      this.#sql.exec<StoredKey>(
        `SELECT ${COLUMNS} FROM keys WHERE revoked_at_ms IS NULL AND seq > ?1
           ${team === null ? "" : "AND team = ?3"} ORDER BY seq LIMIT ?2`,
        after,
        limit,
        ...(team === null ? [] : [team]),
      ),
    );
  }

  /** Whether a live key of this team has one of these roles. */
  teamHas(team: TeamId, roles: readonly Role[]): boolean {
    const found = this.#sql.exec(
      `SELECT 1 FROM keys WHERE revoked_at_ms IS NULL AND team = ? AND role IN (SELECT value FROM json_each(?)) LIMIT 1`,
      team,
      JSON.stringify(roles),
    );
    return found.toArray().length > 0;
  }

  /** Whether at least `most` keys are live. Stops counting there. */
  atLeast(most: number): boolean {
    return atLeast(this.#sql, "keys WHERE revoked_at_ms IS NULL", most);
  }

  create(id: KeyId, digest: KeyDigest, lastFour: string, fields: KeyFields, nowMs: number): void {
    this.#sql.exec(
      "INSERT INTO keys (id, last_four, fields, created_at_ms) VALUES (?, ?, ?, ?)",
      id,
      lastFour,
      JSON.stringify(fields),
      nowMs,
    );
    this.#addDigest(digest, id);
    if (fields.expiresAtMs !== null) this.#warnAt(id, keyWarnMs(fields.expiresAtMs, nowMs));
    this.#limits.delete(id);
  }

  amend(key: Key, changes: Changes<KeyFields>, nowMs: number): void {
    const { id, lastFour: _l, createdAtMs: _c, revokedAtMs: _r, ...fields } = key;
    const after = merge(fields, changes);
    this.#sql.exec("UPDATE keys SET fields = ? WHERE id = ?", JSON.stringify(after), id);
    if (after.expiresAtMs !== fields.expiresAtMs) this.#warnAt(id, keyWarnMs(after.expiresAtMs, nowMs));
    this.#forget();
  }

  revoke(id: KeyId, nowMs: number): void {
    this.#sql.exec("UPDATE keys SET revoked_at_ms = ? WHERE id = ? AND revoked_at_ms IS NULL", nowMs, id);
    this.#forget();
  }

  /**
   * Gives the key a new secret. The older ones end at `validUntilMs`, or at their own end if that is sooner. False if
   * it was rotated with this `ref` before.
   */
  rotate({ id, digest, lastFour, ref = null }: Rotation, validUntilMs: number): boolean {
    const done = this.#sql.exec("SELECT 1 FROM digests WHERE key_id = ? AND rotation = ?", id, ref);
    if (done.toArray().length > 0) return false;
    this.#sql.exec(
      "UPDATE digests SET valid_until_ms = min(coalesce(valid_until_ms, ?), ?) WHERE key_id = ?",
      validUntilMs,
      validUntilMs,
      id,
    );
    this.#sql.exec("UPDATE keys SET last_four = ? WHERE id = ?", lastFour, id);
    this.#addDigest(digest, id, ref);
    this.#forget();
    return true;
  }

  digests(id: KeyId): readonly KeyDigest[] {
    const rows = this.#sql.exec<{ digest: string }>("SELECT digest FROM digests WHERE key_id = ?", id);
    return rows.toArray().map((row) => row.digest as KeyDigest);
  }

  #warnAt(id: KeyId, atMs: number | null): void {
    this.#sql.exec("UPDATE keys SET warn_at_ms = ? WHERE id = ?", atMs, id);
    this.#nextWarnMs = undefined;
  }

  /** The account is closed: names, metadata and users of its keys go. */
  forgetNames(): void {
    this.#sql.exec("UPDATE keys SET fields = json_set(fields, '$.name', id, '$.metadata', json('{}'), '$.user', null)");
    this.#forget();
  }

  #forget(): void {
    this.#found.clear();
    this.#limits.clear();
    this.#cachedChars = 0;
  }

  #addDigest(digest: KeyDigest, id: KeyId, rotation: string | null = null): void {
    this.#sql.exec("INSERT INTO digests (digest, key_id, rotation) VALUES (?, ?, ?)", digest, id, rotation);
  }
}

function toKey(stored: StoredKey): Key {
  const fields = JSON.parse(stored.fields) as KeyFields;
  return {
    ...fields,
    limits: { ...NO_LIMITS, ...fields.limits },
    id: stored.id as KeyId,
    lastFour: stored.last_four,
    createdAtMs: stored.created_at_ms,
    revokedAtMs: stored.revoked_at_ms,
  };
}
