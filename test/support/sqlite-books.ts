/**
 * The operator's books in a plain SQLite file: what D1 is, with a look at how each statement is planned and how long it
 * takes. For questions of scale; whether D1 takes a statement at all the tests in workerd say.
 */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync, type SQLInputValue } from "node:sqlite";

const MIGRATIONS = join(import.meta.dirname, "../../migrations");

export interface Ran {
  readonly sql: string;
  readonly ms: number;
  /** `SCAN usage_events`, `SEARCH ...`. */
  readonly plan: readonly string[];
}

export class SqliteBooks {
  readonly database: DatabaseSync;
  readonly ran: Ran[] = [];

  constructor(file: string) {
    this.database = new DatabaseSync(file);
    this.database.exec("pragma journal_mode = off; pragma synchronous = off; pragma cache_size = -200000");
    for (const name of readdirSync(MIGRATIONS).sort()) this.database.exec(readFileSync(join(MIGRATIONS, name), "utf8"));
  }

  /** As the code under test sees it. */
  get books() {
    const batch = async (statements: readonly Statement[]) => statements.map((statement) => statement.now());
    const prepare = (sql: string) => new Statement(this, sql, []);
    return { prepare, batch };
  }

  close(): void {
    this.database.close();
  }
}

class Statement {
  readonly #at: SqliteBooks;
  readonly #sql: string;
  readonly #values: readonly SQLInputValue[];

  constructor(at: SqliteBooks, sql: string, values: readonly SQLInputValue[]) {
    this.#at = at;
    this.#sql = sql;
    this.#values = values;
  }

  bind(...values: SQLInputValue[]): Statement {
    return new Statement(this.#at, this.#sql, values);
  }

  now(): { results: Record<string, unknown>[] } {
    const { database, ran } = this.#at;
    const named = Object.fromEntries(this.#values.map((value, index) => [`?${index + 1}`, value]));
    const used = Object.fromEntries(Object.entries(named).filter(([name]) => mentions(this.#sql, name)));
    const plan = database.prepare(`explain query plan ${this.#sql}`).all(used) as { detail: string }[];
    const startedMs = performance.now();
    const results = database.prepare(this.#sql).all(used) as Record<string, unknown>[];
    ran.push({ sql: this.#sql, ms: performance.now() - startedMs, plan: plan.map(({ detail }) => detail) });
    return { results };
  }

  async all() {
    return this.now();
  }

  async first(column?: string): Promise<unknown> {
    const [row] = this.now().results;
    return row && column !== undefined ? row[column] : (row ?? null);
  }
}

const mentions = (sql: string, name: string): boolean => new RegExp(`\\${name}(?!\\d)`).test(sql);
