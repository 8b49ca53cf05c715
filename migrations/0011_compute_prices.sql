-- `display_name` and `vram_gb`: what tenants are shown of a GPU's price. A version of before leaves them out.
alter table models add column display_name text;
alter table models add column vram_gb integer;

-- What rented machines and storage used: GPU-ms of true hours, and GB-days.
alter table usage_events add column gpu_ms integer not null default 0;
alter table usage_events add column interruptible_gpu_ms integer not null default 0;
alter table usage_events add column storage_gb_days integer not null default 0;
alter table usage_hours add column gpu_ms integer not null default 0;
alter table usage_hours add column interruptible_gpu_ms integer not null default 0;
alter table usage_hours add column storage_gb_days integer not null default 0;
alter table usage_days add column gpu_ms integer not null default 0;
alter table usage_days add column interruptible_gpu_ms integer not null default 0;
alter table usage_days add column storage_gb_days integer not null default 0;
