/**
 * A reseller's books after many calls of several tenants, with faults: what the upstream executed, what the ledgers
 * charge and what D1 reports, line by line and sum by sum. 150 calls of two tenants here, a thousand of four in `npm run proof`;
 * `TOLLGATE_CALLS=10000` makes it ten thousand.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { IN_FULL } from "../../support/in-full.ts";
import {
  atRest,
  type JoinedEvent,
  mismatches,
  unrecordedExecutions,
  usageEventsOf,
} from "../../support/joined-books.ts";
import { Operator } from "../../support/operator.ts";
import { ADMIN_TOKEN, TollgateProcess } from "../../support/process.ts";
import type { Execution } from "../../support/sandbox.ts";
import { Tenant } from "../../support/tenant.ts";

const CALLS = Number(process.env.TOLLGATE_CALLS ?? (IN_FULL ? 1_000 : 150));
const CLIENTS = 32;
/** Enough for a busy machine that does twenty calls a second. */
const PATIENCE_MS = 120_000 + CALLS * 50;

/** USD per million tokens, all different. The second is the book's row from the middle of the run on. */
const COSTS = [
  { input_tokens: 0.301, output_tokens: 0.709 },
  { input_tokens: 0.457, output_tokens: 0.911 },
] as const;
/** What each tenant pays: a markup on cost, or a price of its own. In short the last two, where sums are rounded. */
const PLANS = [
  { markup_percent: 0 },
  { markup_percent: 20 },
  { markup_percent: 33.333333 },
  { markup_percent: 7, own: { input_tokens: 1.13, output_tokens: 2.39 } },
];

const TRIED = IN_FULL ? PLANS : PLANS.slice(2);

/** What the first target of an alias does, and of how many calls in a hundred. */
const FAULTS: readonly [share: number, fault: Record<string, unknown> | null][] = [
  [50, null],
  [8, { fault: "status", status: 503 }],
  [5, { fault: "status", status: 429 }],
  [5, { fault: "status", status: 500 }],
  [4, { fault: "status", status: 400, body: { error: { message: "No.", code: "odd" } } }],
  [6, { fault: "truncate", after_frames: 3 }],
  [5, { fault: "garble", after_frames: 2 }],
  [5, { fault: "error_frame", after_frames: 2 }],
  [6, { fault: "no_usage" }],
  [3, { fault: "usage", usage: { prompt_tokens: -1, completion_tokens: 1e12, total_tokens: 0 } }],
  [3, { fault: "slow", ms: 40 }],
];

let tollgate: TollgateProcess;
let operator: Operator;
let tenants: Tenant[];
let keys: { tenant: Tenant; id: string; key: string }[];
/** By tenant and fault: the alias to call. */
let aliases: Map<Tenant, string[]>;
let targets: string[];
let executions: Execution[];
/** How often each status was seen. */
const statuses: Record<string, number> = {};

type Prices = Readonly<Record<"input_tokens" | "output_tokens", number>>;
const unitsOf = (costs: Prices) =>
  Object.fromEntries(Object.entries(costs).map(([unit, cost_usd]) => [unit, { cost_usd }]));

beforeAll(async () => {
  tollgate = await TollgateProcess.start();
  operator = new Operator(tollgate);
  [tenants, keys, aliases, targets] = [[], [], new Map(), []];
  for (const plan of TRIED) await addTenant(plan);
  const beganMs = Date.now();
  await makeCalls();
  const seconds = (Date.now() - beganMs) / 1000;
  for (const tenant of tenants) await atRest(tenant, 60_000);
  executions = await operator.sandbox.executions(...targets);
  if (process.env.TOLLGATE_CALLS) {
    console.log(`${CALLS} calls in ${seconds.toFixed(1)} s, ${executions.length} executions`, statuses);
  }
}, PATIENCE_MS);
afterAll(() => tollgate?.stop());

async function addTenant({ own, ...plan }: (typeof PLANS)[number] & { own?: Prices }): Promise<void> {
  const made = await operator.tenant({ balance_usd: 40, plan });
  const tenant = new Tenant(operator, made.account, made.keyId, made.key);
  const names: string[] = [];
  for (const [, fault] of FAULTS) {
    const model = { prices: unitsOf(COSTS[0]) };
    const [first, second] = [await operator.instance(tenant, { model }), await operator.instance(tenant, { model })];
    if (fault) await operator.sandbox.fault(first, fault);
    targets.push(first, second);
    names.push(
      await operator.alias(
        tenant,
        [first, second].map((target) => ({ upstream: "sandbox", model: target })),
      ),
    );
  }
  if (own) {
    const overrides = Object.fromEntries(names.map((name) => [name, own]));
    await operator.call("PATCH", `/accounts/${tenant.account}`, { plan: { ...plan, overrides } });
  }
  tenants.push(tenant);
  aliases.set(tenant, names);
  const path = `/accounts/${tenant.account}/teams`;
  const team = await operator.call<{ id: string }>("POST", path, { name: "t", max_budget: 30, rpm_limit: 1_000_000 });
  for (const of of [null, team.id]) {
    keys.push({ tenant, ...(await operator.key(tenant.account, { team: of, max_parallel_requests: 12 })) });
  }
}

/** The same order of calls on every run. */
let seed = 20_261_121;
function random(below: number): number {
  seed = (Math.imul(seed, 1_664_525) + 1_013_904_223) >>> 0;
  return Math.floor((seed / 2 ** 32) * below);
}
function someFault(): number {
  let left = random(100);
  return FAULTS.findIndex(([share]) => {
    left -= share;
    return left < 0;
  });
}

async function makeCalls(): Promise<void> {
  let begun = 0;
  const client = async () => {
    while (begun < CALLS) {
      const at = begun++;
      if (at === Math.floor(CALLS / 2)) await changePrices();
      if (at % 100 === 99) await topUp(at);
      const status = await oneCall(at);
      statuses[status] = (statuses[status] ?? 0) + 1;
    }
  };
  await Promise.all(Array.from({ length: CLIENTS }, client));
}

async function oneCall(at: number): Promise<string> {
  const { tenant, key } = keys[random(keys.length)]!;
  const model = aliases.get(tenant)![someFault()]!;
  const stream = at % 2 === 0;
  const leaves = stream && random(10) === 0;
  const output = 1 + random(40);
  const body = {
    model,
    stream,
    max_tokens: output,
    sandbox_output_tokens: output,
    sandbox_frame_delay_ms: leaves ? 5 : 0,
  };
  const messages = [{ role: "user", content: "Hi ".repeat(1 + random(60)) }];
  const signal = AbortSignal.timeout(leaves ? 20 + random(60) : 60_000);
  const headers = { authorization: `Bearer ${key}` };
  try {
    const response = await tenant.post({ ...body, messages }, { headers, signal });
    await response.text();
    return String(response.status);
  } catch {
    return leaves ? "left" : "cut";
  }
}

/** A new row for every model: calls under way keep the prices that their hold fixed. */
async function changePrices(): Promise<void> {
  for (const target of targets) await operator.model(target, { prices: unitsOf(COSTS[1]) });
}

/** Twice at once under one reference: it counts once. */
async function topUp(at: number): Promise<void> {
  const body = { amount_usd: "0.01", reference: `top-up-${at}` };
  const path = `/accounts/${tenants[at % TRIED.length]!.account}/credits`;
  const answers = await Promise.all([operator.ask("POST", path, body), operator.ask("POST", path, body)]);
  expect(answers.map(({ status }) => status).sort()).toEqual([200, 201]);
}

/** Nano-USD for a usage at USD per million tokens, rounded up once. */
function nanoUsd(usage: { input_tokens: number; output_tokens: number }, prices: readonly [bigint, bigint]): bigint {
  const millionths = BigInt(usage.input_tokens) * prices[0] + BigInt(usage.output_tokens) * prices[1];
  return (millionths + 999_999n) / 1_000_000n;
}
const toNano = (usd: number): bigint => BigInt(Math.round(usd * 1e9));
const markedUp = (usd: number, percent: number): bigint =>
  (toNano(usd) * BigInt(Math.round((100 + percent) * 1e6)) + 99_999_999n) / 100_000_000n;

interface Line extends JoinedEvent {
  readonly key: string;
  readonly team: string | null;
  readonly model: string;
  readonly alias: string | null;
  readonly target_model: string | null;
  readonly input_tokens: number;
  readonly output_tokens: number;
  readonly cost_nano_usd: number;
  readonly price_rule: string;
}
const linesOf = (tenant: Tenant) => usageEventsOf(tollgate.stateDir, tenant.account) as Line[];
const sum = (amounts: readonly number[]): number => amounts.reduce((total, one) => total + one, 0);
const nano = (usd: unknown): number => Math.round(Number(usd) * 1e9);

test("the run had what it was to have: answers, failures, clients that left, calls under both prices", () => {
  expect(statuses["200"]).toBeGreaterThan(CALLS / 2);
  for (const status of ["400", "502", "left"]) expect(statuses[status], status).toBeGreaterThan(0);
  expect(sum(Object.values(statuses))).toBe(CALLS);
  expect(executions.length).toBeGreaterThan(CALLS / 2);
});

test("each execution is one charge or one loss, each charge one line of D1, to the nano-USD", async () => {
  for (const tenant of tenants) expect(await mismatches(tollgate.stateDir, tenant, executions)).toEqual([]);
  expect(unrecordedExecutions(tollgate.stateDir, tenants, executions)).toEqual([]);
});

test("each line that has the upstream's figures has its quantities, at the prices that held when the call was admitted", () => {
  const executed = new Map(executions.map((execution) => [`${execution.request_id} ${execution.model}`, execution]));
  let [exact, later] = [0, 0];
  for (const [at, tenant] of tenants.entries()) {
    const { own, markup_percent: percent } = TRIED[at]! as { own?: Prices; markup_percent: number };
    for (const line of linesOf(tenant)) {
      if (line.source !== "exact" || line.outcome !== "completed") continue;
      const { usage } = executed.get(`${line.event_id} ${line.target_model}`)!;
      if (usage?.input_tokens !== line.input_tokens)
        throw new Error(`${JSON.stringify(usage)} ${JSON.stringify(line)}`);
      expect(line.output_tokens).toBe(usage.output_tokens);
      const of = (costs: Prices, price: (usd: number) => bigint) =>
        nanoUsd(line, [price(costs.input_tokens), price(costs.output_tokens)]);
      const costs = COSTS.map((book) => of(book, toNano));
      const prices = COSTS.map((book) => (own ? of(own, toNano) : of(book, (usd) => markedUp(usd, percent))));
      expect(costs).toContain(BigInt(line.cost_nano_usd));
      expect(prices).toContain(BigInt(line.price_nano_usd));
      expect(line.price_rule).toMatch(own ? /^plan:chat-\w+:prices$/ : /^book:llama-7b:\d+:markup=/);
      exact += 1;
      if (BigInt(line.cost_nano_usd) === costs[1]) later += 1;
    }
  }
  expect(exact).toBeGreaterThan(CALLS / 4);
  // How many calls came after the new price is the machine's matter.
  expect(later).toBeGreaterThan(5);
});

test("the operator's report equals ledgers and lines by account, team, key and model, in JSON and in CSV", async () => {
  const by = ["account", "team", "key", "model", "alias"] as const;
  const query = `/usage?group_by=${by.join(",")}&from=2026-01-01&limit=10000`;
  const report = (await operator.call<{ data: Record<string, unknown>[] }>("GET", query)).data;
  const reported = new Map(report.map((row) => [by.map((group) => row[group]).join(" "), row]));
  const groups = new Map<string, Line[]>();
  for (const tenant of tenants) {
    for (const line of linesOf(tenant)) {
      const name = [tenant.account, line.team, line.key, line.model, line.alias].map((part) => part ?? "").join(" ");
      groups.set(name, [...(groups.get(name) ?? []), line]);
    }
    const charges = await tenant.charges();
    for (const { id } of keys.filter((key) => key.tenant === tenant)) {
      const charged = 0 - sum(charges.filter(({ key }) => key === id).map(({ amount_usd }) => nano(amount_usd)));
      const rows = report.filter(({ key }) => key === id);
      expect(sum(rows.map(({ price_usd }) => nano(price_usd)))).toBe(charged);
    }
  }
  expect([...reported.keys()].sort()).toEqual([...groups.keys()].sort());
  for (const [name, lines] of groups) {
    const row = reported.get(name)!;
    const total = (column: keyof Line) => sum(lines.map((line) => Number(line[column])));
    expect(row).toMatchObject({
      calls: lines.length,
      input_tokens: total("input_tokens"),
      output_tokens: total("output_tokens"),
    });
    const money = ["cost", "price", "loss", "overrun", "margin"].map((what) => nano(row[`${what}_usd`]));
    const margin = total("price_nano_usd") - total("cost_nano_usd");
    const [cost, price] = [total("cost_nano_usd"), total("price_nano_usd")];
    expect(money).toEqual([cost, price, total("loss_nano_usd"), total("overrun_nano_usd"), margin]);
  }
  const headers = { authorization: `Bearer ${ADMIN_TOKEN}` };
  const csv = await (await fetch(`${operator.url}/admin${query}&format=csv`, { headers })).text();
  const [head = "", ...rows] = csv.trimEnd().split("\r\n");
  const at = (column: string) => head.split(",").indexOf(column);
  expect(rows).toHaveLength(report.length);
  for (const column of ["cost_usd", "price_usd", "margin_usd", "loss_usd"]) {
    const total = sum(rows.map((row) => nano(row.split(",")[at(column)])));
    expect(total, column).toBe(sum(report.map((row) => nano(row[column]))));
  }
});

test("each tenant's own report says the same, without what the operator makes of it", async () => {
  for (const tenant of tenants) {
    const owner = await operator.key(tenant.account, { role: "owner" });
    const asked = { headers: { authorization: `Bearer ${owner.key}` } };
    const own = (await (await tenant.fetch("/account/usage?from=2026-01-01", asked)).json()) as {
      data: Record<string, unknown>[];
    };
    const lines = linesOf(tenant);
    expect(own.data).toHaveLength(1);
    expect(own.data[0]).toMatchObject({ calls: lines.length });
    expect(nano(own.data[0]?.price_usd)).toBe(sum(lines.map(({ price_nano_usd }) => price_nano_usd)));
    expect(Object.keys(own.data[0]!).filter((column) => /cost|margin|loss|overrun/.test(column))).toEqual([]);
  }
});
