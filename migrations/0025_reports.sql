-- How long calls and tries took, in twelve buckets; src/platform/d1/histograms.ts says what each row is.
create table histograms (
  span_ms integer not null,
  start_ms integer not null,
  measure text not null,
  upstream text not null,
  model text not null,
  result text not null,
  b0 integer not null,
  b1 integer not null,
  b2 integer not null,
  b3 integer not null,
  b4 integer not null,
  b5 integer not null,
  b6 integer not null,
  b7 integer not null,
  b8 integer not null,
  b9 integer not null,
  b10 integer not null,
  b11 integer not null,
  sum_ms integer not null,
  primary key (span_ms, start_ms, measure, upstream, model, result)
) strict, without rowid;

-- Whose key it is, by the last four characters of its secret: those of each secret that it has had since this table is
-- there. A row comes before its key: what the account's object says counts.
create table key_index (
  account text not null,
  key text not null,
  last_four text not null,
  name text not null,
  primary key (account, key, last_four)
) strict, without rowid;
create index key_index_by_last_four on key_index (last_four);
create index key_index_by_key on key_index (key);

-- Teams by name, for reports.
create table team_index (
  account text not null,
  team text not null,
  name text not null,
  primary key (account, team)
) strict, without rowid;
create index team_index_by_team on team_index (team);

-- How far the scheduled run has come that indexes what was there before.
create table index_progress (
  one integer primary key check (one = 1),
  -- The last account that is indexed whole, and where the next one goes on.
  account_number integer not null,
  cursor text
) strict;
insert into index_progress values (1, 0, null);
