-- The field in which an engine takes the output cap of a chat; null is the contract's. A version of before leaves it out.
alter table models add column cap_field text;
