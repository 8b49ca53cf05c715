-- What a call's record needs beside its sums: the country that it came from, and as JSON whether it was streamed, what was
-- held, its prices and costs per unit, its ledger entry and its tries. A version of before leaves them out.
alter table usage_events add column country text;
alter table usage_events add column detail text;

-- What reports can be grouped by besides. Null in sums of before.
alter table usage_hours add column upstream text;
alter table usage_hours add column region text;
alter table usage_hours add column endpoint text;
alter table usage_hours add column status integer;
alter table usage_hours add column reason text;
alter table usage_hours add column country text;
alter table usage_days add column upstream text;
alter table usage_days add column region text;
alter table usage_days add column endpoint text;
alter table usage_days add column status integer;
alter table usage_days add column reason text;
alter table usage_days add column country text;
