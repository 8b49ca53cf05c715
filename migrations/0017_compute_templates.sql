-- Defaults for the fields of a launch, of all accounts (null) or of one. `defaults`: JSON.
create table compute_templates (
  id integer primary key,
  account text,
  name text not null,
  description text,
  defaults text not null,
  created_ms integer not null,
  changed_ms integer not null
) strict;

-- They travel with the routing snapshot.
create trigger compute_templates_made after insert on compute_templates begin
  update routing_version set version = max(version + 1, cast(unixepoch('subsec') * 1000 as integer));
end;
create trigger compute_templates_changed after update on compute_templates begin
  update routing_version set version = max(version + 1, cast(unixepoch('subsec') * 1000 as integer));
end;
create trigger compute_templates_gone after delete on compute_templates begin
  update routing_version set version = max(version + 1, cast(unixepoch('subsec') * 1000 as integer));
end;
