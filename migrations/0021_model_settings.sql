-- What a model is and where it runs: one row, which holds at once. `models` keeps its prices by date, with a copy of
-- these columns on each row, so that a Worker of before reads on and its writes are kept.
create table model_settings (
  model text primary key,
  kind text not null,
  upstream text,
  max_output_tokens integer,
  context_tokens integer,
  prompt_overhead_tokens integer,
  max_part_tokens integer,
  part_tokens integer,
  display_name text,
  vram_gb integer,
  cap_field text,
  created_ms integer not null,
  -- Never the same twice: it is the version too.
  changed_ms integer not null
) strict;

-- The row that holds now says what a model is, or else the first to come.
insert into model_settings
  select model, kind, upstream, max_output_tokens, context_tokens, prompt_overhead_tokens, max_part_tokens, part_tokens,
    display_name, vram_gb, cap_field, created_ms, created_ms
  from models as row where from_ms = coalesce(
    (select max(from_ms) from models where model = row.model and from_ms <= unixepoch('subsec') * 1000),
    (select min(from_ms) from models where model = row.model));

-- No price moves traffic on its day: the rows to come run where the model runs.
update models set (kind, upstream, max_output_tokens, context_tokens, prompt_overhead_tokens, max_part_tokens,
    part_tokens, display_name, vram_gb, cap_field) =
  (select kind, upstream, max_output_tokens, context_tokens, prompt_overhead_tokens, max_part_tokens, part_tokens,
    display_name, vram_gb, cap_field from model_settings where model = models.model);

create trigger model_settings_made after insert on model_settings begin
  update models set (kind, upstream, max_output_tokens, context_tokens, prompt_overhead_tokens, max_part_tokens,
      part_tokens, display_name, vram_gb, cap_field) =
    (new.kind, new.upstream, new.max_output_tokens, new.context_tokens, new.prompt_overhead_tokens,
      new.max_part_tokens, new.part_tokens, new.display_name, new.vram_gb, new.cap_field)
    where model = new.model;
end;
create trigger model_settings_changed after update on model_settings begin
  update models set (kind, upstream, max_output_tokens, context_tokens, prompt_overhead_tokens, max_part_tokens,
      part_tokens, display_name, vram_gb, cap_field) =
    (new.kind, new.upstream, new.max_output_tokens, new.context_tokens, new.prompt_overhead_tokens,
      new.max_part_tokens, new.part_tokens, new.display_name, new.vram_gb, new.cap_field)
    where model = new.model;
end;
-- A row of a Worker of before has its own settings; what holds now counts. Ours copies what is there: nothing changes.
create trigger models_define after insert on models
when new.from_ms <= unixepoch('subsec') * 1000
  or not exists (select 1 from model_settings where model = new.model)
begin
  insert into model_settings values (new.model, new.kind, new.upstream, new.max_output_tokens, new.context_tokens,
    new.prompt_overhead_tokens, new.max_part_tokens, new.part_tokens, new.display_name, new.vram_gb, new.cap_field,
    new.created_ms, new.created_ms)
  on conflict (model) do update set kind = excluded.kind, upstream = excluded.upstream,
    max_output_tokens = excluded.max_output_tokens, context_tokens = excluded.context_tokens,
    prompt_overhead_tokens = excluded.prompt_overhead_tokens, max_part_tokens = excluded.max_part_tokens,
    part_tokens = excluded.part_tokens, display_name = excluded.display_name, vram_gb = excluded.vram_gb,
    cap_field = excluded.cap_field, changed_ms = max(excluded.changed_ms, changed_ms + 1)
  where kind is not excluded.kind or upstream is not excluded.upstream
    or max_output_tokens is not excluded.max_output_tokens or context_tokens is not excluded.context_tokens
    or prompt_overhead_tokens is not excluded.prompt_overhead_tokens
    or max_part_tokens is not excluded.max_part_tokens or part_tokens is not excluded.part_tokens
    or display_name is not excluded.display_name or vram_gb is not excluded.vram_gb
    or cap_field is not excluded.cap_field;
end;
-- A row to come, of a Worker of before: it runs where the model runs.
create trigger models_follow after insert on models
when new.from_ms > unixepoch('subsec') * 1000
begin
  update models set (kind, upstream, max_output_tokens, context_tokens, prompt_overhead_tokens, max_part_tokens,
      part_tokens, display_name, vram_gb, cap_field) =
    (select kind, upstream, max_output_tokens, context_tokens, prompt_overhead_tokens, max_part_tokens, part_tokens,
      display_name, vram_gb, cap_field from model_settings where model = new.model)
    where model = new.model and from_ms = new.from_ms;
end;
