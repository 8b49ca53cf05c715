/** `tollgate why`: what became of a call, or why calls of an account are refused. */
import type { Schemas } from "../../client/operator.ts";
import type { Command, Work } from "../command.ts";
import { usage } from "../failure.ts";
import type { Gateway } from "../gateway.ts";
import { adviceOn } from "../reasons.ts";
import { usd, when } from "../show/cells.ts";
import type { Fact } from "../show/printer.ts";
import { CALL_FILTERS, callQuery } from "./calls.ts";
import { collected } from "./collected.ts";

type Call = Schemas["Call"];

export const whyCommand: Command = {
  words: "why",
  args: [{ name: "call", optional: true }],
  about: "What became of a call, or why calls of an account fail",
  more: "<call> is the x-request-id of an answer; without it, calls are counted by reason and key.",
  options: CALL_FILTERS,
  examples: ["why 5462eabf-6681-4841-9d44-29c96dd08023", "why --account acme --status 429 --since 1h"],
  run(work) {
    const id = work.argOr("call");
    if (id !== undefined) return whyOne(work, work.gateway(), id);
    if (work.given.text("account") === undefined) throw usage("Name a call, or --account.");
    return whyMany(work, work.gateway());
  },
};

async function whyOne({ print }: Work, gateway: Gateway, id: string): Promise<void> {
  const call = await gateway.run("getCall", { call: id });
  const advice = adviceOn(call.reason);
  if (print.form === "json") return print.json({ ...call, advice: advice ?? null });
  await print.thing(
    [
      ["call", call.id],
      ["account", call.account],
      ["key", call.key],
      ["team", call.team],
      ["endpoint", call.endpoint],
      ["model", call.alias === null ? call.model : `${call.model} (alias ${call.alias})`],
      ["ended", when(call.ended_at)],
      ["took ms", call.latency_ms],
      ["first byte ms", call.first_byte_ms],
      ["status", call.status],
      ["outcome", call.outcome],
      ["reason", call.reason],
      ["served by", call.upstream === null ? null : `${call.upstream}, ${call.target_model}`],
      ["charged USD", usd(call.charged_usd)],
      ["held USD", usd(call.held_usd)],
      ["loss USD", usd(call.loss_usd)],
      ...refusalFacts(call),
      ["what to do", advice],
    ],
    call,
  );
  if (print.form !== "table" || !call.tries || call.tries.length === 0) return;
  await print.say("");
  await print.rows(
    [
      ["try", (one) => one.at],
      ["upstream", (one) => one.upstream],
      ["model", (one) => one.model],
      ["result", (one) => one.result],
      ["ms", (one) => one.ms],
    ],
    call.tries.map((one, at) => ({ ...one, at: at + 1 })),
  );
}

/** The limit that a refused call met, or where its body was wrong. */
function refusalFacts({ refusal, param }: Pick<Call, "refusal" | "param">): Fact[] {
  const wrong: Fact[] = param === null ? [] : [["wrong field", param]];
  if (refusal === null) return wrong;
  const { level, id, limit, used, allowed, frees_at } = refusal;
  return [
    ...wrong,
    ["limit", `${limit} of the ${level} ${id}`],
    ["used, allowed", `${used ?? "?"} of ${allowed}`],
    ["frees at", when(frees_at)],
  ];
}

/** Calls that are looked at. */
const MOST_CALLS = 10_000;

interface Counted {
  readonly reason: string | null;
  readonly status: number;
  readonly key: string;
  readonly model: string | null;
  readonly limit: string | null;
  readonly calls: number;
  readonly last: string;
}

async function whyMany({ print, given }: Work, gateway: Gateway): Promise<void> {
  const account = given.text("account") ?? "";
  const query = { from: "-24h", ...defined(callQuery(given)), limit: 500 };
  const { from, to, key } = query;
  const [calls, refusals, levels] = await Promise.all([
    collected(gateway.rows("listCalls", { query }), MOST_CALLS),
    collected(gateway.rows("listRefusals", { account, query: { from, to, key, limit: 1000 } }), MOST_CALLS),
    collected(gateway.rows("listLimits", { account })),
  ]);
  const failed = calls.filter(({ status, outcome }) => status >= 400 || outcome !== "completed");
  const counted = countBy(failed);
  const full = levels.flatMap(({ level, id, name, limits }) =>
    limits.filter(({ left }) => left <= 0).map((limit) => ({ level, id, name, ...limit })),
  );
  const sums = sumUp(refusals);
  if (print.form === "json") {
    return print.json({ data: counted, refusals: sums, full_limits: full, looked_at: calls.length });
  }
  await print.rows(
    [
      ["reason", (row) => row.reason],
      ["status", (row) => row.status],
      ["key", (row) => row.key],
      ["model", (row) => row.model],
      ["limit", (row) => row.limit],
      ["calls", (row) => row.calls],
      ["last", (row) => when(row.last)],
    ],
    counted,
    { empty: `Of the ${calls.length} calls in this time none failed.` },
  );
  if (print.form !== "table") return;
  for (const reason of new Set(counted.map((row) => row.reason))) {
    const advice = adviceOn(reason);
    if (advice) await print.say(`\n${reason}: ${advice}`);
  }
  await showRefusals(print, sums);
  if (full.length === 0) return;
  await print.say("\nFull now");
  await print.rows(
    [
      ["level", (row) => row.level],
      ["id", (row) => row.id],
      ["name", (row) => row.name],
      ["limit", (row) => row.limit],
      ["allowed", (row) => row.allowed],
      ["used", (row) => row.used],
      ["frees_at", (row) => when(row.frees_at)],
    ],
    full,
  );
}

interface Refused {
  readonly reason: string;
  readonly limit: string | null;
  readonly key: string;
  readonly refusals: number;
}

/** Of many refusals only some are kept singly; these sums have all of them. */
function sumUp(rows: readonly Schemas["RefusalSum"][]): Refused[] {
  const found = new Map<string, Refused>();
  for (const { reason, level, limit: name, key, refusals } of rows) {
    const limit = name === null ? null : `${name} of the ${level}`;
    const group = JSON.stringify([reason, limit, key]);
    found.set(group, { reason, limit, key, refusals: refusals + (found.get(group)?.refusals ?? 0) });
  }
  return [...found.values()].sort((one, other) => other.refusals - one.refusals);
}

async function showRefusals(print: Work["print"], sums: readonly Refused[]): Promise<void> {
  if (sums.length === 0) return;
  await print.say("\nRefused in this time, also those that are not kept singly");
  await print.rows(
    [
      ["reason", (row) => row.reason],
      ["limit", (row) => row.limit],
      ["key", (row) => row.key],
      ["refusals", (row) => row.refusals],
    ],
    sums,
  );
}

const defined = <Values extends object>(values: Values): Partial<Values> =>
  Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined)) as Partial<Values>;

function countBy(calls: readonly Call[]): Counted[] {
  const found = new Map<string, Counted>();
  for (const { reason, status, key, model, refusal, ended_at: last } of calls) {
    const limit = refusal && `${refusal.limit} of the ${refusal.level}`;
    const group = JSON.stringify([reason, status, key, model, limit]);
    const before = found.get(group);
    // Newest first: the first of a group is its last.
    found.set(
      group,
      before ? { ...before, calls: before.calls + 1 } : { reason, status, key, model, limit, calls: 1, last },
    );
  }
  return [...found.values()].sort((one, other) => other.calls - one.calls);
}
