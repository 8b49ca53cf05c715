-- The time limit of an answer that is not streamed: it has to be made before its first byte can come.
alter table upstreams add column answer_ms integer not null default 600000;
