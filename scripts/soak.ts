/**
 * `npm run soak -- --minutes N [--seed S]`: gateway and sandbox on ports of their own, mixed calls by several tenants, with
 * faults, kills of workerd and revocations, all drawn from the seed. At the end everything comes to rest, and ledger,
 * usage and the sandbox's executions are joined. Ends with 1 on any mismatch.
 */
import { parseArgs } from "node:util";
import { sleep } from "../test/support/eventually.ts";
import { atRest, mismatches, untold, usageEventsOf } from "../test/support/joined-books.ts";
import { Operator } from "../test/support/operator.ts";
import { TollgateProcess } from "../test/support/process.ts";
import { Customer } from "./soak/customer.ts";
import { settleMemory, workerdMegabytes } from "./soak/memory.ts";
import { numbersFrom } from "./soak/random.ts";
import { breakThings } from "./soak/trouble.ts";

const HOLD_TTL_MS = 15_000;
const CUSTOMERS = 4;
const CALLERS_EACH = 2;

const { values } = parseArgs({ options: { minutes: { type: "string", default: "10" }, seed: { type: "string" } } });
const minutes = Number(values.minutes);
const seed = Number(values.seed ?? Date.now() % 1_000_000);
if (!(minutes > 0) || !Number.isFinite(seed)) {
  process.stderr.write("npm run soak -- --minutes N [--seed S]\n");
  process.exit(2);
}
const say = (words: string) => process.stdout.write(`${words}\n`);
process.exit((await soak()) ? 0 : 1);

async function soak(): Promise<boolean> {
  say(`soak of ${minutes} min, seed ${seed}`);
  const tollgate = await TollgateProcess.start({ env: { HOLD_TTL_MS: String(HOLD_TTL_MS) } });
  try {
    const operator = new Operator(tollgate);
    const customers: Customer[] = [];
    for (let at = 0; at < CUSTOMERS; at++) customers.push(await Customer.make(operator, numbersFrom(seed + at)));
    // The first calls load what stays loaded.
    await Promise.all(customers.map((customer) => customer.callEvery(1)));
    const memoryBefore = await settleMemory(tollgate);

    const untilMs = Date.now() + minutes * 60_000;
    const trouble = breakThings(tollgate, operator, customers, numbersFrom(seed + 1_000), untilMs);
    await Promise.all(
      customers.flatMap((customer) => Array.from({ length: CALLERS_EACH }, () => customer.callUntil(untilMs))),
    );
    const done = await trouble;
    await operator.sandbox.clearFaults();
    const memoryBusy = workerdMegabytes(tollgate);

    const tenants = customers.map(({ tenant }) => tenant);
    // Unconfirmed usage is sent again after two minutes.
    await Promise.all(tenants.map((tenant) => atRest(tenant, HOLD_TTL_MS + 180_000)));
    // Slots that leaked would refuse these.
    await Promise.all(customers.map((customer) => customer.fillSlots()));
    await Promise.all(tenants.map((tenant) => atRest(tenant, HOLD_TTL_MS + 180_000)));
    const memoryAfter = await settleMemory(tollgate);

    const executions = await operator.sandbox.allExecutions();
    const ours = executions.filter(({ request_id }) => request_id !== null);
    const wrong: string[] = [];
    for (const tenant of tenants) wrong.push(...(await mismatches(tollgate.stateDir, tenant, ours)));
    wrong.push(...untold(tollgate.stateDir, tenants, ours), ...customers.flatMap(({ surprises }) => surprises));

    const events = tenants.flatMap(({ account }) => usageEventsOf(tollgate.stateDir, account));
    const outcomes = Map.groupBy(events, ({ outcome }) => outcome);
    say(`calls        ${customers.reduce((sum, { calls }) => sum + calls, 0)}`);
    say(`answers      ${tally(customers.flatMap(({ answers }) => answers))}`);
    say(`executions   ${ours.length}`);
    say(`in usage     ${events.length}: ${[...outcomes].map(([name, some]) => `${some.length} ${name}`).join(", ")}`);
    say(`trouble      ${done.faults} faults, ${done.kills} kills, ${done.revocations} revocations`);
    say(`workerd      ${memoryBefore} MB before, ${memoryBusy} MB at the end of the load, ${memoryAfter} MB at rest`);
    for (const words of wrong.slice(0, 50)) say(`MISMATCH     ${words}`);
    say(wrong.length === 0 ? "the books join the executions" : `${wrong.length} mismatches, seed ${seed}`);
    return wrong.length === 0;
  } finally {
    await sleep(100);
    await tollgate.stop();
  }
}

function tally(answers: readonly string[]): string {
  const groups = [...Map.groupBy(answers, (answer) => answer)].sort((a, b) => b[1].length - a[1].length);
  return groups.map(([answer, some]) => `${some.length} ${answer}`).join(", ");
}
