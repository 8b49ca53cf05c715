/**
 * The gateway killed with -9 at each named point of a rented machine's way, and started again on the same state: one
 * machine at most, found again, charged what ran. `KILL_ROUNDS=9` does it nine times over.
 */
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { PRICE, Renter } from "../../support/compute/renter.ts";
import { ComputeSandbox } from "../../support/compute-sandbox.ts";
import { eventually } from "../../support/eventually.ts";
import { KillSwitch, type RENTAL_KILL_POINTS } from "../../support/kill-points.ts";
import { Operator } from "../../support/operator.ts";
import { TollgateProcess } from "../../support/process.ts";

const HOUR_MS = 6_000;
const root = join(import.meta.dirname, "../../..");

type Point = keyof typeof RENTAL_KILL_POINTS;
/** At a launch, and at the call that ends it. */
const DURING_LAUNCH: readonly Point[] = ["held", "sent", "answered", "taken up", "pushing", "turning"];
const DURING_END: readonly Point[] = ["held", "sent", "answered"];
const rounds = Number(process.env.KILL_ROUNDS ?? 0);
const launches =
  rounds > 0 ? Array.from({ length: rounds }, () => DURING_LAUNCH).flat() : (["held", "sent", "turning"] as const);
const ends = rounds > 0 ? Array.from({ length: rounds }, () => DURING_END).flat() : (["sent"] as const);

let killSwitch: KillSwitch;
let tollgate: TollgateProcess;
let sandbox: ComputeSandbox;
let at: Parameters<typeof Renter.make>[0];

beforeAll(async () => {
  killSwitch = await KillSwitch.start();
  const TEST_BUILD_PLUGIN = join(root, "test/support/kill-points.ts");
  const times = { COMPUTE_HOUR_MS: String(HOUR_MS), COMPUTE_DAY_MS: "144000" };
  tollgate = await TollgateProcess.start({ env: { ...times, TEST_BUILD_PLUGIN, KILL_SWITCH_URL: killSwitch.url } });
  sandbox = new ComputeSandbox(tollgate.sandboxUrl);
  at = { operator: new Operator(tollgate), sandboxUrl: tollgate.sandboxUrl };
});
afterAll(async () => {
  await tollgate?.stop();
  killSwitch?.stop();
});

const statusOf = async (renter: Renter): Promise<string> => {
  const { body } = await renter.send<readonly { readonly status: string }[]>("GET", "/gpu-instances");
  return body[0]?.status ?? "none";
};
const until = (renter: Renter, statuses: readonly string[]) =>
  eventually(statuses.join(" or "), async () => statuses.includes(await statusOf(renter)), {
    withinMs: 40_000,
    everyMs: 1_500,
  });
const broken = () => ({ status: 0 });

/** One machine at most; what it was charged is what ran, but for the time that a call or a killed process took. */
async function expectCharged(renter: Renter, lateMs: number): Promise<void> {
  const executions = await sandbox.executions(renter.seat);
  expect(executions.length).toBeLessThanOrEqual(1);
  const ranMs = executions.reduce((sum, { ms }) => sum + ms, 0);
  const chargedUsd =
    0 -
    (await renter.tenant.ledger()).reduce(
      (sum, { kind, amount_usd }) => (kind === "top_up" ? sum : sum + amount_usd),
      0,
    );
  expect(chargedUsd).toBeLessThanOrEqual((PRICE * ranMs) / HOUR_MS + 1e-6);
  expect(chargedUsd).toBeGreaterThanOrEqual((PRICE * (ranMs - lateMs)) / HOUR_MS);
  const audit = await eventually("booked", async () => {
    const now = await renter.tenant.audit();
    return now.open_holds === 0 && now;
  });
  expect(audit).toMatchObject({ ok: true, problems: [], held_usd: 0 });
}

test.each(launches)("killed %s, at a launch: it is one machine or none, and charged what ran", async (point) => {
  const renter = await Renter.make(at, 100);
  const early = point !== "turning" && point !== "pushing";
  if (early) {
    const reached = killSwitch.armed(point);
    const launch = renter.launch().catch(broken);
    await reached;
    await tollgate.kill9Workerd();
    await launch;
  } else {
    expect((await renter.launch()).status).toBe(202);
    await killSwitch.armed(point);
    await tollgate.kill9Workerd();
  }
  await until(renter, ["running", "failed"]);
  await renter.send("POST", "/gpu-instances/1000/terminate").catch(broken);
  await until(renter, ["terminated", "failed"]);
  await expectCharged(renter, 2_000);
});

test.each(ends)(
  "killed %s, at the call that ends it: it is ended, and nothing is charged after the call",
  async (point) => {
    const renter = await Renter.make(at, 100);
    await renter.launch();
    await until(renter, ["running"]);
    const reached = killSwitch.armed(point);
    const end = renter.send("POST", "/gpu-instances/1000/terminate").catch(broken);
    await reached;
    await tollgate.kill9Workerd();
    await end;
    await until(renter, ["terminated"]);
    // It may run on until the process is back and sends the stop again.
    await expectCharged(renter, 15_000);
  },
);
