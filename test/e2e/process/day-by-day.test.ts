/** The cookbook of docs/operating.md: each command of its table does its task, as it stands there, and quickly. */
import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { eventually } from "../../support/eventually.ts";
import { unique } from "../../support/operator.ts";
import { ADMIN_TOKEN } from "../../support/process.ts";
import { allowedMs } from "../../support/slowness.ts";
import { world } from "../../support/world.ts";

const { url, sandboxUrl, operator } = world();

const text = readFileSync(join(import.meta.dirname, "../../../docs/operating.md"), "utf8");
const section = text.slice(text.indexOf("## Day by day"), text.indexOf("## A lost answer"));
const [, admin = ""] = /^```sh\n([\s\S]*?)^```/m.exec(section) ?? [];
/** A task with its commands. */
const rows = [...section.matchAll(/^\| (.+?) \| (`.+`) \| .+ \|$/gm)].map(([, task = "", calls = ""]) => ({
  task,
  commands: [...calls.matchAll(/`([^`]+)`/g)].map(([, command = ""]) => command),
}));

/** What a command prints; throws with that if it fails. */
async function run(command: string, env: Record<string, string>): Promise<{ output: string; ms: number }> {
  const startedMs = performance.now();
  const child = spawn("bash", ["-c", `set -eo pipefail\n${admin}\n${command}`], {
    env: { ...process.env, ...env, TOLLGATE_URL: url, ADMIN_TOKEN },
    stdio: ["ignore", "pipe", "pipe"],
  });
  let output = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk: Buffer) => (output += chunk));
  const code = await new Promise((resolve) => child.once("close", resolve));
  expect(code, `${command}\n${output}`).toBe(0);
  return { output, ms: performance.now() - startedMs };
}

/** A tenant with a team, a served call, a refused one and a key that leaked. */
async function scene() {
  const tenant = await operator.tenant({}, { rpm_limit: 1 });
  const upstream = await operator.upstream(sandboxUrl);
  const model = await operator.model(unique("m"), { upstream });
  const alias = await operator.alias(tenant, [{ upstream, model: "llama-7b" }]);
  const team = await operator.call<{ id: string }>("POST", `/accounts/${tenant.account}/teams`, { name: "web" });
  const leaked = await operator.key(tenant.account, { name: "leaked" });
  const old = await operator.call<{ id: string }>("POST", "/operators", { name: "Ada", role: "support" });
  await operator.model("llama-7b-of-cookbook", {});
  const say = async () => tenant.post({ model: alias, messages: [{ role: "user", content: "hello" }], max_tokens: 5 });
  const [served, refused] = [await say(), await say()];
  const idOf = (answer: Response) => answer.headers.get("x-request-id") ?? "";
  return { tenant, upstream, model, alias, team, leaked, old, served, refused, idOf };
}

test("each task of an operator's day is one call or two", async () => {
  const made = await scene();
  const { tenant, leaked } = made;
  expect([made.served.status, made.refused.status]).toEqual([200, 429]);
  const month = new Date().toISOString().slice(0, 7);
  const [year = 0, nth = 0] = month.split("-").map(Number);
  const env = {
    NEW: unique("n"),
    ACCOUNT: tenant.account,
    TEAM: made.team.id,
    CALL: made.idOf(made.served),
    REFUSED: made.idOf(made.refused),
    MODEL: made.model,
    ALIAS: made.alias,
    UPSTREAM: made.upstream,
    SECOND: unique("up"),
    SECOND_URL: sandboxUrl,
    CREDENTIAL: "sandbox-key",
    FIRST_OF_MONTH: new Date(Date.UTC(year, nth)).toISOString(),
    OPERATOR: made.old.id,
    LEAKED: leaked.key,
    LEAKED_ID: leaked.id,
    LAST_FOUR: leaked.key.slice(-4),
    MONTH: month,
    TENANT_KEY: tenant.key,
  };
  for (const id of [env.CALL, env.REFUSED]) {
    await eventually(
      "the call is in the books",
      async () => (await operator.ask("GET", `/calls/${id}`)).status === 200,
      {
        withinMs: 10_000,
      },
    );
  }
  const said = new Map<string, string>();
  expect(rows.length).toBeGreaterThan(25);
  for (const { task, commands } of rows) {
    for (const command of commands) {
      const { output, ms } = await run(command, env);
      if (process.env.TIMES) process.stdout.write(`${ms.toFixed(0)} ms ${task}\n`);
      if (!task.startsWith("onboard")) expect(ms, task).toBeLessThan(allowedMs(5_000));
      said.set(task.split(/[:,;]/)[0] ?? "", output);
    }
  }
  const json = (task: string) => JSON.parse(said.get(task) ?? "null");
  expect(json("why did this call get 429")).toMatchObject({
    outcome: "refused",
    refusal: { level: "key", id: tenant.keyId, limit: "rpm_limit", used: 1, allowed: 1 },
  });
  expect(json("why does this tenant get 429").data).toMatchObject([
    { key: tenant.keyId, limit: "rpm_limit", refusals: 1 },
  ]);
  expect(json("prove an invoice line")).toMatchObject({ outcome: "completed", proof: { ok: true } });
  expect(json("a leaked key").data).toMatchObject([{ account: tenant.account, key: { id: leaked.id } }]);
  expect(json("kill it")).toMatchObject({ id: leaked.id });
  expect(json("until nothing is in flight there").in_flight).toMatchObject({ calls: 0 });
  const percentiles = json("p50").data.find((row: { upstream: string }) => row.upstream === made.upstream);
  expect(percentiles.latency.p50).toBeGreaterThan(0);
  expect(said.get("a month's statement")).toContain(tenant.account);
  // The same again changes nothing: a key stands once.
  await run(rows[0]?.commands[0] ?? "", env);
  const keys = await operator.call<{ data: unknown[] }>("GET", `/accounts/${env.NEW}07/keys`);
  expect(keys.data).toHaveLength(1);
  // A wrong credential is refused, and the right one stays.
  const wrong = await operator.ask("PATCH", `/upstreams/${made.upstream}?check=true`, { api_key: "wrong" });
  expect(wrong.status).toBeGreaterThanOrEqual(400);
});
