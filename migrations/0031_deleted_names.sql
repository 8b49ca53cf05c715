-- Of a deleted account no name is kept (src/platform/d1/accounts.ts). These take out what is written after the deletion:
-- an alert that was on its way, a key or a team that was being named.
create trigger alerts_of_deleted after insert on alerts
when exists (select 1 from accounts where id = new.account and deleted_ms is not null)
begin
  update alerts set data = json_replace(data, '$.name', cast(coalesce(data ->> '$.key', data ->> '$.id', '') as text))
  where seq = new.seq;
end;
create trigger keys_of_deleted after insert on key_index
when exists (select 1 from accounts where id = new.account and deleted_ms is not null)
begin
  update key_index set name = key where account = new.account and key = new.key and last_four = new.last_four;
end;
create trigger keys_of_deleted_named after update of name on key_index
when new.name <> new.key and exists (select 1 from accounts where id = new.account and deleted_ms is not null)
begin
  update key_index set name = key where account = new.account and key = new.key and last_four = new.last_four;
end;
create trigger teams_of_deleted after insert on team_index
when exists (select 1 from accounts where id = new.account and deleted_ms is not null)
begin
  update team_index set name = team where account = new.account and team = new.team;
end;
create trigger teams_of_deleted_named after update of name on team_index
when new.name <> new.team and exists (select 1 from accounts where id = new.account and deleted_ms is not null)
begin
  update team_index set name = team where account = new.account and team = new.team;
end;
create trigger deleted_account_named after update of name on accounts
when new.deleted_ms is not null and new.name <> new.id
begin
  update accounts set name = id where number = new.number;
end;
