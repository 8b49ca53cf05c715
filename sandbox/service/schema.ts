/** The tables of the service's object. Statements are added, never changed: each start runs those not yet run. */
const MIGRATIONS: readonly string[] = [
  `CREATE TABLE calls (
     id INTEGER PRIMARY KEY AUTOINCREMENT,
     at_ms INTEGER NOT NULL,
     ended_ms INTEGER,
     method TEXT NOT NULL,
     path TEXT NOT NULL,
     model TEXT,
     region TEXT,
     account TEXT,
     request_id TEXT,
     service_request_id TEXT NOT NULL,
     body_sha256 TEXT NOT NULL,
     headers TEXT NOT NULL,
     executed INTEGER NOT NULL,
     status INTEGER,
     answered INTEGER NOT NULL DEFAULT 0,
     bytes_sent INTEGER NOT NULL DEFAULT 0,
     frames_sent INTEGER NOT NULL DEFAULT 0,
     closed_early INTEGER NOT NULL DEFAULT 0,
     usage TEXT
   ) STRICT;
   CREATE TABLE faults (id INTEGER PRIMARY KEY AUTOINCREMENT, fault TEXT NOT NULL, remaining INTEGER) STRICT;
   CREATE TABLE instances (instance_id INTEGER PRIMARY KEY, record TEXT NOT NULL) STRICT;
   CREATE TABLE regions (region TEXT PRIMARY KEY, healthy INTEGER NOT NULL) STRICT;`,
  `CREATE TABLE responses (
     id TEXT PRIMARY KEY,
     account TEXT NOT NULL,
     conversation TEXT NOT NULL,
     call_id INTEGER NOT NULL,
     cancelled INTEGER NOT NULL DEFAULT 0,
     record TEXT NOT NULL
   ) STRICT;
   CREATE TABLE conversations (id TEXT PRIMARY KEY, last_turn_ms INTEGER NOT NULL) STRICT;`,
  `CREATE TABLE video_jobs (
     id TEXT PRIMARY KEY,
     account TEXT NOT NULL,
     created_ms INTEGER NOT NULL,
     ends_ms INTEGER NOT NULL,
     logged INTEGER NOT NULL DEFAULT 0,
     record TEXT NOT NULL
   ) STRICT;
   CREATE INDEX video_jobs_by_account ON video_jobs (account, created_ms);
   CREATE INDEX video_jobs_to_log ON video_jobs (ends_ms) WHERE logged = 0;`,
];

/** Brings the tables up to date. The number of statements run is in the object's key-value store. */
export function migrate(storage: DurableObjectStorage): void {
  const ran = storage.kv.get<number>("migrations") ?? 0;
  for (const statements of MIGRATIONS.slice(ran)) storage.sql.exec(statements);
  if (ran < MIGRATIONS.length) storage.kv.put("migrations", MIGRATIONS.length);
}
