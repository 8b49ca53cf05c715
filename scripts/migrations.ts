/** Applies the D1 migrations that a database lacks, and records them where `wrangler d1 migrations apply` does. */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

/** The part of a D1 binding that is used here. */
interface Database {
  prepare(sql: string): Statement;
  batch(statements: Statement[]): Promise<unknown>;
}
interface Statement {
  bind(...values: unknown[]): Statement;
  all<Row>(): Promise<{ results: Row[] }>;
  run(): Promise<unknown>;
}

const TABLE = `CREATE TABLE IF NOT EXISTS d1_migrations(
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  name TEXT UNIQUE,
  applied_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP NOT NULL
)`;

/** Returns the names of the migrations it applied. Each is applied whole or not at all. */
export async function migrate(database: Database, dir: string): Promise<string[]> {
  const names = existsSync(dir) ? readdirSync(dir).filter((name) => name.endsWith(".sql")) : [];
  await database.prepare(TABLE).run();
  const { results } = await database.prepare("SELECT name FROM d1_migrations").all<{ name: string }>();
  const applied = new Set(results.map(({ name }) => name));
  const missing = names.filter((name) => !applied.has(name)).sort();
  if (missing.length === 0) return missing;
  // Loaded only here: it takes longer than all else at the start of a database that is up to date.
  const { unstable_splitSqlQuery: splitSql } = await import("wrangler");
  for (const name of missing) {
    const statements = splitSql(readFileSync(join(dir, name), "utf8")).map((sql) => database.prepare(sql));
    const record = database.prepare("INSERT INTO d1_migrations (name) VALUES (?)").bind(name);
    await database.batch([...statements, record]);
  }
  return missing;
}
