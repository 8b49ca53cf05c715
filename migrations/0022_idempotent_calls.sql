-- POSTs of `/admin` and `/account` that were sent with an Idempotency-Key, for 24 h. `ref` and `body` are HMACs. `made`
-- names what the call makes, so that a second attempt makes nothing twice. No row has a secret.
create table idempotent_calls (
  ref text primary key,
  body text not null,
  made text not null,
  begun_ms integer not null,
  -- The attempt that works at it, and until when nobody else does.
  claimed_by text,
  claimed_until_ms integer not null,
  attempts integer not null,
  -- Set when it was answered; `reply` is the answer without its secret, null where that is long.
  status integer,
  reply text
) strict;
create index idempotent_calls_by_age on idempotent_calls (begun_ms);

-- The idempotent call that made an account.
alter table accounts add column made_by text;
create unique index accounts_made_by on accounts (made_by) where made_by is not null;

-- Tenants' changes are counted and pruned by account.
create index changes_by_keys on changes (account, at_ms) where actor_kind = 'key';
