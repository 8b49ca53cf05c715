/** `tollgate calls` and `tollgate top`: single calls, and who used most. */
import type { QueryOf, Schemas } from "../../client/operator.ts";
import type { Command, Given, Option, Work } from "../command.ts";
import { usage } from "../failure.ts";
import { usd, when } from "../show/cells.ts";
import { safeJson } from "../show/safe.ts";
import { type Column, csv, table } from "../show/table.ts";
import { nanoOf } from "../usd.ts";
import { collected } from "./collected.ts";

type Call = Schemas["Call"];

export const CALL_FILTERS: readonly Option[] = [
  { name: "account", value: "ID", about: "of this account" },
  { name: "team", value: "ID", about: "of this team" },
  { name: "key", value: "ID", about: "of this key" },
  { name: "model", value: "NAME", about: "as it was called" },
  { name: "upstream", value: "ID", about: "served there" },
  { name: "outcome", value: "WORD", about: "completed, client_gone, stream_broken, failed, expired, refused" },
  { name: "status", value: "CODE", about: "such as 429" },
  { name: "reason", value: "WORD", about: "such as rate_limit" },
  { name: "since", value: "TIME", about: "from then on: 24h, 30m, 7d or 2026-11-22" },
  { name: "until", value: "TIME", about: "before then" },
];

/** `24h` is so long ago, as `-24h` is. */
export const since = (text: string | undefined): string | undefined =>
  text !== undefined && /^\d+[mhd]$/.test(text) ? `-${text}` : text;

export const callQuery = (given: Given): QueryOf<"listCalls"> => ({
  account: given.text("account"),
  team: given.text("team"),
  key: given.text("key"),
  model: given.text("model"),
  upstream: given.text("upstream"),
  outcome: given.text("outcome"),
  status: given.text("status"),
  reason: given.text("reason"),
  from: since(given.text("since")),
  to: since(given.text("until")),
});

/** A whole number from 1 on. */
export function countOf(given: Given, name: string, standard: number, most: number): number {
  const text = given.text(name);
  const count = text === undefined ? standard : Number(text);
  if (Number.isInteger(count) && count >= 1 && count <= most) return count;
  throw usage(`--${name} must be a whole number from 1 to ${most}.`);
}

const CALL_COLUMNS: readonly Column<Call>[] = [
  ["ended", (call) => when(call.ended_at)],
  ["id", (call) => call.id],
  ["account", (call) => call.account],
  ["key", (call) => call.key],
  ["model", (call) => call.model],
  ["upstream", (call) => call.upstream],
  ["status", (call) => call.status],
  ["outcome", (call) => call.outcome],
  ["reason", (call) => call.reason],
  ["charged_usd", (call) => usd(call.charged_usd)],
  ["ms", (call) => call.latency_ms],
  ["first_byte_ms", (call) => call.first_byte_ms],
];

const FOLLOW_MS = 2_000;

const callsCommand: Command = {
  words: "calls",
  about: "Single calls, newest first; with --follow, new ones as they end",
  options: [
    ...CALL_FILTERS,
    { name: "limit", value: "N", about: "at most so many (50)" },
    { name: "follow", about: "go on with new calls, oldest first, until Ctrl-C" },
  ],
  examples: ["calls --account acme --status 429 --since 1h", "calls --follow", "calls --since 7d --limit 1000 --csv"],
  async run(work) {
    const { given, print } = work;
    if (given.flag("follow")) return follow(work);
    const most = countOf(given, "limit", 50, 100_000);
    const query = { ...callQuery(given), limit: Math.min(most, 500) };
    const rows = await collected(work.gateway().rows("listCalls", { query }), most);
    await print.rows(CALL_COLUMNS, rows, { empty: "No calls. Name a longer time with --since." });
  },
};

/** Calls may be told some seconds late: looks back so far, and shows each once. */
const LATE_MS = 60_000;

async function follow(work: Work): Promise<void> {
  const { io, given, print } = work;
  const gateway = work.gateway();
  const shown = new Map<string, number>();
  let fromMs = io.now();
  let head = true;
  for (;;) {
    const query = { ...callQuery(given), from: Math.max(0, fromMs - LATE_MS), to: undefined, limit: 500 };
    const rows = await collected(gateway.rows("listCalls", { query }), 5_000);
    const fresh = rows
      .filter((call) => !shown.has(call.id) && (!head || Date.parse(call.ended_at) >= fromMs))
      .reverse();
    for (const call of rows) shown.set(call.id, Date.parse(call.ended_at));
    if (fresh.length > 0 || (head && print.form !== "json")) await print.raw(linesOf(print.form, fresh, head));
    head = false;
    fromMs = io.now();
    for (const [id, endedMs] of shown) if (endedMs < fromMs - 2 * LATE_MS) shown.delete(id);
    await io.pause(FOLLOW_MS);
  }
}

/** One JSON object a line, so that a program can read them as they come. */
function linesOf(form: "table" | "json" | "csv", calls: readonly Call[], head: boolean): string {
  if (form === "json") return calls.map((call) => `${safeJson(call, 0)}\n`).join("");
  const text = form === "csv" ? csv(CALL_COLUMNS, calls) : table(CALL_COLUMNS, calls);
  return head ? text : text.slice(text.indexOf("\n") + 1);
}

type Usage = Schemas["UsageRow"];

/** Groups that have names beside their ids. */
const NAMED = ["account", "team", "key"];
/** Groups that the report has percentiles for, where it is not narrowed to an account. */
const TIMED = ["upstream", "model", "day", "hour"];
/** In ms. */
const TIMES: readonly Column<Usage>[] = [
  ["latency_p50", (row) => row.latency?.p50],
  ["latency_p95", (row) => row.latency?.p95],
  ["latency_p99", (row) => row.latency?.p99],
  ["first_byte_p50", (row) => row.first_byte?.p50],
  ["first_byte_p95", (row) => row.first_byte?.p95],
  ["first_byte_p99", (row) => row.first_byte?.p99],
];

function groupColumns(name: string): Column<Usage>[] {
  const column = (field: string): Column<Usage> => [
    field,
    (row) => (row as { [field: string]: unknown })[field] as string | null,
  ];
  return NAMED.includes(name) ? [column(name), column(`${name}_name`)] : [column(name)];
}

const topCommand: Command = {
  words: "top",
  about: "Who spent most, by account, key, model or another grouping",
  more: "By upstream, model, day or hour, of all accounts, it shows percentiles of how long calls took, in ms, too.",
  options: [
    { name: "by", value: "LIST", about: "account,key,team,model,alias,upstream,endpoint,status,reason,... (account)" },
    { name: "since", value: "TIME", about: "24h, 30m, 7d or 2026-11-22 (24h)" },
    { name: "until", value: "TIME", about: "before then" },
    { name: "account", value: "ID", about: "of this account alone" },
    { name: "limit", value: "N", about: "at most so many rows (20)" },
  ],
  examples: ["top --by account,key --since 24h", "top --by model --since 7d --csv"],
  async run({ given, print, gateway }) {
    const by = (given.text("by") ?? "account").split(",").map((name) => name.trim());
    const query = {
      group_by: by.join(","),
      from: since(given.text("since") ?? "24h"),
      to: since(given.text("until")),
      account: given.text("account"),
      limit: 10_000,
    };
    const all = await collected(gateway().rows("reportUsage", { query }), 200_000);
    const ordered = all
      .map((row) => ({ row, nano: nanoOf(row.price_usd) }))
      .sort((one, other) => (one.nano > other.nano ? -1 : one.nano < other.nano ? 1 : other.row.calls - one.row.calls));
    const rows = ordered.slice(0, countOf(given, "limit", 20, 10_000)).map(({ row }) => row);
    await print.rows(
      [
        ...by.flatMap(groupColumns),
        ["calls", (row) => row.calls],
        ["errors", (row) => row.errors],
        ["input_tokens", (row) => row.input_tokens],
        ["output_tokens", (row) => row.output_tokens],
        ["price_usd", (row) => usd(row.price_usd)],
        ["cost_usd", (row) => usd(row.cost_usd)],
        ["margin_usd", (row) => usd(row.margin_usd)],
        ...(query.account === undefined && by.every((name) => TIMED.includes(name)) ? TIMES : []),
      ],
      rows,
      { empty: "No calls in this time." },
    );
  },
};

export const CALL_COMMANDS: readonly Command[] = [callsCommand, topCommand];
