/** Every command and snippet that the documents show is run, in a process of its own, by what is printed there. */
import { spawn } from "node:child_process";
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { DEMO_LAUNCH } from "../../../scripts/demo-compute.ts";
import { ComputeSandbox } from "../../support/compute-sandbox.ts";
import { eventually } from "../../support/eventually.ts";
import { Operator } from "../../support/operator.ts";
import { ADMIN_TOKEN, TollgateProcess } from "../../support/process.ts";

const root = join(import.meta.dirname, "../../..");
/** A failing call ends the script, and says what it was told. */
const SHELL = 'set -eo pipefail; curl() { command curl -sS --fail-with-body "$@" && echo; }\n';

let tollgate: TollgateProcess;
let key: string;

beforeAll(async () => {
  tollgate = await TollgateProcess.start();
  key = /sk-tg-\w{38}/.exec(tollgate.output)?.[0] ?? "";
});
afterAll(() => tollgate.stop());

/** The blocks of a language, as a reader would fill them in. */
function blocksOf(path: string, language: "sh" | "ts", fill: (text: string) => string = (text) => text): string[] {
  const text = readFileSync(join(root, path), "utf8");
  return [...text.matchAll(new RegExp(`^\`\`\`${language}\\n([^]*?)^\`\`\``, "gm"))].map(([, block = ""]) =>
    fill(
      block
        .replaceAll("http://localhost:8787", tollgate.url)
        .replaceAll("sk-tg-...", key)
        .replaceAll("<ADMIN_TOKEN>", ADMIN_TOKEN),
    ),
  );
}

async function run(command: string, args: string[], env = {}): Promise<string> {
  const child = spawn(command, args, { cwd: root, env: { ...process.env, ...env }, stdio: ["ignore", "pipe", "pipe"] });
  let output = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk: Buffer) => (output += chunk));
  const code = await new Promise((resolve) => child.once("close", resolve));
  expect(code, output).toBe(0);
  return output;
}
const shell = (script: string) =>
  run("bash", ["-c", SHELL + script], { TOLLGATE_URL: tollgate.url, USUAL_SECONDS: "1", RUN_SECONDS: "1" });

test("README: the first call, by curl and by the SDK", async () => {
  const calls = blocksOf("README.md", "sh").filter((block) => block.startsWith("curl"));
  expect(calls).toHaveLength(1);
  expect(await shell(calls[0] ?? "")).toContain("data: [DONE]");

  const [snippet = ""] = blocksOf("README.md", "ts");
  expect(await runSnippet(snippet)).toContain("[");
});

/** Below the repository, so that it finds its packages. */
async function runSnippet(snippet: string): Promise<string> {
  mkdirSync(join(root, ".wrangler"), { recursive: true });
  const file = join(root, ".wrangler", `snippet-${process.pid}.ts`);
  writeFileSync(file, snippet);
  try {
    return await run(process.execPath, [file]);
  } finally {
    rmSync(file);
  }
}

test("docs/tenant-api.md: the openai SDK talks to an engine on a launched instance", async () => {
  const ask = async <Body>(method: string, path: string, body?: object): Promise<Body> => {
    const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };
    const response = await fetch(tollgate.url + path, { method, headers, ...(body && { body: JSON.stringify(body) }) });
    return (await response.json()) as Body;
  };
  // As `npm start` prints it.
  const { id } = await ask<{ id: number }>("POST", "/gpu-instances", DEMO_LAUNCH);
  const until = (status: string) => {
    const shown = () => ask<{ instance: { status: string } }>("GET", `/gpu-instances/${id}`);
    return eventually(status, async () => (await shown()).instance.status === status, {
      withinMs: 20_000,
      everyMs: 1_200,
    });
  };
  await until("running");
  const snippet = blocksOf("docs/tenant-api.md", "ts").find((block) => block.includes("/service/v1")) ?? "";
  expect(await runSnippet(snippet.replace("/1000/", `/${id}/`))).toMatch(/^\[.*\] Say hello\.\n\[.*\] Say hello\.$/);
  await ask("POST", `/gpu-instances/${id}/terminate`);
  await until("terminated");
});

test("docs/tenant-api.md: the example that rents a GPU", async () => {
  const example = blocksOf("docs/tenant-api.md", "sh").find((block) => block.includes("examples/compute.ts")) ?? "";
  const output = await shell(example);
  const [, charged, back] = /Charged ([\d.]+) USD; ([\d.]+) USD of the hold came back/.exec(output) ?? [];
  expect(Number(charged), output).toBeGreaterThan(0);
  // A second and what it takes to say so, of an hour that was held whole.
  expect(Number(charged)).toBeLessThan(0.5 / 60);
  expect(Number(charged) + Number(back)).toBeCloseTo(0.5, 5);
  expect(await new Operator(tollgate).audit("demo")).toMatchObject({ ok: true, open_holds: 0 });
});

test("docs/tenant-api.md: a quote, and the example that makes a video", async () => {
  const [quote = "", example = ""] = blocksOf("docs/tenant-api.md", "sh");
  expect(JSON.parse(await shell(quote))).toMatchObject({ currency: "USD" });
  const made = shell(example);
  // A job takes 10 s of the sandbox's clock, which is told to hurry.
  const hurry = setInterval(() => void new Operator(tollgate).sandbox.advance(10_000).catch(() => undefined), 1_000);
  try {
    expect(await made).toMatch(/USD/);
  } finally {
    clearInterval(hurry);
  }
});

test("docs/reselling.md: a tenant in five calls; teams, plans, invoices; compute; people", async () => {
  const [tenant = "", more = "", rented = "", people = ""] = blocksOf("docs/reselling.md", "sh");
  expect(await shell(tenant)).toMatch(/sk-tg-\w{38}/);
  const { id } = await new Operator(tollgate).call<{ id: string }>("POST", "/accounts/acme/teams", { name: "t" });
  const settings = tenant.slice(0, tenant.indexOf("\n") + 1);
  const output = await shell(settings + more.replace("team_...", id));
  expect(output).toContain("margin_usd");
  // The service of the document is nowhere, and a seat is looked at before it is given.
  const at = new Operator(tollgate);
  await new ComputeSandbox(tollgate.sandboxUrl).account("seat", { balance_usd: 10_000, keys: [{ key: "key-seat" }] });
  await at.call("PUT", "/upstreams/seat", { base_url: tollgate.sandboxUrl, api_key: "key-seat" });
  const seated = rented.replace('"compute_upstream":"service"', '"compute_upstream":"seat"');
  expect(seated).not.toBe(rented);
  expect(await shell(settings + seated)).toContain('"upstream":"seat"');
  expect(await shell(settings + people)).toMatch(/tg-op-\w{38}/);
});
