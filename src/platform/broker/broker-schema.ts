/** The broker's tables. docs/storage.md describes the rows. */

export type Sql = SqlStorage;

const MIGRATIONS: readonly string[] = [
  // sent: Control calls of the last minute: the upstream's limits hold over a restart of the object.
  // watches: What accounts wait for. `tags`, `in_transition`: JSON.
  // seen: What the last list of a kind showed. `told`: the document that its account was told last.
  // facts: Single values: the upstream's id, its balance, the time of each list, the end of a pause.
  `
  CREATE TABLE sent (
    seq INTEGER PRIMARY KEY,
    at_ms INTEGER NOT NULL,
    cls TEXT NOT NULL
  ) STRICT;

  CREATE TABLE watches (
    account INTEGER NOT NULL,
    kind TEXT NOT NULL,
    tags TEXT NOT NULL,
    in_transition TEXT NOT NULL,
    PRIMARY KEY (account, kind)
  ) STRICT, WITHOUT ROWID;

  CREATE TABLE seen (
    kind TEXT NOT NULL,
    upstream_id INTEGER NOT NULL,
    tag TEXT NOT NULL,
    account INTEGER,
    document TEXT NOT NULL,
    told TEXT,
    PRIMARY KEY (kind, upstream_id)
  ) STRICT, WITHOUT ROWID;

  CREATE TABLE facts (
    name TEXT PRIMARY KEY,
    value TEXT NOT NULL
  ) STRICT, WITHOUT ROWID;
  `,
  // seen.unknown: 1: it carries our tag, no row of ours has it, and the operator was told.
  `
  ALTER TABLE seen ADD COLUMN unknown INTEGER NOT NULL DEFAULT 0;
  `,
];

/** Brings the tables up to date; call it in a transaction. */
export function migrate(storage: DurableObjectStorage): void {
  const done = storage.kv.get<number>("migrations") ?? 0;
  for (const migration of MIGRATIONS.slice(done)) storage.sql.exec(migration);
  if (done < MIGRATIONS.length) storage.kv.put("migrations", MIGRATIONS.length);
}
