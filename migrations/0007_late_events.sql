-- 1: the second event of a call that ended after its hold had expired. Its quantities, money and latency are the
-- differences to the first one, and it is no call of its own. A version of before leaves it out.
alter table usage_events add column late integer not null default 0;

-- Events that could not be read or written after several tries: kept as they came, for the operator to look into. Their
-- accounts do not send them again.
create table usage_set_aside (
  account integer not null,
  event_id text not null,
  -- Why, in words.
  problem text not null,
  -- JSON, as it came.
  event text not null,
  set_aside_ms integer not null,
  primary key (account, event_id)
) strict;
