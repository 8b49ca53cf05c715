-- 1: this upstream account seats many tenants for compute; else one at most. A version of before leaves it out.
alter table upstreams add column shared integer not null default 0;

-- Where each account's compute lives. An upstream that is not shared seats one account.
create table seats (
  account text primary key,
  upstream text not null,
  taken_ms integer not null
) strict;
create index seats_by_upstream on seats (upstream);
