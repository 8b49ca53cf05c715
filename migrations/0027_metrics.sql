-- What `/metrics` counts beside the histograms: only ever added to. `labels`: a JSON list, in the order of the metric's.
-- Gauges stand here too, by account: what its object said of itself when it last shipped events.
create table metric_counters (
  name text not null,
  labels text not null,
  value integer not null,
  primary key (name, labels)
) strict, without rowid;
