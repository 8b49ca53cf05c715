-- An instance whose account pays its time: `hourly` are its GPUs as JSON, `rental` names the rental in the account's
-- object. A version of before leaves both out.
alter table instances add column hourly text;
alter table instances add column rental integer;
