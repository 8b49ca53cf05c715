/** `npm start` as a newcomer meets it, and all the ways in which it ends. */
import { execFile, spawn } from "node:child_process";
import { existsSync, rmSync, statSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { OperatorClient } from "../../../client/operator.ts";
import { eventually } from "../../support/eventually.ts";
import { IN_FULL } from "../../support/in-full.ts";
import { Operator } from "../../support/operator.ts";
import { freePorts } from "../../support/ports.ts";
import { isAlive, TollgateProcess } from "../../support/process.ts";

const run = promisify(execFile);
const root = join(import.meta.dirname, "../../..");

const workerds = (tollgate: TollgateProcess): number[] => [
  tollgate.workerdPid("gateway"),
  tollgate.workerdPid("sandbox"),
];

/** Runs the script until it ends by itself. */
async function runStart(env: Record<string, string>): Promise<{ code: number | null; output: string }> {
  const child = spawn(process.execPath, ["scripts/start.ts"], { cwd: root, env: { ...process.env, ...env } });
  let output = "";
  child.stdout.on("data", (chunk) => (output += chunk));
  child.stderr.on("data", (chunk) => (output += chunk));
  const { promise, resolve } = Promise.withResolvers<number | null>();
  child.on("exit", resolve);
  return { code: await promise, output };
}

describe("what it prints", () => {
  let tollgate: TollgateProcess;
  beforeAll(async () => {
    tollgate = await TollgateProcess.start({ fresh: true, env: { ADMIN_TOKEN: "" } });
  });
  afterAll(() => tollgate.stop());

  const line = (start: string): string => {
    const found = tollgate.output.split("\n").findLast((one) => one.trimStart().startsWith(start));
    if (found === undefined) throw new Error(`no line begins with ${start}:\n${tollgate.output}`);
    return found.trim();
  };

  const wordAt = (start: string): string => line(start).split(/\s+/).at(-1) ?? "";

  /** Of the last start. */
  const rentalLines = (): string[] => {
    const last = tollgate.output.slice(tollgate.output.lastIndexOf("base URL"));
    return last.split("\n").filter((one) => /^curl .*\/gpu-instances/.test(one));
  };

  test("the curl line works as it stands and streams", async () => {
    const { stdout } = await run("bash", ["-c", `${line("curl -N")} --silent --show-error --fail`]);
    expect(stdout.match(/^data: /gm)?.length).toBeGreaterThan(3);
    expect(stdout.trimEnd().endsWith("data: [DONE]")).toBe(true);
  });

  test("the admin token opens the operator's API", async () => {
    const token = wordAt("admin token");
    const url = wordAt("admin API");
    const response = await fetch(`${url}/accounts/demo`, { headers: { authorization: `Bearer ${token}` } });
    expect(await response.json()).toMatchObject({ id: "demo" });
  });

  test("the last line is `ready`, and both answer by name and by address", async () => {
    expect(tollgate.output.trimEnd().split("\n")).toContain(`ready ${tollgate.url}`);
    for (const url of [tollgate.url, tollgate.sandboxUrl]) {
      for (const host of ["localhost", "127.0.0.1"]) {
        expect((await fetch(`${url.replace("localhost", host)}/v1/nothing`)).status).toBe(404);
      }
    }
  });

  test("a second start prints the same key and token, makes nothing twice, and keeps balance and ledger", async () => {
    const [key, token] = [line("key"), line("admin token")];
    const operator = new Operator(tollgate);
    const adminToken = wordAt("admin token");
    const read = async (path: string) => {
      const response = await fetch(`${operator.url}/admin${path}`, {
        headers: { authorization: `Bearer ${adminToken}` },
      });
      return (await response.json()) as { data: unknown[] };
    };
    const paths = ["/accounts/demo/ledger", "/accounts/demo/keys", "/models", "/aliases", "/instances", "/upstreams"];

    const before = await Promise.all(paths.map(read));
    const pids = workerds(tollgate);
    expect(pids.every(isAlive)).toBe(true);
    await tollgate.restart();
    expect(pids.some(isAlive)).toBe(false);
    expect([line("key"), line("admin token")]).toEqual([key, token]);
    expect(await Promise.all(paths.map(read))).toEqual(before);
    await run("bash", ["-c", `${line("curl -N")} --silent --show-error --fail`]);
  });

  test("a state of a version without compute is given it, with a key that has the scope; what a killed process did not publish holds", async () => {
    const admin = new OperatorClient({ url: tollgate.url, token: wordAt("admin token") });
    const key = wordAt("key");
    await admin.call("PATCH", "/accounts/demo", { compute_enabled: false, compute_upstream: null });
    rmSync(join(tollgate.stateDir, "secrets", "demo-compute"));
    // The second change in a second waits to be published.
    for (const price_usd of [7, 8]) {
      await admin.putPrices("gpu/A100", { prices: { gpu_hours: { cost_usd: 1, price_usd } } });
    }
    const pids = workerds(tollgate);
    await tollgate.end("SIGKILL");
    await eventually("no workerd", () => !pids.some(isAlive));
    await tollgate.launch();
    expect([wordAt("key") === key, rentalLines().length]).toEqual([false, 3]);
    const headers = { authorization: `Bearer ${wordAt("key")}` };
    const response = await fetch(`${tollgate.url}/platform/gpu-prices`, { headers });
    expect(await response.json()).toContainEqual(expect.objectContaining({ gpu_type: "A100", hourly_rate_usd: 8 }));
  });

  test("the other curl lines launch a GPU instance, show it and end it", async () => {
    /** A refusal is in `stdout` of the error. */
    const call = async <Body>(command = "", id = 0) => {
      const line = `${command.replace("/ID", `/${id}`)} --silent --show-error --fail-with-body`;
      const { stdout } = await run("bash", ["-c", line]).catch((error) => {
        throw new Error(`${error.message}${error.stdout}\n${tollgate.output.slice(-2_000)}`);
      });
      return JSON.parse(stdout) as Body;
    };
    const [launch, see, end] = rentalLines();
    const { id, status } = await call<{ id: number; status: string }>(launch);
    expect(status).toBe("pending");
    const running = async () =>
      (await call<{ instance: { status: string } }>(see, id)).instance.status === "running" ? true : undefined;
    await eventually("it runs", running, { withinMs: 20_000, everyMs: 1_500 });
    expect(await call(end, id)).toMatchObject({ id, status: "terminating_requested" });
  });

  test("secrets are kept for their owner only", () => {
    for (const name of ["master-key", "key-pepper", "admin-token", "demo-key"]) {
      expect(statSync(join(tollgate.stateDir, "secrets", name)).mode & 0o777).toBe(0o600);
    }
  });

  test("the same state is not opened twice", async () => {
    const [port, sandboxPort] = await freePorts(2);
    const env = { PORT: `${port}`, SANDBOX_PORT: `${sandboxPort}`, STATE_DIR: tollgate.stateDir };
    const { code, output } = await runStart(env);
    expect(code).toBe(1);
    expect(output).toMatch(/^STATE_DIR: .* is in use by process \d+/m);
  });
});

describe("wrong settings are told by name, and nothing is started", () => {
  test.each(["PORT", "SANDBOX_PORT", "INSPECTOR_PORT"])("%s is taken", async (name) => {
    const taken = createServer();
    await new Promise<void>((resolve) => taken.listen(0, "127.0.0.1", resolve));
    const [free, other] = await freePorts(2);
    const port = String((taken.address() as { port: number }).port);
    const env = { PORT: `${free}`, SANDBOX_PORT: `${other}`, [name]: port, STATE_DIR: "/tmp/tollgate-never-made" };
    const { code, output } = await runStart(env);
    expect(code).toBe(1);
    expect(output).toContain(`${name}: port ${port} is taken`);
    expect(existsSync("/tmp/tollgate-never-made")).toBe(false);
    taken.close();
  });

  test.each([
    ["PORT", "eighty"],
    ["SANDBOX_PORT", "70000"],
    ["INSPECTOR_PORT", "8787"],
    ["ADMIN_TOKEN", "too-short"],
  ])("%s=%s", async (name, value) => {
    const { code, output } = await runStart({ [name]: value });
    expect(code).toBe(1);
    expect(output).toMatch(new RegExp(`^${name} (is|has) `, "m"));
    expect(output).not.toContain("ready");
  });
});

// The tests above have tried the two that matter most: each `restart` is a SIGINT, and one process is killed with -9.
test.each(IN_FULL ? (["SIGINT", "SIGTERM", "SIGHUP", "SIGKILL"] as const) : [])(
  "no process is left after %s",
  async (signal) => {
    const tollgate = await TollgateProcess.start({ fresh: true });
    const pids = workerds(tollgate);
    expect(pids.every(isAlive)).toBe(true);
    await tollgate.end(signal);
    await eventually("no workerd", () => !pids.some(isAlive), { withinMs: 3_000 });
    await tollgate.stop();
  },
);
