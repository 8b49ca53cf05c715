/** What is earned, what fails, and who runs dry next. */

import { useMemo, useState } from "preact/hooks";
import { useLocation } from "preact-iso/router";
import { link, useAddress } from "../kit/address.ts";
import { all, get, type Page } from "../kit/api.ts";
import { brief, count, hours, ms, named, percent, usd, usdBrief } from "../kit/format.ts";
import { Head } from "../kit/frame.tsx";
import { useLoad } from "../kit/load.ts";
import { type Figure, Figures, Ready } from "../kit/notices.tsx";
import { Plot } from "../kit/plot.tsx";
import { iso, type Range, RangePicker, rangeIn, stepSeconds } from "../kit/range.tsx";
import { loadSeries, type Series } from "../kit/series.ts";
import { type Column, Table } from "../kit/table.tsx";
import type { Account, UsageRow } from "../kit/types.ts";

type Row = UsageRow;

/** Whose money is looked at; the reports are of all. */
const MOST_ACCOUNTS = 2_000;
const OF_THE_FIRST = `Of the first ${count(MOST_ACCOUNTS)} accounts`;

interface Data {
  readonly range: Range;
  readonly total: Row | undefined;
  readonly series: Series;
  readonly accounts: readonly Account[];
  readonly byAccount: readonly UsageRow[];
  readonly byModel: readonly UsageRow[];
  readonly lastDay: readonly UsageRow[];
}

async function load(query: Readonly<Record<string, string>>, signal: AbortSignal): Promise<Data> {
  const range = rangeIn(query, Date.now());
  const narrowed = { account: query.account };
  const span = { from: range.fromMs, to: range.toMs, ...narrowed };
  const [total, series, accounts, byAccount, byModel, lastDay] = await Promise.all([
    get<Page<Row>>("/admin/usage", span, signal),
    loadSeries("/admin", range, narrowed, signal),
    all<Account>("/admin/accounts", {}, MOST_ACCOUNTS, signal),
    all<UsageRow>("/admin/usage", { ...span, group_by: "account" }, 1_000, signal),
    all<UsageRow>("/admin/usage", { ...span, group_by: "model" }, 1_000, signal),
    all<UsageRow>("/admin/usage", { from: "-24h", group_by: "account" }, 1_000, signal),
  ]);
  return { range, total: total.data[0], series, accounts, byAccount, byModel, lastDay };
}

export function Overview() {
  const { query, set } = useAddress();
  const { range = "", from = "", to = "", account = "" } = query;
  const loaded = useLoad((signal) => load({ range, from, to, account }, signal), [range, from, to, account], 60_000);
  return (
    <>
      <Head title="Overview">
        <AccountFilter
          value={account}
          accounts={loaded.data?.accounts ?? []}
          onChange={(id) => set({ account: id }, true)}
        />
        <RangePicker />
      </Head>
      <Ready of={loaded}>{(data) => <Shown data={data} account={account} />}</Ready>
    </>
  );
}

function AccountFilter({
  value,
  accounts,
  onChange,
}: {
  value: string;
  accounts: readonly Account[];
  onChange(id: string): void;
}) {
  return (
    <select aria-label="Account" value={value} onChange={(event) => onChange(event.currentTarget.value)}>
      <option value="">All accounts</option>
      {value && !accounts.some(({ id }) => id === value) && <option value={value}>{value}</option>}
      {accounts.map(({ id, name }) => (
        <option key={id} value={id}>
          {named(name)}
        </option>
      ))}
    </select>
  );
}

function Shown({ data, account }: { data: Data; account: string }) {
  const { total, accounts } = data;
  const held = accounts.filter(({ id }) => !account || id === account).reduce((sum, one) => sum + one.held_usd, 0);
  if (accounts.length === 0) {
    return (
      <p class="empty">
        There is no account yet. <a href="/console/accounts">Make the first one</a>, then give it a key.
      </p>
    );
  }
  return (
    <>
      <Figures label="In this range" of={figures(total, held, accounts.length >= MOST_ACCOUNTS)} />
      <Plots data={data} account={account} />
      <div class="columns">
        <RunsDry data={data} />
        <Shares data={data} account={account} />
      </div>
    </>
  );
}

function figures(total: Row | undefined, held: number, cut: boolean): Figure[] {
  const { calls = 0, errors = 0, price_usd: price = 0, cost_usd: cost = 0, margin_usd: margin = 0 } = total ?? {};
  const p95 = total?.first_byte?.p95;
  return [
    { label: "Revenue", value: usdBrief(price), title: usd(price) },
    { label: "Cost", value: usdBrief(cost), title: usd(cost) },
    { label: "Margin", value: usdBrief(margin), title: usd(margin), kind: margin < 0 ? "bad" : undefined },
    { label: "Calls", value: brief(calls), title: count(calls) },
    {
      label: "Errors",
      value: calls > 0 ? percent(errors / calls) : "–",
      title: `${count(errors)} calls`,
      kind: errors > calls / 20 ? "bad" : undefined,
    },
    ...(p95 === undefined
      ? [{ label: "Mean latency", value: ms(total?.latency_ms ?? null) }]
      : [{ label: "First byte, p95", value: ms(p95) }]),
    { label: "Held now", value: usdBrief(held), title: cut ? `${OF_THE_FIRST}: ${usd(held)}` : usd(held) },
  ];
}

function Plots({ data, account }: { data: Data; account: string }) {
  const { set } = useAddress();
  const { route } = useLocation();
  const { times, points } = data.series;
  const lines = useMemo(
    () => ({
      money: [
        { label: "Revenue", values: points.map(({ price }) => price), shown: usd, color: "blue" as const },
        { label: "Cost", values: points.map(({ cost }) => cost), shown: usd, color: "amber" as const },
      ],
      calls: [
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
        account,
        from: iso(at),
        to: iso(at + (times.length > 1 ? (times[1] ?? 0) - (times[0] ?? 0) : stepSeconds(data.range))),
      }),
    );
  return (
    <div class="plots">
      <Plot title="Revenue and cost, USD" times={times} lines={lines.money} onRange={onRange} onPoint={onPoint} />
      <Plot title="Calls and errors" times={times} lines={lines.calls} onRange={onRange} onPoint={onPoint} />
    </div>
  );
}

interface Dry {
  readonly account: Account;
  readonly available: number;
  readonly spent: number;
  /** At the pace of the last 24 hours; null: nothing was spent. */
  readonly hoursLeft: number | null;
}
const DRY: readonly Column<Dry>[] = [
  {
    name: "account",
    label: "Account",
    value: ({ account }) => account.id,
    cell: ({ account }) => <a href={link(`/accounts/${account.id}`)}>{named(account.name)}</a>,
  },
  {
    name: "available",
    label: "Available",
    number: true,
    value: ({ available }) => available,
    cell: ({ available }) => <span title={usd(available)}>{usdBrief(available)}</span>,
  },
  {
    name: "spent",
    label: "Last 24 h",
    number: true,
    value: ({ spent }) => spent,
    cell: ({ spent }) => <span title={usd(spent)}>{usdBrief(spent)}</span>,
  },
  {
    name: "left",
    label: "Lasts",
    number: true,
    value: ({ hoursLeft }) => hoursLeft,
    cell: ({ hoursLeft }) => hours(hoursLeft),
  },
];

function RunsDry({ data }: { data: Data }) {
  const [most, setMost] = useState(8);
  const rows = data.accounts
    .filter(({ deleted_at }) => deleted_at === null)
    .map((account): Dry => {
      const spent = data.lastDay.find((row) => row.account === account.id)?.price_usd ?? 0;
      const available = account.balance_usd - account.held_usd + (account.bills_monthly ? account.credit_limit_usd : 0);
      return { account, available, spent, hoursLeft: spent > 0 ? Math.max(0, (available / spent) * 24) : null };
    })
    .sort((a, b) => (a.hoursLeft ?? Infinity) - (b.hoursLeft ?? Infinity) || a.available - b.available);
  return (
    <section>
      <h2>Who runs dry next</h2>
      {data.accounts.length >= MOST_ACCOUNTS && <p class="quiet">{OF_THE_FIRST}.</p>}
      <Table
        name="dry"
        caption="Accounts by how long their money lasts"
        columns={DRY}
        rows={rows.slice(0, most)}
        idOf={({ account }) => account.id}
        empty="No account."
        more={rows.length > most ? () => setMost(most + 20) : undefined}
      />
    </section>
  );
}

const figuresOf: readonly Column<UsageRow>[] = [
  { name: "calls", label: "Calls", number: true, value: (row) => row.calls, cell: (row) => count(row.calls) },
  { name: "errors", label: "Errors", number: true, value: (row) => row.errors, cell: (row) => count(row.errors) },
  {
    name: "price_usd",
    label: "Revenue",
    number: true,
    value: (row) => row.price_usd,
    cell: (row) => <span title={usd(row.price_usd)}>{usdBrief(row.price_usd)}</span>,
  },
  {
    name: "margin_usd",
    label: "Margin",
    number: true,
    value: (row) => row.margin_usd,
    cell: (row) => <span title={usd(row.margin_usd)}>{usdBrief(row.margin_usd)}</span>,
  },
];

function Shares({ data, account }: { data: Data; account: string }) {
  const { range } = data;
  const span = { account, from: new Date(range.fromMs).toISOString(), to: new Date(range.toMs).toISOString() };
  const model: Column<UsageRow> = {
    name: "model",
    label: "Model",
    value: (row) => row.model ?? "",
    cell: (row) => <a href={link("/calls", { ...span, model: row.model })}>{row.model}</a>,
  };
  const whose: Column<UsageRow> = {
    name: "account",
    label: "Account",
    value: (row) => row.account ?? "",
    cell: (row) => <a href={link("/calls", { ...span, account: row.account })}>{row.account}</a>,
  };
  return (
    <section>
      <h2>By model</h2>
      <Table
        name="models"
        caption="Usage by model"
        columns={[model, ...figuresOf]}
        rows={data.byModel}
        idOf={(row) => row.model ?? ""}
        empty="No calls in this range. Choose a longer one."
      />
      {!account && (
        <>
          <h2>By account</h2>
          <Table
            name="accounts"
            caption="Usage by account"
            columns={[whose, ...figuresOf]}
            rows={data.byAccount}
            idOf={(row) => row.account ?? ""}
            empty="No calls in this range. Choose a longer one."
          />
        </>
      )}
    </section>
  );
}
