-- Sums of closed days, made of the hours' sums: a report over a year reads these and few hours.
create table usage_days (
  day_ms integer not null,
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
create index usage_days_by_time on usage_days (day_ms);
create index usage_days_by_account on usage_days (account, day_ms);

-- Days before this stand in usage_days, each the sum of its hours in usage_hours at all times.
alter table usage_progress add column days_summed_until_ms integer not null default 0;
