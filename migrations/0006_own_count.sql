-- What own count takes for a part that is not text; a version of before leaves it out and gets the default.
alter table models add column part_tokens integer;

-- 1 where the upstream's input figure was below a tenth of what was sent by the gateway's own count; sums count such calls.
alter table usage_events add column low_input integer not null default 0;
alter table usage_hours add column low_input integer not null default 0;
alter table usage_days add column low_input integer not null default 0;
