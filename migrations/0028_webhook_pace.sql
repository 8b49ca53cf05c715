-- `pause_ms`: how long the receiver is left alone after a try. How many deliveries wait for it is asked at each new one.
alter table webhooks add column pause_ms integer not null default 0;
create index deliveries_pending on webhook_deliveries (webhook) where state = 'pending';
