-- The seat that an account is being moved to: it keeps others out as a seat does, until the account's object has taken
-- it. `token` names the call that moves.
create table seat_moves (
  account text primary key,
  upstream text not null,
  token text not null,
  since_ms integer not null
) strict;
create index seat_moves_by_upstream on seat_moves (upstream);
