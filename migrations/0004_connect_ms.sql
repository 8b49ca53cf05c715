-- How long a connection to an upstream may take to stand; a version of before leaves it out and gets the default.
alter table upstreams add column connect_ms integer not null default 10000;
