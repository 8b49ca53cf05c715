/** The tables of the compute object. Statements are added, never changed: each start runs those not yet run. */
const MIGRATIONS: readonly string[] = [
  `CREATE TABLE accounts (id TEXT PRIMARY KEY, record TEXT NOT NULL) STRICT;
   CREATE TABLE regions (id TEXT PRIMARY KEY, record TEXT NOT NULL) STRICT;
   CREATE TABLE templates (id INTEGER PRIMARY KEY, record TEXT NOT NULL) STRICT;
   CREATE TABLE resources (id INTEGER PRIMARY KEY, record TEXT NOT NULL) STRICT;
   CREATE TABLE bookings (
     id INTEGER PRIMARY KEY AUTOINCREMENT,
     account TEXT NOT NULL,
     at_ms INTEGER NOT NULL,
     kind TEXT NOT NULL,
     amount_nano_usd INTEGER NOT NULL,
     balance_nano_usd INTEGER NOT NULL,
     resource INTEGER,
     description TEXT NOT NULL
   ) STRICT;
   CREATE INDEX bookings_by_account ON bookings (account, id);
   CREATE TABLE faults (id INTEGER PRIMARY KEY AUTOINCREMENT, fault TEXT NOT NULL, remaining INTEGER) STRICT;
   CREATE TABLE calls (
     id INTEGER PRIMARY KEY AUTOINCREMENT,
     at_ms INTEGER NOT NULL,
     real_ms INTEGER NOT NULL,
     account TEXT,
     key TEXT,
     user INTEGER,
     kind TEXT NOT NULL,
     method TEXT NOT NULL,
     path TEXT NOT NULL,
     body TEXT,
     request_id TEXT,
     counted INTEGER NOT NULL DEFAULT 0,
     launched INTEGER NOT NULL DEFAULT 0,
     executed INTEGER NOT NULL DEFAULT 0,
     status INTEGER,
     resource INTEGER,
     faults TEXT NOT NULL DEFAULT '[]',
     pod_headers TEXT
   ) STRICT;
   CREATE INDEX calls_counted ON calls (key, at_ms) WHERE counted = 1;
   CREATE INDEX calls_launched ON calls (account, at_ms) WHERE launched = 1;`,
  "ALTER TABLE calls ADD COLUMN pod_ended TEXT",
];

/** Brings the tables up to date. The number of statements run is in the object's key-value store. */
export function migrate(storage: DurableObjectStorage): void {
  const ran = storage.kv.get<number>("migrations") ?? 0;
  for (const statements of MIGRATIONS.slice(ran)) storage.sql.exec(statements);
  if (ran < MIGRATIONS.length) storage.kv.put("migrations", MIGRATIONS.length);
}
