/**
 * The gateway killed with -9 at each named point of the way of a ledger and of usage events into the archive, and of
 * charges out of the object and events out of D1, and started again on the same state: each line stands once, as it
 * was, and the export has it. An hour takes seconds here. `PROOF=1` kills at every point, else at one of each series.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { Cli } from "../../support/cli.ts";
import { eventually, sleep } from "../../support/eventually.ts";
import { IN_FULL } from "../../support/in-full.ts";
import {
  ARCHIVE_KILL_POINTS,
  type ArchivePoint,
  CALL_ARCHIVE_KILL_POINTS,
  type CallArchivePoint,
  KillSwitch,
} from "../../support/kill-points.ts";
import { Operator } from "../../support/operator.ts";
import { TollgateProcess } from "../../support/process.ts";
import type { Tenant } from "../../support/tenant.ts";

const CALLS = 7;
const root = join(import.meta.dirname, "../../..");
const POINTS: readonly ArchivePoint[] = IN_FULL ? (Object.keys(ARCHIVE_KILL_POINTS) as ArchivePoint[]) : ["folded"];
const CALL_POINTS: readonly CallArchivePoint[] = IN_FULL
  ? (Object.keys(CALL_ARCHIVE_KILL_POINTS) as CallArchivePoint[])
  : ["calls put"];

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
    // Events leave D1 as soon as they may.
    USAGE_RETENTION_GB: "0.000000001",
  };
  tollgate = await TollgateProcess.start({ env });
  operator = new Operator(tollgate);
});
afterAll(async () => {
  await tollgate?.stop();
  killSwitch?.stop();
});

const called = (tenant: Tenant, model: string): Promise<string[]> =>
  Promise.all(
    Array.from({ length: CALLS }, async () => {
      const { status, headers } = await tenant.chat({ model, max_tokens: 5, sandbox_output_tokens: 5 });
      expect(status).toBe(200);
      return headers.get("x-request-id") ?? "";
    }),
  );

/** The lines of this month that `tollgate export` writes. */
async function exported(kind: "ledger" | "calls", { account }: Tenant): Promise<Record<string, unknown>[]> {
  const cli = new Cli(tollgate.url);
  const out = join(cli.home, "left");
  expect(await cli.run(["export", "--account", account, "--out", out])).toMatchObject({ code: 0 });
  const text = readFileSync(join(out, `${kind}-${new Date().toISOString().slice(0, 7)}.jsonl`), "utf8");
  return text
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line) as Record<string, unknown>);
}

test.each(POINTS)("killed %s: no line is lost, doubled or in neither place", async (point) => {
  const tenant = await operator.tenant();
  const model = await operator.instance(tenant);
  const reached = killSwitch.armed(point);
  const calls: string[] = [];
  // All at once, so that they are lines of one part: on a busy machine an hour may end between them, and then again.
  do calls.push(...(await called(tenant, model)));
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

  const lines = await exported("ledger", tenant);
  expect(lines.map(({ id }) => id)).toEqual(after.map(({ id }) => id).reverse());
});

test.each(CALL_POINTS)("killed at '%s': no call is lost, doubled or in neither place", async (point) => {
  const tenant = await operator.tenant();
  const model = await operator.instance(tenant);
  const calls = await called(tenant, model);
  type Page = { data: { id: string; charged_usd: number }[]; source: string };
  const list = () => operator.call<Page>("GET", `/calls?account=${tenant.account}&limit=100`);
  const before = await eventually("all calls are in the books", async () => {
    const { data } = await list();
    return data.length === CALLS && data;
  });
  await sleep(4_000);
  const reached = killSwitch.armed(point);
  // A start runs what is scheduled, and so does the one after the kill.
  do await tollgate.kill9Workerd();
  while (!(await Promise.race([reached.then(() => true), sleep(4_000).then(() => false)])));
  await tollgate.kill9Workerd();

  const gone = async () => {
    const { data, source } = await list();
    if (data.length === CALLS && source === "archive") return data;
    await tollgate.kill9Workerd();
    return false;
  };
  const after = await eventually("all have left the books", gone, { withinMs: 40_000, everyMs: 3_000 });
  const byId = (rows: Page["data"]) => rows.toSorted((a, b) => a.id.localeCompare(b.id));
  expect(byId(after)).toEqual(byId(before));
  expect(after.map(({ id }) => id).toSorted()).toEqual(calls.toSorted());
  for (const call of calls) {
    const { proof } = await operator.call<{ proof: object }>("GET", `/calls/${call}?account=${tenant.account}`);
    expect(proof).toMatchObject({ source: "archive", ok: true });
  }
  const { data } = await operator.call<{ data: { calls: number }[] }>(
    "GET",
    `/usage?group_by=account&account=${tenant.account}`,
  );
  expect(data.map((row) => row.calls)).toEqual([CALLS]);
  const { problems } = await tenant.audit();
  expect(problems.filter((problem) => !problem.includes("in memory"))).toEqual([]);
  const lines = await exported("calls", tenant);
  expect(lines.map(({ event_id }) => event_id).toSorted()).toEqual(calls.toSorted());
});
