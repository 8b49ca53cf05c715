-- The operator's books: who the accounts are, and where calls go at which price. Money is integers of nano-USD, time is
-- Unix milliseconds. Everything about an account but its number and id lives in its object.

create table accounts (
  number integer primary key autoincrement,
  id text not null unique,
  name text not null,
  created_ms integer not null,
  -- Set when the account's object stands and its opening balance is booked; until then it is in no list.
  opened_ms integer,
  deleted_ms integer
) strict;

create table upstreams (
  id text primary key,
  base_url text not null,
  region text,
  -- AES-GCM under MASTER_KEY, bound to the id.
  sealed_api_key text not null,
  first_byte_ms integer not null,
  idle_ms integer not null,
  total_ms integer not null,
  created_ms integer not null,
  changed_ms integer not null
) strict;

create table aliases (
  alias text not null,
  -- Null: for every account.
  account text,
  -- JSON: [{"upstream","model","priority","weight"}]
  targets text not null,
  -- JSON: [500, 502] or less
  retry_on text not null,
  created_ms integer not null,
  changed_ms integer not null
) strict;
create unique index aliases_by_name on aliases (alias, coalesce(account, ''));

create table instances (
  instance_id integer primary key,
  account text not null,
  name text not null,
  -- JSON: ["upstream id"]
  upstreams text not null,
  kind text not null,
  custom_api_path text,
  created_ms integer not null,
  changed_ms integer not null
) strict;
create index instances_by_account on instances (account);

-- The price book. A row holds from from_ms until a later row of the same model.
create table models (
  model text not null,
  from_ms integer not null,
  kind text not null,
  -- JSON: {"unit": nano-USD for one price's worth of it}
  costs text not null,
  -- JSON, only the units with a price of their own
  prices text not null,
  free integer not null,
  upstream text,
  max_output_tokens integer,
  context_tokens integer,
  prompt_overhead_tokens integer,
  max_part_tokens integer,
  created_ms integer not null,
  primary key (model, from_ms)
) strict;

-- Grows with every change of the four tables above, by hand too: what an edge compares its snapshot with. Never below
-- the clock, so that it grows over a restored backup as well.
create table routing_version (
  one integer primary key check (one = 1),
  version integer not null
) strict;
insert into routing_version values (1, 1);

create trigger upstreams_made after insert on upstreams begin
  update routing_version set version = max(version + 1, cast(unixepoch('subsec') * 1000 as integer));
end;
create trigger upstreams_changed after update on upstreams begin
  update routing_version set version = max(version + 1, cast(unixepoch('subsec') * 1000 as integer));
end;
create trigger upstreams_gone after delete on upstreams begin
  update routing_version set version = max(version + 1, cast(unixepoch('subsec') * 1000 as integer));
end;
create trigger aliases_made after insert on aliases begin
  update routing_version set version = max(version + 1, cast(unixepoch('subsec') * 1000 as integer));
end;
create trigger aliases_changed after update on aliases begin
  update routing_version set version = max(version + 1, cast(unixepoch('subsec') * 1000 as integer));
end;
create trigger aliases_gone after delete on aliases begin
  update routing_version set version = max(version + 1, cast(unixepoch('subsec') * 1000 as integer));
end;
create trigger instances_made after insert on instances begin
  update routing_version set version = max(version + 1, cast(unixepoch('subsec') * 1000 as integer));
end;
create trigger instances_changed after update on instances begin
  update routing_version set version = max(version + 1, cast(unixepoch('subsec') * 1000 as integer));
end;
create trigger instances_gone after delete on instances begin
  update routing_version set version = max(version + 1, cast(unixepoch('subsec') * 1000 as integer));
end;
create trigger models_made after insert on models begin
  update routing_version set version = max(version + 1, cast(unixepoch('subsec') * 1000 as integer));
end;
create trigger models_changed after update on models begin
  update routing_version set version = max(version + 1, cast(unixepoch('subsec') * 1000 as integer));
end;
create trigger models_gone after delete on models begin
  update routing_version set version = max(version + 1, cast(unixepoch('subsec') * 1000 as integer));
end;
