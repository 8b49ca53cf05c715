-- Calls of known keys that were refused: single ones, of each key at most ten a second, and sums of all.
create table refused_calls (
  call_id text primary key,
  account text not null,
  at_ms integer not null,
  started_ms integer not null,
  key text not null,
  team text,
  endpoint text not null,
  model text,
  status integer not null,
  reason text not null,
  -- Where in the body the fault is.
  param text,
  -- The limit that was met, as JSON.
  met text
) strict;
create index refused_calls_by_time on refused_calls (at_ms);
create index refused_calls_by_account on refused_calls (account, at_ms);

-- `level` and `limit_name` are empty where no limit was met.
create table refusal_minutes (
  account text not null,
  minute_ms integer not null,
  key text not null,
  level text not null,
  limit_name text not null,
  reason text not null,
  refusals integer not null,
  unique (account, minute_ms, key, level, limit_name, reason)
) strict;
create index refusal_minutes_by_time on refusal_minutes (minute_ms);

-- Batches that are counted: one that comes again counts nothing.
create table refusal_batches (
  id text primary key,
  at_ms integer not null
) strict;
create index refusal_batches_by_time on refusal_batches (at_ms);
