/**
 * The text of `/metrics`, in Prometheus' format. Labels are names of the operator's own: a model that does not exist is
 * `other`.
 */
import { BUCKET_ENDS_MS, type Histogram } from "./histogram.ts";

/** `labels` in the order of the metric's. */
export interface Counter {
  readonly name: string;
  readonly labels: readonly string[];
  readonly value: number;
}
/** A histogram of all time. */
export interface Ever {
  readonly measure: "latency" | "first_byte" | "try";
  readonly upstream: string;
  readonly model: string;
  readonly result: string;
  readonly histogram: Histogram;
  readonly sumMs: number;
}

export interface Figures {
  readonly counters: readonly Counter[];
  readonly ever: readonly Ever[];
  /** Summed over all accounts. */
  readonly gauges: Readonly<Record<string, number>>;
  readonly booksBytes: number;
}

interface Metric {
  /** In the books. */
  readonly name: string;
  readonly metric: string;
  readonly labels: readonly string[];
  readonly unit?: number;
  /** Shown where accounts are asked for. */
  readonly ofAccounts?: true;
  readonly help: string;
}

const NANO = 1e9;
const CORRECTED = "What later events took back of it; subtract it to get what reports show";

const COUNTERS: readonly Metric[] = [
  {
    name: "calls",
    metric: "calls",
    labels: ["endpoint", "model", "status_class", "outcome"],
    help: "Calls that were admitted",
  },
  { name: "refusals", metric: "refusals", labels: ["reason", "level"], help: "Calls of known keys that were refused" },
  { name: "tokens", metric: "tokens", labels: ["model", "direction"], help: "Tokens of calls" },
  { name: "tokens_corrected", metric: "tokens_corrected", labels: ["model", "direction"], help: CORRECTED },
  { name: "revenue", metric: "revenue_usd", labels: [], unit: NANO, help: "What tenants were charged" },
  { name: "revenue_corrected", metric: "revenue_corrected_usd", labels: [], unit: NANO, help: CORRECTED },
  { name: "cost", metric: "cost_usd", labels: [], unit: NANO, help: "What upstreams cost for it" },
  { name: "cost_corrected", metric: "cost_corrected_usd", labels: [], unit: NANO, help: CORRECTED },
  { name: "loss", metric: "loss_usd", labels: [], unit: NANO, help: "What nobody pays, as an upper bound" },
  { name: "loss_corrected", metric: "loss_corrected_usd", labels: [], unit: NANO, help: CORRECTED },
  {
    name: "calls_of",
    metric: "account_calls",
    labels: ["account"],
    ofAccounts: true,
    help: "Calls of the accounts that were charged most",
  },
  {
    name: "revenue_of",
    metric: "account_revenue_usd",
    labels: ["account"],
    unit: NANO,
    ofAccounts: true,
    help: "What they were charged",
  },
  {
    name: "revenue_of_corrected",
    metric: "account_revenue_corrected_usd",
    labels: ["account"],
    unit: NANO,
    ofAccounts: true,
    help: CORRECTED,
  },
];

const namesOf = (ofAccounts: boolean): readonly string[] =>
  COUNTERS.filter((one) => (one.ofAccounts ?? false) === ofAccounts).map(({ name }) => name);
/** Names of the counters in the books: those of all, and those of accounts. */
export const COUNTER_NAMES = { all: namesOf(false), accounts: namesOf(true) };

export function metricsText({ counters, ever, gauges, booksBytes }: Figures): string {
  const lines: string[] = [];
  for (const { name, metric, labels, unit = 1, ofAccounts, help } of COUNTERS) {
    const found = counters.filter((counter) => counter.name === name);
    if (ofAccounts && found.length === 0) continue;
    head(lines, `${metric}_total`, "counter", help);
    if (found.length === 0 && labels.length === 0) lines.push(`tollgate_${metric}_total 0`);
    for (const one of found) {
      const pairs = labels.map((label, index) => [label, one.labels[index] ?? ""] as const);
      lines.push(`tollgate_${metric}_total${written(pairs)} ${one.value / unit}`);
    }
  }
  head(lines, "upstream_tries_total", "counter", "Tries at targets, by how they ended");
  for (const { upstream, model, result, histogram } of ever.filter(({ measure }) => measure === "try")) {
    const pairs = [
      ["upstream", upstream],
      ["model", model],
      ["result", result],
    ] as const;
    lines.push(`tollgate_upstream_tries_total${written(pairs)} ${sum(histogram)}`);
  }
  histograms(lines, "upstream_first_byte_seconds", "From a call's start to its first byte", ever, "first_byte");
  histograms(lines, "call_duration_seconds", "From a call's start to its end", ever, "latency");
  gauge(lines, "holds_open", "Calls and rentals that hold money, as accounts last said", gauges.open_holds);
  gauge(lines, "outbox_events", "Events that wait in accounts, as they last said", gauges.waiting_events);
  head(lines, "storage_bytes", "gauge", "Bytes in use");
  lines.push(`tollgate_storage_bytes{store="accounts"} ${gauges.account_bytes ?? 0}`);
  lines.push(`tollgate_storage_bytes{store="d1"} ${booksBytes}`);
  return `${lines.join("\n")}\n`;
}

function gauge(lines: string[], name: string, help: string, value = 0): void {
  head(lines, name, "gauge", help);
  lines.push(`tollgate_${name} ${value}`);
}

/** One histogram for each upstream. */
function histograms(
  lines: string[],
  name: string,
  help: string,
  ever: readonly Ever[],
  measure: Ever["measure"],
): void {
  head(lines, name, "histogram", help);
  const ofMeasure = ever.filter((one) => one.measure === measure);
  for (const [upstream, all] of Map.groupBy(ofMeasure, (one) => one.upstream)) {
    const pair = ["upstream", upstream === "" ? "none" : upstream] as const;
    let below = 0;
    for (const [bucket, end] of [...BUCKET_ENDS_MS, Number.POSITIVE_INFINITY].entries()) {
      below += sum(all.map(({ histogram }) => histogram[bucket] ?? 0));
      const le = end === Number.POSITIVE_INFINITY ? "+Inf" : String(end / 1000);
      lines.push(`tollgate_${name}_bucket${written([pair, ["le", le]])} ${below}`);
    }
    lines.push(`tollgate_${name}_sum${written([pair])} ${sum(all.map(({ sumMs }) => sumMs)) / 1000}`);
    lines.push(`tollgate_${name}_count${written([pair])} ${below}`);
  }
}

const head = (lines: string[], name: string, type: string, help: string): void => {
  lines.push(`# HELP tollgate_${name} ${help}.`, `# TYPE tollgate_${name} ${type}`);
};

const sum = (values: readonly number[]): number => values.reduce((total, value) => total + value, 0);

function written(pairs: readonly (readonly [name: string, value: string])[]): string {
  if (pairs.length === 0) return "";
  return `{${pairs.map(([name, value]) => `${name}="${escaped(value)}"`).join(",")}}`;
}

const escaped = (value: string): string =>
  value.replaceAll("\\", "\\\\").replaceAll('"', '\\"').replaceAll("\n", "\\n");
