-- Alerts of accounts and of the operator. `id` is the `webhook-id` of each delivery; `data` is JSON. Kept for 30 days.
create table alerts (
  seq integer primary key autoincrement,
  id text not null unique,
  type text not null,
  account text,
  at_ms integer not null,
  data text not null
) strict;
create index alerts_by_time on alerts (at_ms);
create index alerts_by_account on alerts (account, seq);

-- Who is told. `account` null: the operator's. `events`: JSON. The secret is encrypted; the one before it signs too until
-- `old_until_ms`. `tried_ms`: the last try. A disabled one says why: gone, failing or owner.
create table webhooks (
  id text primary key,
  account text,
  url text not null,
  events text not null,
  secret text not null,
  old_secret text,
  old_until_ms integer,
  created_ms integer not null,
  failing_since_ms integer,
  tried_ms integer,
  disabled_ms integer,
  disabled_why text
) strict;
create index webhooks_by_account on webhooks (account, id);

-- One alert on its way to one webhook. Pending: tried at `next_ms`, if no message of the queue is to try it before
-- `queued_until_ms`, and nobody is trying it until `claimed_until_ms`.
create table webhook_deliveries (
  seq integer primary key autoincrement,
  webhook text not null,
  alert text not null,
  state text not null,
  attempts integer not null default 0,
  next_ms integer not null,
  queued_until_ms integer not null default 0,
  claimed_until_ms integer not null default 0,
  status integer,
  problem text,
  ms integer,
  tried_ms integer,
  created_ms integer not null,
  unique (webhook, alert)
) strict;
create index deliveries_due on webhook_deliveries (next_ms) where state = 'pending';
create index deliveries_by_webhook on webhook_deliveries (webhook, seq);
create index deliveries_by_time on webhook_deliveries (created_ms);

-- Upstreams that are down by the tries of all isolates, since when, and those that refuse the operator's credential.
create table upstream_states (
  upstream text not null,
  state text not null,
  since_ms integer not null,
  primary key (upstream, state)
) strict, without rowid;
