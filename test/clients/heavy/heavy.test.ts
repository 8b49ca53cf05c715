/**
 * Clients too heavy for `npm ci`, each in a process of its own as its user would run it. Judged by the books: each call
 * in the ledger was executed once and cost the price book times what was used.
 */
import { spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { eventually } from "../../support/eventually.ts";
import { owedNanoUsd, serviceFor, type Used } from "../../support/service.ts";
import { world } from "../../support/world.ts";
import { MANNERS, priced } from "../manners.ts";
import { HEAVY, type HeavyId } from "../matrix.ts";
import { QUESTION } from "../scenes.ts";

const { operator } = world();
const WITHIN_MS = 120_000;
let home: string;

beforeAll(() => {
  home = mkdtempSync(join(tmpdir(), "tollgate-clients-"));
});
afterAll(() => rmSync(home, { recursive: true, force: true, maxRetries: 5 }));

interface Told {
  readonly baseURL: string;
  readonly apiKey: string;
  readonly model: string;
  readonly embedding: string;
}
interface Heavy {
  /** The fewest calls that it makes and pays for. */
  readonly calls: number;
  /** Gives what it printed. */
  readonly run: (told: Told) => Promise<string>;
  readonly said: RegExp;
}

/** Runs a command in an empty folder, at home in another. */
async function run(command: string, args: readonly string[], env: Readonly<Record<string, string>>): Promise<string> {
  const bin = join(import.meta.dirname, "node_modules/.bin");
  const cwd = mkdtempSync(join(home, "work-"));
  const path = `${bin}:${join(import.meta.dirname, "../../../node_modules/.bin")}:${process.env.PATH}`;
  const child = spawn(command, args, {
    cwd,
    env: { PATH: path, HOME: home, XDG_CONFIG_HOME: home, XDG_DATA_HOME: home, XDG_CACHE_HOME: home, ...env },
    stdio: ["ignore", "pipe", "pipe"],
    timeout: WITHIN_MS,
  });
  let [said, errors] = ["", ""];
  child.stdout.on("data", (chunk: Buffer) => (said += chunk));
  child.stderr.on("data", (chunk: Buffer) => (errors += chunk));
  const code = await new Promise((resolve) => child.once("close", resolve));
  expect(code, errors + said).toBe(0);
  return said;
}

/** A program of this folder. */
const program = (name: string) => (told: Told) =>
  run("node", [join(import.meta.dirname, "programs", `${name}.mjs`)], {
    BASE_URL: told.baseURL,
    API_KEY: told.apiKey,
    MODEL: told.model,
    EMBEDDING_MODEL: told.embedding,
    MASTRA_TELEMETRY_DISABLED: "1",
  });

function codex({ baseURL, apiKey, model }: Told): Promise<string> {
  const codexHome = join(home, "codex");
  mkdirSync(codexHome, { recursive: true });
  const config = [
    `model = "${model}"`,
    'model_provider = "tollgate"',
    'web_search = "disabled"',
    "[model_providers.tollgate]",
    'name = "Tollgate"',
    `base_url = "${baseURL}"`,
    'env_key = "TOLLGATE_KEY"',
    'wire_api = "responses"',
  ];
  writeFileSync(join(codexHome, "config.toml"), config.join("\n"));
  const args = ["exec", "--json", "--skip-git-repo-check", "--sandbox", "read-only", QUESTION];
  return run("codex", args, { CODEX_HOME: codexHome, TOLLGATE_KEY: apiKey });
}

function opencode({ baseURL, apiKey, model }: Told): Promise<string> {
  const config = join(home, "opencode.json");
  const tollgate = {
    npm: "@ai-sdk/openai-compatible",
    name: "Tollgate",
    options: { baseURL, apiKey },
    models: { [model]: { name: model } },
  };
  writeFileSync(config, JSON.stringify({ autoupdate: false, share: "disabled", provider: { tollgate } }));
  const args = ["run", "--pure", "--format", "json", "-m", `tollgate/${model}`, QUESTION];
  return run("opencode", args, { OPENCODE_CONFIG: config, OPENCODE_DISABLE_MODELS_FETCH: "1" });
}

const qwen = ({ baseURL, apiKey, model }: Told): Promise<string> =>
  run("qwen", ["--auth-type", "openai", "--bare", "-m", model, "-o", "json", QUESTION], {
    OPENAI_BASE_URL: baseURL,
    OPENAI_API_KEY: apiKey,
    OPENAI_MODEL: model,
  });

/** The words that begin each text of the service's chat models, in JSON. */
const TEXT = /"\[(full|least)-7b@[\w-]+\] /;
const RUNS: Readonly<Record<HeavyId, Heavy>> = {
  codex: { calls: 2, run: codex, said: TEXT },
  qwen: { calls: 2, run: qwen, said: TEXT },
  opencode: { calls: 2, run: opencode, said: TEXT },
  instructor: { calls: 1, run: program("instructor"), said: /^\{"city":"\w+","degrees":\d+/m },
  llamaindex: { calls: 3, run: program("llamaindex"), said: /"answer":"\[.+"streamed":"\[.+"lengths":\[768,768\]/ },
  mastra: { calls: 4, run: program("mastra"), said: /"answer":"\[.+"streamed":"\[.+"asked":2/ },
};

describe.each(Object.keys(HEAVY) as HeavyId[])("%s", (id) => {
  const { name, does } = HEAVY[id];
  test.each(MANNERS)(`${name} does ${does}: $model`, { timeout: WITHIN_MS }, async ({ model }) => {
    const tenant = await operator.tenant({ balance_usd: 10 });
    const { embedding } = await serviceFor(operator, tenant);
    const alias = await priced(operator, tenant, model);
    const told = { baseURL: `${operator.url}/v1`, apiKey: tenant.key, model: alias, embedding };
    const { calls, run, said } = RUNS[id];
    expect(await run(told)).toMatch(said);

    await eventually("no open hold", async () => (await tenant.audit()).open_holds === 0);
    const charges = await tenant.charges();
    expect(charges.length).toBeGreaterThanOrEqual(calls);
    const log = (await operator.sandbox.allExecutions()) as Used[];
    for (const { call_id, amount_usd } of charges) {
      const executed = log.filter(({ request_id }) => request_id === call_id);
      expect(executed.map(({ usage }) => owedNanoUsd(usage ?? {}))).toEqual([Math.round(0 - amount_usd * 1e9)]);
    }
    expect(await tenant.audit()).toMatchObject({ ok: true, overrun_usd: 0, operator_loss_usd: 0, problems: [] });
  });
});
