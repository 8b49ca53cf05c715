-- What was called: one row a finished call, written by the queue's consumer, and its hourly sums. The columns of units
-- are quantities: tokens, milliseconds of audio, images, requests.

create table usage_events (
  event_id text primary key,
  account text not null,
  team text,
  key text not null,
  endpoint text not null,
  model text not null,
  alias text,
  upstream text,
  target_model text,
  region text,
  outcome text not null,
  reason text,
  status integer not null,
  source text not null,
  input_tokens integer not null,
  cached_input_tokens integer not null,
  output_tokens integer not null,
  video_tokens_720p integer not null,
  video_tokens_1080p integer not null,
  video_tokens_4k integer not null,
  video_tokens_720p_reference integer not null,
  video_tokens_1080p_reference integer not null,
  video_tokens_4k_reference integer not null,
  audio_ms integer not null,
  transcribed_ms integer not null,
  images integer not null,
  requests integer not null,
  price_nano_usd integer not null,
  cost_nano_usd integer not null,
  overrun_nano_usd integer not null,
  loss_nano_usd integer not null,
  price_rule text not null,
  started_ms integer not null,
  -- When the ledger's entry was written: the time that reports go by.
  ended_ms integer not null,
  latency_ms integer not null,
  first_byte_ms integer
) strict;
create index usage_events_by_time on usage_events (ended_ms);
create index usage_events_by_account on usage_events (account, ended_ms);

-- Sums of closed hours, always recomputed whole from the raw events.
create table usage_hours (
  hour_ms integer not null,
  account text not null,
  team text,
  key text not null,
  model text not null,
  alias text,
  calls integer not null,
  errors integer not null,
  latency_ms integer not null,
  input_tokens integer not null,
  cached_input_tokens integer not null,
  output_tokens integer not null,
  video_tokens_720p integer not null,
  video_tokens_1080p integer not null,
  video_tokens_4k integer not null,
  video_tokens_720p_reference integer not null,
  video_tokens_1080p_reference integer not null,
  video_tokens_4k_reference integer not null,
  audio_ms integer not null,
  transcribed_ms integer not null,
  images integer not null,
  requests integer not null,
  price_nano_usd integer not null,
  cost_nano_usd integer not null,
  overrun_nano_usd integer not null,
  loss_nano_usd integer not null
) strict;
create index usage_hours_by_time on usage_hours (hour_ms);
create index usage_hours_by_account on usage_hours (account, hour_ms);

-- Closed hours that got an event after they were summed: read from the raw events until they are summed anew.
create table usage_late_hours (
  hour_ms integer primary key
) strict;

create table usage_progress (
  one integer primary key check (one = 1),
  -- Hours before this stand in usage_hours, but for the late ones.
  summed_until_ms integer not null,
  -- Raw events before this are deleted.
  kept_from_ms integer not null
) strict;
insert into usage_progress values (1, 0, 0);
