/**
 * `npm run soak -- --minutes N [--seed S] [--no-kills] [--no-leases]`: runs gateway and sandbox on their own ports with
 * mixed calls by several tenants, hot keys with leases or without. Meanwhile it sets faults, kills workerd and revokes
 * keys, and hostile tenants leave early, stop reading, send bodies that could crash or mislead, and abandon uploads. At
 * the end everything comes to rest, and ledger, usage and the sandbox's executions are joined: each execution is billed
 * or lost once, at the price of what was used, and each loss has an explanation. Exits with 1 on any mismatch, if
 * honest calls had to wait for hostile ones, or if workerd died without a kill.
 *
 * The seed fixes what is drawn: each client's calls in order, when it leaves, and the order of faults and kills. How
 * they overlap depends on the machine's timing, so a seed repeats the kind of a failure, not the exact failure.
 *
 * Kills come in the first `KILLS_SHARE` of the run. Usage that one loses in the local queue is sent again after two
 * minutes, so a run of five minutes or more does not wait for it at the end; and one process runs through the second
 * half, whose memory is compared. With `--no-kills` one runs all the time.
 *
 * It always ends: a phase that takes far longer than it may is named, and the run fails.
 */
import { parseArgs } from "node:util";
import { sleep } from "../support/eventually.ts";
import { atRest } from "../support/joined-books.ts";
import { Operator } from "../support/operator.ts";
import { freePorts } from "../support/ports.ts";
import { TollgateProcess } from "../support/process.ts";
import { Caller } from "./caller.ts";
import { Customer } from "./customer.ts";
import { FilmMaker } from "./film-maker.ts";
import { Hostiles } from "./hostile/hostiles.ts";
import { judge, LONGEST_HOLD_MS } from "./judge.ts";
import { memoryReport, restingMemory, watchMemory } from "./memory.ts";
import { readLeases } from "./operator-book.ts";
import type { Party } from "./party.ts";
import { Probe } from "./probe.ts";
import { streamOf } from "./random.ts";
import { Rusher } from "./rusher.ts";
import { Trouble } from "./trouble.ts";

const HOLD_TTL_MS = 15_000;
/** Unconfirmed usage is sent again after two minutes. */
const AT_REST_WITHIN_MS = HOLD_TTL_MS + 180_000;
/**
 * Share of the run that is warm-up. The heaps of workerd's isolates grow for some twenty thousand calls before they are
 * collected. Growth after that counts as a leak.
 */
const WARM_UP_SHARE = 0.5;
const KILLS_SHARE = 0.4;
/** Besides the load: two rests, the last pause of a reader, two waits for what a kill lost, and a busy machine. */
const MOST_BESIDES_LOAD_MS = 10 * 60_000;
const CUSTOMERS = 4;
const CALLERS_EACH = 2;
const MOST_MISMATCHES_TOLD = 50;

const { values } = parseArgs({
  options: {
    minutes: { type: "string", default: "10" },
    seed: { type: "string" },
    "no-kills": { type: "boolean", default: false },
    "no-leases": { type: "boolean", default: false },
  },
});
const minutes = Number(values.minutes);
const leases = !values["no-leases"];
const seed = Number(values.seed ?? Date.now() % 1_000_000);
if (!(minutes > 0) || !Number.isFinite(seed)) {
  process.stderr.write("npm run soak -- --minutes N [--seed S] [--no-kills] [--no-leases]\n");
  process.exit(2);
}
const say = (words: string) => process.stdout.write(`${words}\n`);
const startedAtMs = Date.now();
let phase = "start";
const enter = (next: string) => {
  phase = next;
  say(`[${Math.round((Date.now() - startedAtMs) / 1_000)} s] ${phase}`);
};
process.exit((await soak()) ? 0 : 1);

async function soak(): Promise<boolean> {
  say(`soak of ${minutes} min, seed ${seed}${values["no-kills"] ? ", no kills" : ""}${leases ? "" : ", no leases"}`);
  // The sandbox limits the gateway's account; here only tenants' own limits count.
  const [inspectorPort = 0] = await freePorts(1);
  const env = {
    INSPECTOR_PORT: String(inspectorPort),
    HOLD_TTL_MS: String(HOLD_TTL_MS),
    LONGEST_HOLD_MS: String(LONGEST_HOLD_MS),
    SANDBOX_VIDEO_SUBMISSIONS: "1000",
    LEASES: leases ? "on" : "off",
  };
  const tollgate = await TollgateProcess.start({ env });
  const overdue = setTimeout(
    async () => {
      say(`the soak does not end: it stands at "${phase}"`);
      await tollgate.stop();
      process.exit(1);
    },
    minutes * 60_000 + MOST_BESIDES_LOAD_MS,
  );
  try {
    const operator = new Operator(tollgate);
    const customers: Customer[] = [];
    for (let at = 0; at < CUSTOMERS; at++) customers.push(await Customer.make(operator, at % 2 ? "drain" : "cancel"));
    const hostiles = await Hostiles.make(operator, (who) => streamOf(seed, who));
    const probe = await Probe.make(operator);
    const rusher = await Rusher.make(operator);
    const parties: readonly Party[] = [...customers, ...hostiles.parties, probe, rusher];
    const trouble = new Trouble({ tollgate, operator }, customers, streamOf(seed, "trouble"), {
      killsUntilMs: values["no-kills"] ? 0 : Date.now() + minutes * 60_000 * KILLS_SHARE,
    });
    const rest = () => restingMemory(tollgate, inspectorPort);
    const memory = await load(tollgate, rest, customers, [hostiles, trouble, probe, rusher]);
    enter("coming to rest");
    await operator.sandbox.clearFaults();
    await comeToRest(parties);
    enter("filling all slots");
    // Leaked slots would make these calls fail.
    await Promise.all(customers.map((customer) => customer.fillSlots()));
    await comeToRest(parties);
    enter("measuring memory");
    const { lines, leaked } = memoryReport(memory.before, memory.loaded, await rest());
    enter("judging");

    const { done } = trouble;
    const kills = done.killsAtMs;
    say(`trouble      ${done.faults} faults, ${kills.length} kills, ${done.revocations} revocations`);
    const { lines: counts, wrong: joined } = await judge(tollgate.stateDir, operator, parties, hostiles, done);
    const felt = probe.report(hostiles.crasher.busy, kills);
    const leased = readLeases(tollgate.stateDir);
    say(`leases       ${leased}`);
    if (leases && leased === 0) joined.push("no lease was granted");
    const wrong = [...joined, ...felt.wrong, ...(trouble.survived ? [] : ["workerd died, and nobody killed it"])];
    for (const line of [...counts, ...felt.lines, ...lines]) say(line);
    for (const words of wrong.slice(0, MOST_MISMATCHES_TOLD)) say(`MISMATCH     ${words}`);
    say(wrong.length === 0 ? "the books join the executions" : `${wrong.length} mismatches, seed ${seed}`);
    return wrong.length === 0 && !leaked;
  } finally {
    clearTimeout(overdue);
    await sleep(100);
    await tollgate.stop();
  }
}

/** Warm-up, rest, and the measured load. */
async function load(
  tollgate: TollgateProcess,
  rest: () => ReturnType<typeof restingMemory>,
  customers: readonly Customer[],
  [hostiles, trouble, probe, rusher]: readonly [Hostiles, Trouble, Probe, Rusher],
) {
  const streamFor = (at: number, who: string) => streamOf(seed, `customer ${at}, ${who}`);
  const callers = customers.flatMap((customer, at) =>
    Array.from({ length: CALLERS_EACH }, (_, which) => new Caller(customer, streamFor(at, `caller ${which}`))),
  );
  const filmMakers = customers.map((customer, at) => new FilmMaker(customer, streamFor(at, "film maker")));
  const loadFor = async (ms: number) => {
    const untilMs = Date.now() + ms;
    await Promise.all([
      trouble.makeUntil(untilMs),
      hostiles.attackUntil(untilMs),
      probe.callUntil(untilMs),
      rusher.callUntil(untilMs),
      ...callers.map((caller) => caller.callUntil(untilMs)),
      ...filmMakers.map((filmMaker) => filmMaker.makeUntil(untilMs)),
    ]);
  };
  const wholeMs = minutes * 60_000;
  const warmUpMs = wholeMs * WARM_UP_SHARE;
  enter("each call once");
  await Promise.all(callers.map((caller) => caller.callEach()));
  enter("warm-up");
  await loadFor(warmUpMs);
  enter("memory at rest");
  const before = await rest();
  enter("load");
  const watch = watchMemory(tollgate);
  await loadFor(wholeMs - warmUpMs);
  return { before, loaded: watch.stop() };
}

async function comeToRest(parties: readonly Party[]): Promise<void> {
  await Promise.all(parties.map(({ tenant }) => atRest(tenant, AT_REST_WITHIN_MS)));
}
