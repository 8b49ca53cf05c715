/** What was spent and used, over time, by model and by key. */

import { useMemo } from "preact/hooks";
import { useLocation } from "preact-iso/router";
import { link, useAddress } from "../kit/address.ts";
import { all, apiUrl, get, type Page, withQuery } from "../kit/api.ts";
import { brief, count, ms, percent, usd, usdBrief } from "../kit/format.ts";
import { Head } from "../kit/frame.tsx";
import { useLoad } from "../kit/load.ts";
import { Figures, Ready } from "../kit/notices.tsx";
import { Plot } from "../kit/plot.tsx";
import { iso, type Range, RangePicker, rangeIn, stepSeconds } from "../kit/range.tsx";
import { loadSeries, type Series } from "../kit/series.ts";
import { type Column, Table } from "../kit/table.tsx";
import type { TenantUsageRow } from "../kit/types.ts";

interface Data {
  readonly range: Range;
  readonly total: TenantUsageRow | undefined;
  readonly series: Series;
  readonly byModel: readonly TenantUsageRow[];
  readonly byKey: readonly TenantUsageRow[];
}

async function load(query: Readonly<Record<string, string>>, signal: AbortSignal): Promise<Data> {
  const range = rangeIn(query, Date.now());
  const span = { from: range.fromMs, to: range.toMs };
  const grouped = (group_by: string) => all<TenantUsageRow>("/account/usage", { ...span, group_by }, 1_000, signal);
  const [total, series, byModel, byKey] = await Promise.all([
    get<Page<TenantUsageRow>>("/account/usage", span, signal),
    loadSeries("/account", range, {}, signal),
    grouped("model"),
    grouped("key"),
  ]);
  return { range, total: total.data[0], series, byModel, byKey };
}

export function Usage() {
  const { query } = useAddress();
  const { range = "", from = "", to = "" } = query;
  const loaded = useLoad((signal) => load({ range, from, to }, signal), [range, from, to], 60_000);
  return (
    <>
      <Head title="Usage">
        <RangePicker />
      </Head>
      <Ready of={loaded}>{(data) => <Shown data={data} />}</Ready>
    </>
  );
}

function Shown({ data }: { data: Data }) {
  const { total, range } = data;
  const { calls = 0, errors = 0, price_usd = 0, input_tokens = 0, output_tokens = 0 } = total ?? {};
  return (
    <>
      <Figures
        label="In this range"
        of={[
          { label: "Spent", value: usdBrief(price_usd), title: usd(price_usd) },
          { label: "Calls", value: brief(calls), title: count(calls) },
          { label: "Errors", value: calls > 0 ? percent(errors / calls) : "–", title: `${count(errors)} calls` },
          { label: "Input tokens", value: brief(input_tokens), title: count(input_tokens) },
          { label: "Output tokens", value: brief(output_tokens), title: count(output_tokens) },
          { label: "Mean latency", value: calls > 0 ? ms(total?.latency_ms ?? null) : "–" },
        ]}
      />
      {calls === 0 && (
        <p class="empty">
          No calls in this range. <a href="/console/quickstart">The quickstart</a> has one to copy,{" "}
          <a href="/console/playground">the playground</a> needs none.
        </p>
      )}
      <Plots data={data} />
      <div class="columns">
        <By group="model" title="By model" range={range} rows={data.byModel} />
        <By group="key" title="By key" range={range} rows={data.byKey} />
      </div>
    </>
  );
}

function Plots({ data: { series, range } }: { data: Data }) {
  const { set } = useAddress();
  const { route } = useLocation();
  const { times, points } = series;
  const lines = useMemo(
    () => ({
      money: [{ label: "Spent", values: points.map(({ price }) => price), shown: usd, color: "blue" as const }],
      tokens: [
        { label: "Calls", values: points.map(({ calls }) => calls), shown: count, color: "green" as const },
        { label: "Errors", values: points.map(({ errors }) => errors), shown: count, color: "red" as const },
      ],
    }),
    [points],
  );
  const onRange = (from: number, to: number) => set({ range: null, from: iso(from), to: iso(to) }, true);
  const onPoint = (at: number) =>
    route(
      link("/calls", {
        from: iso(at),
        to: iso(at + (times.length > 1 ? (times[1] ?? 0) - (times[0] ?? 0) : stepSeconds(range))),
      }),
    );
  return (
    <div class="plots">
      <Plot title="Spent, USD" times={times} lines={lines.money} onRange={onRange} onPoint={onPoint} />
      <Plot title="Calls and errors" times={times} lines={lines.tokens} onRange={onRange} onPoint={onPoint} />
    </div>
  );
}

function By({
  group,
  title,
  range,
  rows,
}: {
  group: "model" | "key";
  title: string;
  range: Range;
  rows: readonly TenantUsageRow[];
}) {
  const span = { from: new Date(range.fromMs).toISOString(), to: new Date(range.toMs).toISOString() };
  const report = apiUrl(
    withQuery("/account/usage", { from: range.fromMs, to: range.toMs, group_by: group, format: "csv" }),
  );
  const columns: readonly Column<TenantUsageRow>[] = [
    {
      name: group,
      label: title.slice(3),
      value: (row) => row[group] ?? "",
      cell: (row) => <a href={link("/calls", { ...span, [group]: row[group] })}>{row[group]}</a>,
    },
    { name: "calls", label: "Calls", number: true, value: (row) => row.calls, cell: (row) => count(row.calls) },
    { name: "errors", label: "Errors", number: true, value: (row) => row.errors, cell: (row) => count(row.errors) },
    {
      name: "tokens",
      label: "Tokens",
      number: true,
      value: (row) => row.input_tokens + row.output_tokens,
      cell: (row) => brief(row.input_tokens + row.output_tokens),
    },
    {
      name: "price_usd",
      label: "Spent",
      number: true,
      value: (row) => row.price_usd,
      cell: (row) => <span title={usd(row.price_usd)}>{usdBrief(row.price_usd)}</span>,
    },
  ];
  return (
    <section>
      <h2>{title}</h2>
      <Table
        name={group}
        caption={`Usage ${title.toLowerCase()}`}
        columns={columns}
        rows={rows}
        idOf={(row) => row[group] ?? ""}
        empty="No calls in this range."
        actions={
          <a class="button plain" href={report} download data-native>
            Whole report
          </a>
        }
      />
    </section>
  );
}
