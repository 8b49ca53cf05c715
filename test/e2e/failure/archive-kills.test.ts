/**
 * The gateway killed with -9 at each named point of a ledger's way into the archive and of charges out of the object, and
 * started again on the same state: each line stands once, as it was, and the export has it. An hour takes seconds here.
 * `PROOF=1` kills at every point, else at two.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { Cli } from "../../support/cli.ts";
import { eventually, sleep } from "../../support/eventually.ts";
import { IN_FULL } from "../../support/in-full.ts";
import { ARCHIVE_KILL_POINTS, type ArchivePoint, KillSwitch } from "../../support/kill-points.ts";
import { Operator } from "../../support/operator.ts";
import { TollgateProcess } from "../../support/process.ts";

const CALLS = 7;
const root = join(import.meta.dirname, "../../..");
const POINTS: readonly ArchivePoint[] = IN_FULL
  ? (Object.keys(ARCHIVE_KILL_POINTS) as ArchivePoint[])
  : ["put", "folded"];

let killSwitch: KillSwitch;
let tollgate: TollgateProcess;
let operator: Operator;

beforeAll(async () => {
  killSwitch = await KillSwitch.start();
  const env = {
    TEST_BUILD_PLUGIN: join(root, "test/support/kill-points.ts"),
    KILL_SWITCH_URL: killSwitch.url,
    QUICK_ARCHIVE: "1",
    LEDGER_DETAIL_BYTES: "1",
  };
  tollgate = await TollgateProcess.start({ env });
  operator = new Operator(tollgate);
});
afterAll(async () => {
  await tollgate?.stop();
  killSwitch?.stop();
});

test.each(POINTS)("killed %s: no line is lost, doubled or in neither place", async (point) => {
  const tenant = await operator.tenant();
  const model = await operator.instance(tenant);
  const reached = killSwitch.armed(point);
  const calls: string[] = [];
  const called = async () => {
    const { status, headers } = await tenant.chat({ model, max_tokens: 5, sandbox_output_tokens: 5 });
    expect(status).toBe(200);
    return headers.get("x-request-id") ?? "";
  };
  // All at once, so that they are lines of one part: on a busy machine an hour may end between them, and then again.
  do calls.push(...(await Promise.all(Array.from({ length: CALLS }, called))));
  while (!(await Promise.race([reached.then(() => true), sleep(5_000).then(() => false)])));
  const before = await eventually("all calls are charged", async () => {
    const entries = await tenant.ledger();
    return entries.length === calls.length + 1 && entries;
  });
  await tollgate.kill9Workerd();

  // Entries of the object are read there; of those that left, the archive says.
  const path = `/accounts/${tenant.account}/ledger?limit=1`;
  await eventually(
    "all charges have left the object",
    async () => (await operator.call<{ source: string }>("GET", path)).source === "archive",
    { withinMs: 30_000, everyMs: 300 },
  );
  const after = await tenant.ledger();
  expect(after).toEqual(before);
  const charged = after.flatMap(({ kind, call_id }) => (kind === "charge" ? [call_id] : []));
  expect(charged.toSorted()).toEqual(calls.toSorted());
  const { problems, balance_usd } = await tenant.audit();
  // Holds leave within a second here, and rate windows are held against them.
  expect(problems.filter((problem) => !problem.includes("in memory"))).toEqual([]);
  expect(balance_usd).toBe(after[0]?.balance_usd);

  const cli = new Cli(tollgate.url);
  const out = join(cli.home, "left");
  expect(await cli.run(["export", "--account", tenant.account, "--out", out])).toMatchObject({ code: 0 });
  const month = new Date().toISOString().slice(0, 7);
  const lines = readFileSync(join(out, `ledger-${month}.jsonl`), "utf8")
    .trimEnd()
    .split("\n");
  expect(lines.map((line) => JSON.parse(line).id)).toEqual(after.map(({ id }) => id).reverse());
});
