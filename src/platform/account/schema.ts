/**
 * The account object's tables and their migrations: each runs once, in order. How many ran is kept in the object's
 * key-value storage, since SQLite in an object refuses `PRAGMA user_version`. Never edit a released migration: add one.
 * docs/storage.md describes the rows.
 */
import { ARCHIVE_TABLES } from "./schema-archive.ts";

/** SQLite of the object: all that a table's class needs of the storage. */
export type Sql = SqlStorage;

const MIGRATIONS: readonly string[] = [
  // account: One row: the account itself. `fields` is AccountFields as JSON.
  // account.tolerated_nano_usd: How far below a floor that was raised later the account may still stand.
  // digests: Every secret a key has had, as its HMAC. `valid_until_ms` is set when it was rotated out.
  // entries: The ledger. Append-only, until old charges are folded (tables/parts.ts).
  // holds: One row per admitted call, kept for a while after its end so that a late or repeated end finds it.
  // holds.seq: Order of admission; the roll-up of requests counts by it.
  // holds.due_ms: While open: when it expires. Then: when the row may go.
  // holds.counted_tokens: What counts against tpm_limit: the bound's tokens, corrected when the call ends.
  // operator_book: What the operator bears: usage beyond a hold, and what upstreams may have done for nobody.
  // operator_book.estimated: 1: the held amount, as an upper bound; what was really used is not known.
  // outbox: Usage events (JSON) until the consumer says that they stand in D1.
  // shipments: Stretches of the outbox given to the queue and not yet confirmed whole.
  // spent_by_day: Sums over entries and holds older than the marks, so that few rows are read after a restart.
  `
  CREATE TABLE account (
    id TEXT PRIMARY KEY,
    number INTEGER NOT NULL,
    fields TEXT NOT NULL,
    created_at_ms INTEGER NOT NULL,
    deleted_at_ms INTEGER,
    tolerated_nano_usd INTEGER
  ) STRICT;

  CREATE TABLE teams (
    seq INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    fields TEXT NOT NULL,
    created_at_ms INTEGER NOT NULL,
    deleted_at_ms INTEGER
  ) STRICT;
  CREATE INDEX teams_live ON teams (seq) WHERE deleted_at_ms IS NULL;

  CREATE TABLE keys (
    seq INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    last_four TEXT NOT NULL,
    fields TEXT NOT NULL,
    created_at_ms INTEGER NOT NULL,
    revoked_at_ms INTEGER
  ) STRICT;
  CREATE INDEX keys_live ON keys (seq) WHERE revoked_at_ms IS NULL;

  CREATE TABLE digests (
    digest TEXT PRIMARY KEY,
    key_id TEXT NOT NULL,
    valid_until_ms INTEGER
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX digests_of_key ON digests (key_id);

  CREATE TABLE entries (
    id INTEGER PRIMARY KEY,
    kind TEXT NOT NULL CHECK (kind IN ('top_up', 'refund', 'correction', 'charge')),
    amount_nano_usd INTEGER NOT NULL,
    balance_nano_usd INTEGER NOT NULL,
    at_ms INTEGER NOT NULL,
    call_id TEXT,
    model TEXT,
    key_id TEXT,
    team_id TEXT,
    reference TEXT,
    note TEXT
  ) STRICT;
  CREATE UNIQUE INDEX entries_reference ON entries (reference) WHERE reference IS NOT NULL;

  CREATE TABLE holds (
    call_id TEXT PRIMARY KEY,
    seq INTEGER NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('open', 'settled', 'released', 'expired')),
    open INTEGER NOT NULL AS (state = 'open') VIRTUAL,
    due_ms INTEGER NOT NULL,
    key_id TEXT NOT NULL,
    team_id TEXT,
    endpoint TEXT NOT NULL,
    model TEXT NOT NULL,
    alias TEXT,
    amount_nano_usd INTEGER NOT NULL CHECK (amount_nano_usd >= 0),
    charged_nano_usd INTEGER NOT NULL DEFAULT 0 CHECK (charged_nano_usd BETWEEN 0 AND amount_nano_usd),
    counted_tokens INTEGER NOT NULL,
    output_cap INTEGER,
    prices TEXT NOT NULL,
    price_rule TEXT NOT NULL,
    started_at_ms INTEGER NOT NULL,
    admitted_at_ms INTEGER NOT NULL,
    ended_at_ms INTEGER,
    entry_id INTEGER
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX holds_due ON holds (open, due_ms);

  CREATE TABLE operator_book (
    call_id TEXT NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('overrun', 'operator_loss')),
    amount_nano_usd INTEGER NOT NULL,
    estimated INTEGER NOT NULL,
    at_ms INTEGER NOT NULL,
    PRIMARY KEY (call_id, kind)
  ) STRICT, WITHOUT ROWID;

  CREATE TABLE outbox (
    seq INTEGER PRIMARY KEY,
    event_id TEXT NOT NULL,
    event TEXT NOT NULL
  ) STRICT;
  CREATE TABLE shipments (first_seq INTEGER PRIMARY KEY, last_seq INTEGER NOT NULL,
    sent_at_ms INTEGER NOT NULL) STRICT;

  CREATE TABLE spent_by_day (
    subject TEXT NOT NULL,
    day INTEGER NOT NULL,
    spent_nano_usd INTEGER NOT NULL,
    PRIMARY KEY (subject, day)
  ) STRICT, WITHOUT ROWID;
  CREATE TABLE requests_by_slot (
    slot INTEGER NOT NULL,
    subject TEXT NOT NULL,
    requests INTEGER NOT NULL,
    PRIMARY KEY (slot, subject)
  ) STRICT, WITHOUT ROWID;
  CREATE TABLE marks (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    entries_through INTEGER NOT NULL,
    holds_through INTEGER NOT NULL,
    holds_at_ms INTEGER NOT NULL
  ) STRICT;
  INSERT INTO marks VALUES (1, 0, 0, 0);
  `,
  // owned_ids: Ids that the service handed out to this account, and where each of them lives.
  // owned_ids.conversation: The first id of the conversation that it is a turn of.
  // owned_ids.total_tokens: Tokens of the conversation up to and with this turn.
  `
  CREATE TABLE owned_ids (
    kind TEXT NOT NULL,
    id TEXT NOT NULL,
    call_id TEXT NOT NULL,
    upstream TEXT NOT NULL,
    target_model TEXT NOT NULL,
    model TEXT NOT NULL,
    conversation TEXT NOT NULL,
    total_tokens INTEGER NOT NULL,
    PRIMARY KEY (kind, id)
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX owned_ids_call ON owned_ids (call_id);
  CREATE INDEX owned_ids_conversation ON owned_ids (conversation);
  CREATE TABLE conversations (
    id TEXT PRIMARY KEY,
    kept_until_ms INTEGER NOT NULL
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX conversations_due ON conversations (kept_until_ms);
  `,
  // jobs: Work that an upstream accepted for this account; the row also says that the id is this account's.
  // jobs.call_id: Its hold, which lives as long as it runs.
  // jobs.unit: The rate, and what the operator pays for a million of it.
  // jobs.least_tokens: The quote that it was held by.
  `
  CREATE TABLE jobs (
    id TEXT PRIMARY KEY,
    call_id TEXT NOT NULL UNIQUE,
    model TEXT NOT NULL,
    upstream TEXT NOT NULL,
    target_model TEXT NOT NULL,
    region TEXT,
    unit TEXT NOT NULL,
    cost_nano_usd INTEGER NOT NULL,
    least_tokens INTEGER NOT NULL,
    most_tokens INTEGER NOT NULL,
    submitted_at_ms INTEGER NOT NULL,
    deadline_ms INTEGER NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('running', 'completed', 'failed', 'overdue')),
    tokens INTEGER,
    charged_nano_usd INTEGER NOT NULL DEFAULT 0
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX jobs_running ON jobs (id) WHERE state = 'running';
  CREATE INDEX jobs_submitted ON jobs (submitted_at_ms);
  `,
  // idempotency: Idempotency keys of the last 24 h: HMACs of key and body, the call that was carried out, how it
  // ended. No body.
  // idempotency.status: HTTP status that the first client got; 0 while it runs.
  `
  CREATE TABLE idempotency (
    key_id TEXT NOT NULL,
    key_hmac TEXT NOT NULL,
    body_hmac TEXT NOT NULL,
    call_id TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('running', 'completed', 'unknown')),
    status INTEGER NOT NULL,
    kept_until_ms INTEGER NOT NULL,
    PRIMARY KEY (key_id, key_hmac)
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX idempotency_call ON idempotency (call_id);
  CREATE INDEX idempotency_due ON idempotency (kept_until_ms);
  CREATE INDEX idempotency_running ON idempotency (call_id) WHERE state = 'running';
  `,
  // free_calls: Calls that cost nothing: what counts now against the limits of a key, team or account. `buckets`:
  // JSON, by second.
  `
  CREATE TABLE free_calls (
    subject TEXT NOT NULL,
    reach TEXT NOT NULL CHECK (reach IN ('upstream', 'local')),
    buckets TEXT NOT NULL,
    written_at_ms INTEGER NOT NULL,
    PRIMARY KEY (subject, reach)
  ) STRICT, WITHOUT ROWID;
  `,
  // holds.progress: What the last renewal reported of the call (JSON): charged should nobody end the hold.
  // holds.corrected: 1: expired, and corrected by a late end since; its ledger entry where it has one.
  // entries.counts_at_ms: Set on a late correction that gives back: when the charge that it corrects was made.
  // Budgets count it there.
  // operator_book.reason: Why, where it is not a matter of course: settle_unknown.
  // keys.team: The keys of a team, without reading all keys of the account.
  `
  ALTER TABLE holds ADD COLUMN progress TEXT;
  ALTER TABLE holds ADD COLUMN corrected INTEGER NOT NULL DEFAULT 0;
  ALTER TABLE holds ADD COLUMN late_entry_id INTEGER;
  ALTER TABLE entries ADD COLUMN counts_at_ms INTEGER;
  ALTER TABLE operator_book ADD COLUMN reason TEXT;

  ALTER TABLE keys ADD COLUMN team TEXT AS (json_extract(fields, '$.team')) VIRTUAL;
  ALTER TABLE keys ADD COLUMN role TEXT AS (json_extract(fields, '$.role')) VIRTUAL;
  CREATE INDEX keys_of_team ON keys (team, seq) WHERE revoked_at_ms IS NULL AND team IS NOT NULL;
  CREATE INDEX keys_of_role ON keys (team, role) WHERE revoked_at_ms IS NULL AND team IS NOT NULL;
  `,
  // holds.rental: The resource that a hold pays the time of; null: the hold is a call's.
  // resources: Compute: all that tenants see of instances, clusters, drives, filesystems, images and SSH keys. `row`
  // is the resource of core/compute as JSON, `upstream` where it lives.
  // resources.price_rule: The rule of its price, for usage events.
  // resources.live: 0 once nothing can happen to it any more.
  // resources.due_ms: When its money or its wants have something to do; null: not before something happens.
  // compute_repeats: Idempotency keys of launches, extensions and scales, as HMACs: a repeat gets the resource as it
  // stands.
  // compute_requests: Compute calls of each key by second, for the limit of 60 a minute: exact over restarts.
  `
  ALTER TABLE holds ADD COLUMN rental INTEGER;

  CREATE TABLE resources (
    id INTEGER PRIMARY KEY,
    kind TEXT NOT NULL,
    tag TEXT NOT NULL UNIQUE,
    upstream TEXT NOT NULL,
    price_rule TEXT NOT NULL,
    row TEXT NOT NULL,
    live INTEGER NOT NULL,
    due_ms INTEGER,
    created_at_ms INTEGER NOT NULL
  ) STRICT;
  CREATE INDEX resources_due ON resources (due_ms) WHERE due_ms IS NOT NULL;
  CREATE INDEX resources_live ON resources (kind) WHERE live = 1;
  CREATE INDEX resources_made ON resources (created_at_ms);

  CREATE TABLE compute_repeats (key_id TEXT NOT NULL, ref TEXT NOT NULL, body TEXT NOT NULL,
    resource INTEGER NOT NULL, at_ms INTEGER NOT NULL, PRIMARY KEY (key_id, ref)) STRICT, WITHOUT ROWID;
  CREATE INDEX compute_repeats_at ON compute_repeats (at_ms);

  CREATE TABLE compute_requests (second INTEGER NOT NULL, key_id TEXT NOT NULL, calls INTEGER NOT NULL,
    PRIMARY KEY (second, key_id)) STRICT, WITHOUT ROWID;
  `,
  // digests.rotation: The idempotent call that made this secret: it rotates a key once.
  "ALTER TABLE digests ADD COLUMN rotation TEXT;",
  // spent_by_day.last_ms: When a subject was last charged on that day; null in rows of before.
  "ALTER TABLE spent_by_day ADD COLUMN last_ms INTEGER;",
  // alert_marks: What was told in its window, so that it is told once: of a budget, a target sold at a loss, a day's
  // overruns.
  // keys.warn_at_ms: When the key's holder is told that it expires; null: not any more.
  `
  CREATE TABLE alert_marks (name TEXT PRIMARY KEY, told TEXT NOT NULL, at_ms INTEGER NOT NULL) STRICT, WITHOUT ROWID;
  CREATE INDEX alert_marks_at ON alert_marks (at_ms);
  ALTER TABLE keys ADD COLUMN warn_at_ms INTEGER;
  UPDATE keys SET warn_at_ms = json_extract(fields, '$.expiresAtMs') - 604800000
    WHERE revoked_at_ms IS NULL AND json_extract(fields, '$.expiresAtMs') IS NOT NULL;
  CREATE INDEX keys_warned ON keys (warn_at_ms) WHERE warn_at_ms IS NOT NULL;
  `,
  ARCHIVE_TABLES,
  // holds.lease: Set on the hold of a lease (JSON): its requests and slots, and how many calls were reported of it.
  "ALTER TABLE holds ADD COLUMN lease TEXT;",
  // holds.lease_calls: On a lease: its calls that were reported already ended, as JSON arrays with commas between.
  "ALTER TABLE holds ADD COLUMN lease_calls TEXT;",
];

const SCHEMA = "schema";

/** False for an object that was never opened: nothing was ever written there. */
export const isOpened = (storage: DurableObjectStorage): boolean => storage.kv.get(SCHEMA) !== undefined;

/** Runs the migrations that have not run yet. Call it in a transaction. */
export function migrate(storage: DurableObjectStorage): void {
  const done = storage.kv.get<number>(SCHEMA) ?? 0;
  if (done >= MIGRATIONS.length) return;
  for (const migration of MIGRATIONS.slice(done)) storage.sql.exec(migration);
  storage.kv.put(SCHEMA, MIGRATIONS.length);
}
