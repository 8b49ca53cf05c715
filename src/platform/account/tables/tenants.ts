/** The account's own row and its teams. Rows are cached parsed, since every admission reads them. */

import { floorOf, type Money } from "../../../core/account/ledger.ts";
import {
  type AccountFields,
  type Changes,
  type Limits,
  NO_LIMITS,
  type Page,
  type PageRequest,
  STORAGE_GRACE_DAYS,
  type Team,
  type TeamFields,
} from "../../../core/account/tenant.ts";
import type { AccountId, AccountNumber, TeamId } from "../../../core/ids.ts";
import type { Sql } from "../schema.ts";
import { atLeast, pageOf } from "./pages.ts";

/** The account without its money, which is in the ledger. */
export interface AccountRow extends AccountFields {
  readonly id: AccountId;
  readonly number: AccountNumber;
  readonly createdAtMs: number;
  readonly deletedAtMs: number | null;
  readonly toleratedNanoUsd: number | null;
}

type StoredAccount = {
  id: string;
  number: number;
  fields: string;
  created_at_ms: number;
  deleted_at_ms: number | null;
  tolerated_nano_usd: number | null;
};
type StoredTeam = { seq: number; id: string; fields: string; created_at_ms: number; deleted_at_ms: number | null };

/** Parsed teams kept in memory; beyond it all are dropped and read again. */
const CACHED_TEAMS = 2_000;

export class Tenants {
  readonly #sql: Sql;
  #account: AccountRow | undefined;
  readonly #teams = new Map<TeamId, Team>();

  constructor(sql: Sql) {
    this.#sql = sql;
  }

  open(id: AccountId, number: AccountNumber, fields: AccountFields, nowMs: number): void {
    this.#sql.exec(
      "INSERT INTO account (id, number, fields, created_at_ms) VALUES (?, ?, ?, ?)",
      id,
      number,
      JSON.stringify(fields),
      nowMs,
    );
  }

  account(): AccountRow {
    this.#account ??= toAccount(this.#sql.exec<StoredAccount>("SELECT * FROM account").one());
    return this.#account;
  }

  /**
   * `money` is the account's money now, so that raising the floor does not turn an allowed debt into an audit breach.
   */
  amend(changes: Changes<AccountFields>, money: Money, nowMs: number): void {
    const fields = merge(settled(fieldsOf(this.account()), nowMs), changes);
    const standing = money.balanceNanoUsd - money.heldNanoUsd;
    this.#sql.exec(
      "UPDATE account SET fields = ?, tolerated_nano_usd = ?",
      JSON.stringify(fields),
      standing < floorOf(fields) ? standing : null,
    );
    this.#account = undefined;
  }

  /** Its name goes, and those of its teams. */
  close(nowMs: number): void {
    this.#sql.exec("UPDATE account SET deleted_at_ms = ? WHERE deleted_at_ms IS NULL", nowMs);
    for (const table of ["account", "teams"]) {
      this.#sql.exec(`UPDATE ${table} SET fields = json_set(fields, '$.name', id)`);
    }
    this.#account = undefined;
    this.#teams.clear();
  }

  /** Whether a key may be put in this team: it is live, or null for no team. `undefined` leaves the team unchanged. */
  mayHold(id: TeamId | null | undefined): boolean {
    return id === null || id === undefined || this.team(id)?.deletedAtMs === null;
  }

  /** Whether at least `most` teams are live. Stops counting there. */
  atLeastTeams(most: number): boolean {
    return atLeast(this.#sql, "teams WHERE deleted_at_ms IS NULL", most);
  }

  createTeam(id: TeamId, fields: TeamFields, nowMs: number): void {
    this.#sql.exec("INSERT INTO teams (id, fields, created_at_ms) VALUES (?, ?, ?)", id, JSON.stringify(fields), nowMs);
  }

  team(id: TeamId): Team | undefined {
    const cached = this.#teams.get(id);
    if (cached) return cached;
    const [stored] = this.#sql.exec<StoredTeam>("SELECT * FROM teams WHERE id = ?", id).toArray();
    if (!stored) return undefined;
    const team = toTeam(stored);
    if (this.#teams.size >= CACHED_TEAMS) this.#teams.clear();
    this.#teams.set(id, team);
    return team;
  }

  /** Live teams, oldest first. */
  teams(page: PageRequest): Page<Team> {
    return pageOf(page, "ascending", toTeam, (after, limit) =>
      this.#sql.exec<StoredTeam>(
        "SELECT * FROM teams WHERE deleted_at_ms IS NULL AND seq > ? ORDER BY seq LIMIT ?",
        after,
        limit,
      ),
    );
  }

  amendTeam(team: Team, changes: Changes<TeamFields>): void {
    const { id, createdAtMs: _created, deletedAtMs: _deleted, ...fields } = team;
    this.#sql.exec("UPDATE teams SET fields = ? WHERE id = ?", JSON.stringify(merge(fields, changes)), id);
    this.#teams.delete(id);
  }

  deleteTeam(id: TeamId, nowMs: number): void {
    this.#sql.exec("UPDATE teams SET deleted_at_ms = ? WHERE id = ? AND deleted_at_ms IS NULL", nowMs, id);
    this.#teams.delete(id);
  }
}

/** A next plan whose time has come is the plan. */
const settled = (fields: AccountFields, nowMs: number): AccountFields =>
  fields.nextPlan && fields.nextPlan.fromMs <= nowMs
    ? { ...fields, plan: fields.nextPlan.plan, nextPlan: null }
    : fields;

/** Returns `fields` with `changes` applied, limits one by one; `undefined` changes nothing. */
export function merge<T extends { readonly limits: Limits }>(fields: T, changes: Changes<T>): T {
  const limits = { ...fields.limits, ...named(changes.limits ?? {}) };
  return { ...fields, ...named(changes), limits };
}

const named = (changes: object): object =>
  Object.fromEntries(Object.entries(changes).filter(([, value]) => value !== undefined));

function fieldsOf(account: AccountRow): AccountFields {
  const { id: _id, number: _n, createdAtMs: _c, deletedAtMs: _d, toleratedNanoUsd: _t, ...fields } = account;
  return fields;
}

function toAccount(stored: StoredAccount): AccountRow {
  const fields = JSON.parse(stored.fields) as AccountFields;
  return {
    ...fields,
    computeUpstream: fields.computeUpstream ?? null,
    storageGraceDays: fields.storageGraceDays === undefined ? STORAGE_GRACE_DAYS : fields.storageGraceDays,
    nextPlan: fields.nextPlan ?? null,
    limits: { ...NO_LIMITS, ...fields.limits },
    id: stored.id as AccountId,
    number: stored.number as AccountNumber,
    createdAtMs: stored.created_at_ms,
    deletedAtMs: stored.deleted_at_ms,
    toleratedNanoUsd: stored.tolerated_nano_usd,
  };
}

function toTeam(stored: StoredTeam): Team {
  const fields = JSON.parse(stored.fields) as TeamFields;
  return {
    ...fields,
    limits: { ...NO_LIMITS, ...fields.limits },
    id: stored.id as TeamId,
    createdAtMs: stored.created_at_ms,
    deletedAtMs: stored.deleted_at_ms,
  };
}
