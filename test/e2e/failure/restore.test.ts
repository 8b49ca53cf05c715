/**
 * docs/restore.md, rehearsed: the database is thrown away and comes back from the archive; an account's object goes back
 * to an earlier time and gets what happened since. Workerd has no point-in-time recovery: here a copy of the object's
 * file is put back, which is what recovery leaves. An hour takes seconds. The object's part only with `PROOF=1`.
 */
import { execFileSync } from "node:child_process";
import { cpSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { afterAll, beforeAll, expect, test } from "vitest";
import { eventually, sleep } from "../../support/eventually.ts";
import { IN_FULL } from "../../support/in-full.ts";
import { KillSwitch } from "../../support/kill-points.ts";
import { Operator } from "../../support/operator.ts";
import { TollgateProcess } from "../../support/process.ts";
import { loseBooks, StoppedState } from "../../support/stopped-state.ts";
import type { Tenant } from "../../support/tenant.ts";

const root = join(import.meta.dirname, "../../..");
const CALLS = 4;
let killSwitch: KillSwitch;
let tollgate: TollgateProcess;
let operator: Operator;
const folder = mkdtempSync(join(tmpdir(), "tollgate-restore-"));

beforeAll(async () => {
  killSwitch = await KillSwitch.start();
  const env = {
    TEST_BUILD_PLUGIN: join(root, "test/support/kill-points.ts"),
    KILL_SWITCH_URL: killSwitch.url,
    QUICK_ARCHIVE: "1",
    LEDGER_DETAIL_BYTES: "1",
    USAGE_RETENTION_GB: "0.000000001",
  };
  tollgate = await TollgateProcess.start({ env });
  operator = new Operator(tollgate);
});
afterAll(async () => {
  await tollgate?.stop();
  killSwitch?.stop();
  rmSync(folder, { recursive: true, force: true });
});

interface Page {
  readonly data: Record<string, unknown>[];
  readonly source: string;
}

async function calls(tenant: Tenant, model: string): Promise<void> {
  const all = Array.from({ length: CALLS }, () => tenant.chat({ model, max_tokens: 5, sandbox_output_tokens: 5 }));
  for (const { status } of await Promise.all(all)) expect(status).toBe(200);
}

/** Until the account's calls have left the books, and its charges the object. A restart runs what is scheduled. */
function left({ account }: Tenant, count: number): Promise<unknown> {
  const gone = async () => {
    const page = await operator.call<Page>("GET", `/calls?account=${account}&limit=100`);
    const ledger = await operator.call<Page>("GET", `/accounts/${account}/ledger?limit=1`);
    if (page.data.length === count && page.source === "archive" && ledger.source === "archive") return true;
    await tollgate.kill9Workerd();
    return false;
  };
  return eventually(`what ${account} did is in the archive`, gone, { withinMs: 60_000, everyMs: 3_500 });
}

/** All that is told of an account's past. Names of models and accounts are the operator's to put back. */
async function told(tenant: Tenant) {
  const { account } = tenant;
  const month = new Date().toISOString().slice(0, 7);
  const get = (path: string) => operator.call("GET", path);
  const lines = async (kind: string) =>
    (await (await tenantless(`/admin/export?kind=${kind}&account=${account}&month=${month}`)).text()).split("\n");
  return {
    usage: await get(`/usage?group_by=account,key,model,upstream&account=${account}`),
    statement: await get(`/accounts/${account}/statement?month=${month}`),
    calls: await get(`/calls?account=${account}&limit=100`),
    ledger: await get(`/accounts/${account}/ledger?limit=100`),
    exports: [await lines("ledger"), await lines("calls")],
  };
}

const tenantless = (path: string) =>
  fetch(`${tollgate.url}${path}`, { headers: { authorization: "Bearer e2e-admin-token-0123456789abcdef" } });

/** Holds leave within a second here, and rate windows are held against them. */
const problems = async (tenant: Tenant): Promise<readonly string[]> =>
  (await tenant.audit()).problems.filter((problem) => !problem.includes("in memory"));

test("the database is thrown away: usage, calls, statements and exports come back from the archive", async () => {
  const tenants = [await operator.tenant(), await operator.tenant()];
  const models = await Promise.all(tenants.map((tenant) => operator.instance(tenant)));
  await Promise.all(tenants.map((tenant, index) => calls(tenant, models[index] ?? "")));
  await sleep(4_000);
  for (const tenant of tenants) await left(tenant, CALLS);
  const before = await Promise.all(tenants.map(told));
  const accounts = await operator.call<{ data: { id: string; number: number }[] }>("GET", "/accounts?limit=100");

  await tollgate.end();
  const state = await StoppedState.open(tollgate.stateDir);
  const files = [...(await state.parts("calls/"))].map(([name, bytes], index) => {
    const file = join(folder, `${index}-${basename(name)}`);
    writeFileSync(file, bytes);
    return file;
  });
  await state.close();
  loseBooks(tollgate.stateDir);
  const fresh = await StoppedState.open(tollgate.stateDir);
  await fresh.migrate();
  const dump = execFileSync(process.execPath, [join(root, "scripts/restore-usage.ts"), ...files], {
    encoding: "utf8",
    maxBuffer: 1e9,
  });
  await fresh.execute(dump);
  // Accounts that never made a call stand in no part: from the saved list, with their numbers.
  for (const { id, number } of accounts.data) {
    const books = await fresh.books();
    await books
      .prepare("insert or ignore into accounts (number, id, name, created_ms, opened_ms) values (?, ?, ?, 1, 1)")
      .bind(number, id, id)
      .run();
  }
  await fresh.close();
  await tollgate.launch();

  for (const [index, tenant] of tenants.entries()) {
    await left(tenant, CALLS);
    expect(await told(tenant)).toEqual(before[index]);
    expect(await problems(tenant)).toEqual([]);
  }
  // Routing was put back, as from the operator's file: the tenant goes on with the key that it had.
  const [tenant] = tenants as [Tenant];
  await calls(tenant, await operator.instance(tenant));
  await eventually("they are charged", async () => (await tenant.ledger()).length === 1 + 2 * CALLS);
});

test.runIf(IN_FULL)(
  "an account's object goes back to an earlier time: what happened since is put back, and the audit says ok",
  async () => {
    const tenant = await operator.tenant();
    const model = await operator.instance(tenant);
    await calls(tenant, model);
    await left(tenant, CALLS);
    await tollgate.end();
    const objects = join(tollgate.stateDir, "gateway/do/tollgate-Account");
    const file = objectFile(objects, tenant.account);
    const earlier = readdirSync(objects).filter((name) => name.startsWith(file));
    for (const name of earlier) cpSync(join(objects, name), join(folder, name));
    await tollgate.launch();

    const second = await operator.key(tenant.account, { name: "second" });
    await calls(tenant, model);
    await sleep(3_000);
    await operator.call("POST", `/accounts/${tenant.account}/credits`, { amount_usd: 2, reference: "since" });
    await operator.call("DELETE", `/accounts/${tenant.account}/keys/${tenant.keyId}`);
    await left(tenant, 2 * CALLS);
    const before = await operator.call<{ balance_usd: number }>("GET", `/accounts/${tenant.account}`);
    const entries = await tenant.ledger();
    const since = entries.filter(({ kind }) => kind === "charge").slice(0, CALLS);
    const charged = since.reduce((sum, { amount_usd }) => sum + Number(amount_usd), 0);

    await tollgate.end();
    for (const name of readdirSync(objects).filter((one) => one.startsWith(file))) rmSync(join(objects, name));
    for (const name of earlier) cpSync(join(folder, name), join(objects, name));
    await tollgate.launch();
    const path = `/accounts/${tenant.account}`;
    await operator.call("PATCH", path, { blocked: true });
    // What the object does not know any more stands in the bucket, and the audit names it.
    const strangers = (await problems(tenant)).map((problem) => problem.split(" ")[0] ?? "");
    expect(strangers.length).toBeGreaterThan(0);
    await operator.call("DELETE", `${path}/keys/${tenant.keyId}`);
    await operator.call("POST", `${path}/credits`, { amount_usd: 2, reference: "since" });
    const correction = { kind: "correction", amount_usd: charged.toFixed(9), reference: "charges until the recovery" };
    await operator.call("POST", `${path}/credits`, correction);
    await tollgate.end();
    const state = await StoppedState.open(tollgate.stateDir);
    await (await state.bucket()).delete(strangers);
    await state.close();
    await tollgate.launch();

    expect(await eventually("the audit says ok", async () => (await problems(tenant)).length === 0)).toBe(true);
    expect(await operator.call("GET", path)).toMatchObject({ balance_usd: before.balance_usd, blocked: true });
    await operator.call("PATCH", path, { blocked: false });
    expect((await tenant.chat({ model, max_tokens: 1 })).status).toBe(401);
    // A key that was made since is gone: its tenant gets a new one.
    expect((await operator.ask("GET", `${path}/keys/${second.id}`)).status).toBe(404);
  },
);

/** The beginning of the names of an object's files. */
function objectFile(objects: string, account: string): string {
  for (const name of readdirSync(objects).filter((one) => /^[0-9a-f]{64}\.sqlite$/.test(one))) {
    const database = new DatabaseSync(join(objects, name));
    try {
      const found = database.prepare("select 1 from account where id = ?").get(account);
      if (found) return name;
    } finally {
      database.close();
    }
  }
  throw new Error("no object has this account");
}
