/**
 * `npm run soak -- --minutes N [--seed S] [--no-kills]`: gateway and sandbox on ports of their own, mixed calls by several
 * tenants, with faults, kills of workerd and revocations. At the end everything comes to rest, and ledger, usage and the
 * sandbox's executions are joined: each billed or lost once, at the price of what was used. Ends with 1 on any mismatch.
 *
 * The seed fixes what is drawn: each client's calls in their order, when it leaves, what trouble is made in which order.
 * How they fall together is the machine's timing, so a seed repeats the kind of a failure, not the failure.
 *
 * `--no-kills`: one workerd lives through it all; only then do memory figures compare.
 */
import { parseArgs } from "node:util";
import { sleep } from "../test/support/eventually.ts";
import { atRest, mismatches, untold, usageEventsOf } from "../test/support/joined-books.ts";
import { Operator } from "../test/support/operator.ts";
import { TollgateProcess } from "../test/support/process.ts";
import { Caller } from "./soak/caller.ts";
import { Customer } from "./soak/customer.ts";
import { FilmMaker } from "./soak/film-maker.ts";
import { memoryReport, restingMemory, watchMemory } from "./soak/memory.ts";
import { checkPrices } from "./soak/price-check.ts";
import { streamOf } from "./soak/random.ts";
import { Trouble } from "./soak/trouble.ts";

const HOLD_TTL_MS = 15_000;
/** Unconfirmed usage is sent again after two minutes. */
const AT_REST_WITHIN_MS = HOLD_TTL_MS + 180_000;
/**
 * Of the whole: the heaps of workerd's isolates grow for some twenty thousand calls before they collect what they need not
 * grow for. What still grows after that is kept.
 */
const WARM_UP_SHARE = 0.5;
const CUSTOMERS = 4;
const CALLERS_EACH = 2;
const MOST_MISMATCHES_TOLD = 50;

const { values } = parseArgs({
  options: {
    minutes: { type: "string", default: "10" },
    seed: { type: "string" },
    "no-kills": { type: "boolean", default: false },
  },
});
const minutes = Number(values.minutes);
const seed = Number(values.seed ?? Date.now() % 1_000_000);
if (!(minutes > 0) || !Number.isFinite(seed)) {
  process.stderr.write("npm run soak -- --minutes N [--seed S] [--no-kills]\n");
  process.exit(2);
}
const say = (words: string) => process.stdout.write(`${words}\n`);
process.exit((await soak()) ? 0 : 1);

async function soak(): Promise<boolean> {
  say(`soak of ${minutes} min, seed ${seed}${values["no-kills"] ? ", no kills" : ""}`);
  // The sandbox limits the gateway's account; here only tenants' own limits count.
  const env = { HOLD_TTL_MS: String(HOLD_TTL_MS), SANDBOX_VIDEO_SUBMISSIONS: "1000" };
  const tollgate = await TollgateProcess.start({ env });
  try {
    const operator = new Operator(tollgate);
    const customers: Customer[] = [];
    for (let at = 0; at < CUSTOMERS; at++) customers.push(await Customer.make(operator, at % 2 ? "drain" : "cancel"));
    const trouble = new Trouble({ tollgate, operator }, customers, streamOf(seed, "trouble"), {
      kills: !values["no-kills"],
    });
    const memory = await load(tollgate, customers, trouble);
    await operator.sandbox.clearFaults();
    await comeToRest(customers);
    // Slots that leaked would refuse these.
    await Promise.all(customers.map((customer) => customer.fillSlots()));
    await comeToRest(customers);
    const { lines, leaked } = memoryReport(memory.before, memory.loaded, await restingMemory(tollgate));

    const { done } = trouble;
    say(`trouble      ${done.faults} faults, ${done.kills} kills, ${done.revocations} revocations`);
    const wrong = await judge(tollgate.stateDir, operator, customers);
    for (const line of lines) say(line);
    for (const words of wrong.slice(0, MOST_MISMATCHES_TOLD)) say(`MISMATCH     ${words}`);
    say(wrong.length === 0 ? "the books join the executions" : `${wrong.length} mismatches, seed ${seed}`);
    return wrong.length === 0 && !leaked;
  } finally {
    await sleep(100);
    await tollgate.stop();
  }
}

/** Warm-up, rest, and the load proper. */
async function load(tollgate: TollgateProcess, customers: readonly Customer[], trouble: Trouble) {
  const streamFor = (at: number, who: string) => streamOf(seed, `customer ${at}, ${who}`);
  const callers = customers.flatMap((customer, at) =>
    Array.from({ length: CALLERS_EACH }, (_, which) => new Caller(customer, streamFor(at, `caller ${which}`))),
  );
  const filmMakers = customers.map((customer, at) => new FilmMaker(customer, streamFor(at, "film maker")));
  const loadFor = async (ms: number) => {
    const untilMs = Date.now() + ms;
    await Promise.all([
      trouble.makeUntil(untilMs),
      ...callers.map((caller) => caller.callUntil(untilMs)),
      ...filmMakers.map((filmMaker) => filmMaker.makeUntil(untilMs)),
    ]);
  };
  const wholeMs = minutes * 60_000;
  const warmUpMs = wholeMs * WARM_UP_SHARE;
  await Promise.all(callers.map((caller) => caller.callEach()));
  await loadFor(warmUpMs);
  const before = await restingMemory(tollgate);
  const watch = watchMemory(tollgate);
  await loadFor(wholeMs - warmUpMs);
  return { before, loaded: watch.stop() };
}

async function comeToRest(customers: readonly Customer[]): Promise<void> {
  await Promise.all(customers.map(({ tenant }) => atRest(tenant, AT_REST_WITHIN_MS)));
}

/** Says what was done, and gives what does not agree. */
async function judge(stateDir: string, operator: Operator, customers: readonly Customer[]): Promise<string[]> {
  const tenants = customers.map(({ tenant }) => tenant);
  // What has no id of a call are the gateway's own questions and the operator's.
  const executions = (await operator.sandbox.allExecutions()).filter(({ request_id }) => request_id !== null);
  const events = tenants.flatMap(({ account }) => usageEventsOf(stateDir, account));
  const prices = checkPrices(events, executions);

  const wrong: string[] = [];
  for (const tenant of tenants) wrong.push(...(await mismatches(stateDir, tenant, executions)));
  wrong.push(...untold(stateDir, tenants, executions), ...prices.wrong);
  wrong.push(...customers.flatMap(({ surprises }) => surprises));

  const answers = sumOf(customers.map((customer) => customer.answers));
  const calls = [...answers.values()].reduce((sum, count) => sum + count, 0);
  say(`calls        ${calls}`);
  for (const line of byErrand(answers)) say(`  ${line}`);
  say(`executions   ${executions.length}, ${prices.checked} of them held against their price`);
  say(`in usage     ${events.length}: ${tally(events.map(({ outcome, source }) => `${outcome} (${source})`))}`);
  return wrong;
}

function sumOf(counts: readonly ReadonlyMap<string, number>[]): Map<string, number> {
  const sums = new Map<string, number>();
  for (const [name, count] of counts.flatMap((one) => [...one])) sums.set(name, (sums.get(name) ?? 0) + count);
  return sums;
}

/** A line for each errand: what it came to how often. */
function byErrand(answers: ReadonlyMap<string, number>): string[] {
  const errands = Map.groupBy(answers, ([name]) => name.slice(0, name.indexOf(":")));
  return [...errands].map(([errand, some]) => {
    const parts = some.sort((a, b) => b[1] - a[1]).map(([name, count]) => `${count} ${name.slice(errand.length + 2)}`);
    return `${errand.padEnd(22)} ${parts.join(", ")}`;
  });
}

function tally(names: readonly string[]): string {
  const groups = [...Map.groupBy(names, (name) => name)].sort((a, b) => b[1].length - a[1].length);
  return groups.map(([name, some]) => `${some.length} ${name}`).join(", ");
}
