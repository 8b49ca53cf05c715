/**
 * The tables of the archive. `parts`: those of this account's ledger, in order; `more`: full before its hour was at an
 * end; `folded_...`: what of its charges has left. `folded`: charges that left, by day, key, team and model.
 */
export const ARCHIVE_TABLES = `
  CREATE TABLE parts (
    n INTEGER PRIMARY KEY,
    state TEXT NOT NULL CHECK (state IN ('planned', 'kept', 'folded')),
    hour_ms INTEGER NOT NULL,
    more INTEGER NOT NULL,
    first_id INTEGER NOT NULL,
    last_id INTEGER NOT NULL,
    lines INTEGER NOT NULL,
    nano_usd INTEGER NOT NULL,
    balance_nano_usd INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    footer_bytes INTEGER NOT NULL,
    blocks TEXT NOT NULL,
    sha256 TEXT NOT NULL,
    etag TEXT NOT NULL,
    folded_through INTEGER NOT NULL DEFAULT 0,
    folded_lines INTEGER NOT NULL DEFAULT 0,
    folded_nano_usd INTEGER NOT NULL DEFAULT 0
  ) STRICT;
  CREATE TABLE folded (
    day INTEGER NOT NULL,
    key_id TEXT NOT NULL,
    team_id TEXT NOT NULL,
    model TEXT NOT NULL,
    lines INTEGER NOT NULL,
    nano_usd INTEGER NOT NULL,
    PRIMARY KEY (day, key_id, team_id, model)
  ) STRICT, WITHOUT ROWID;
`;
