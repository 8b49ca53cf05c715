-- The operator's people: named tokens with a role, stored as digests. `ADMIN_TOKEN` has no row.
create table operators (
  id text primary key,
  name text not null,
  role text not null,
  digest text not null unique,
  last_four text not null,
  created_ms integer not null,
  last_used_ms integer,
  revoked_ms integer
) strict;

-- What operators, and tenants' owners and admins, changed. A row is written before the change, so that none is made
-- without one; `outcome` is then `unknown` until the change was answered.
create table changes (
  id integer primary key autoincrement,
  at_ms integer not null,
  actor_kind text not null,
  actor text not null,
  actor_name text not null,
  account text,
  action text not null,
  target text not null,
  fields text not null,
  outcome text not null,
  before text,
  after text
) strict;
create index changes_by_account on changes (account, id);
create index changes_by_actor on changes (actor, id);
create index changes_by_time on changes (at_ms);
