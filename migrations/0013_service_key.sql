-- The key that service paths of instances and clusters are called with, sealed as the other one, and when a check last
-- showed that pods do not get it. Null: service paths are off. A version of before leaves both out.
alter table upstreams add column sealed_service_key text;
alter table upstreams add column service_checked_ms integer;

-- What the check showed holds for that address and those keys alone, whoever changes one.
create trigger upstreams_unchecked after update of base_url, sealed_api_key, sealed_service_key on upstreams
when new.base_url is not old.base_url
  or new.sealed_api_key is not old.sealed_api_key
  or new.sealed_service_key is not old.sealed_service_key
begin
  update upstreams set service_checked_ms = null where id = new.id;
end;
