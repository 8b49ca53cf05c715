-- The archive's parts of calls, of each account in order. A part has the rows of its hour between two row ids, from one
-- place in the order of their ends to another; `late`: how many of them correct a call that ended before.
create table call_parts (
  account integer not null,
  n integer not null,
  state text not null check (state in ('planned', 'kept')),
  hour_ms integer not null,
  from_row integer not null,
  through_row integer not null,
  after_ms integer not null,
  after_row integer not null,
  last_ms integer not null,
  last_row integer not null,
  lines integer not null,
  late integer not null,
  nano_usd integer not null,
  bytes integer not null,
  footer_bytes integer not null,
  blocks text not null,
  sha256 text not null,
  etag text not null,
  primary key (account, n)
) strict, without rowid;
create index call_parts_by_hour on call_parts (hour_ms, account);

-- Raw events of the hours before this are in the archive, every one.
alter table usage_progress add column archived_until_ms integer not null default 0;
