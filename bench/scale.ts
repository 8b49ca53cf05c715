/**
 * `node bench/scale.ts`: does an account with 100,000 keys and 10,000 teams admit as fast as one with a single key?
 * Whole calls (admission, settlement) against the account object, one after the other, in turns; every limit set at
 * every level.
 *
 *     --keys 100000 --teams 10000   what the large account has
 *     --entries 10000000            a third account with so many ledger entries (0: none)
 *     --events 10000000             reports over a year of so many events (0: none)
 *     --rounds 9 --calls 1000       rounds, and calls in each
 */
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { convertV4MiniflareOptions, Log, LogLevel, Miniflare } from "miniflare";
import { unstable_getMiniflareWorkerOptions as miniflareOptions, unstable_readConfig as readConfig } from "wrangler";
import { bundle } from "../scripts/bundle.ts";
import { migrate } from "../scripts/migrations.ts";
import { randomKey, randomToken } from "../scripts/state.ts";
import type { Order } from "./scale-driver.ts";
import { fillEntries, fillHours, fillKeys } from "./scale-fill.ts";
import { shuffled, spread } from "./stats.ts";
import { chooseStorage, remove } from "./storage.ts";

const option = (value: number) => ({ type: "string" as const, default: String(value) });
const { values } = parseArgs({
  options: {
    keys: option(100_000),
    teams: option(10_000),
    entries: option(0),
    events: option(0),
    rounds: option(9),
    calls: option(1_000),
  },
});
const { keys, teams, entries, events, rounds, calls } = Object.fromEntries(
  Object.entries(values).map(([name, value]) => [name, Number(value)]),
) as Record<keyof typeof values, number>;

const [SMALL, LARGE, OLD] = [1, 2, 3];
/** Keys that take turns in the large account, more than the object keeps in memory. */
const MANY_KEYS = 20_000;
/** Rows of hourly sums an hour. */
const GROUPS = 100;
const root = join(import.meta.dirname, "..");
const adminToken = randomToken();

Object.assign(process.env, { WRANGLER_LOG: "none", WRANGLER_SEND_METRICS: "false" });
const config = readConfig({ config: join(root, "wrangler.toml") });
const { workerOptions, define, main } = miniflareOptions(config);
const bundles = {
  gateway: await bundle(main ?? "", define),
  driver: await bundle(join(import.meta.dirname, "scale-driver.ts"), {}),
};
// Ten million entries are gigabytes: on disk then.
const dir = chooseStorage(entries > 0).make();
const state = join(dir, "state");
mkdirSync(state);
const secrets = { ADMIN_TOKEN: adminToken, MASTER_KEY: randomKey(), KEY_PEPPER: randomKey() };

async function start(): Promise<Miniflare> {
  const { modulesRules: _, rootPath: __, assets: ___, bindings, ...bound } = workerOptions;
  const { compatibility_date: compatibilityDate } = config;
  const miniflare = new Miniflare(
    convertV4MiniflareOptions({
      workers: [
        {
          name: "driver",
          compatibilityDate,
          durableObjects: { ACCOUNTS: { className: "Account", scriptName: "gateway", useSQLite: true } },
          modules: [{ type: "ESModule", path: "index.js", contents: bundles.driver }],
        },
        {
          ...bound,
          name: "gateway",
          bindings: { ...(bindings as Record<string, string>), ...secrets },
          modules: [{ type: "ESModule", path: "index.js", contents: bundles.gateway }],
          unsafeDirectSockets: [{ host: "127.0.0.1", port: 0 }],
        },
      ],
      host: "127.0.0.1",
      port: 0,
      resourcePersistencePath: state,
      cf: false,
      telemetry: { enabled: false },
      log: new Log(LogLevel.ERROR),
      handleStructuredLogs: () => undefined,
    }),
  );
  await miniflare.ready;
  return miniflare;
}

async function send(miniflare: Miniflare, order: Order): Promise<{ ms: number; body: { audit: unknown } }> {
  const url = await miniflare.ready;
  const beganMs = performance.now();
  const response = await fetch(url, { method: "POST", body: JSON.stringify(order) });
  const text = await response.text();
  if (!response.ok) throw new Error(text);
  return { ms: performance.now() - beganMs, body: JSON.parse(text) as { audit: unknown } };
}

const say = (line: string) => process.stdout.write(`${line}\n`);

/** What is measured: an account, and how many of its keys take turns. */
const SUBJECTS: [name: string, number: number, keys: number][] = [
  ["one key", SMALL, 0],
  [`one of ${keys} keys, ${teams} teams`, LARGE, 0],
  [`${Math.min(MANY_KEYS, keys)} of ${keys} keys in turn`, LARGE, Math.min(MANY_KEYS, keys)],
  ...(entries > 0 ? [[`${entries} ledger entries`, OLD, 0] as [string, number, number]] : []),
];

async function measureCalls(miniflare: Miniflare): Promise<void> {
  for (const [name, number, turns] of SUBJECTS) {
    const { ms } = await send(miniflare, { do: "calls", number, calls: 1, keys: turns });
    say(`${name}: first call after a start ${ms.toFixed(1)} ms`);
  }
  const took = new Map<string, number[]>(SUBJECTS.map(([name]) => [name, []]));
  for (let round = -1; round < rounds; round++) {
    for (const [name, number, turns] of shuffled(SUBJECTS)) {
      const { ms } = await send(miniflare, { do: "calls", number, calls, keys: turns });
      // The first round warms up.
      if (round >= 0) took.get(name)?.push((ms * 1_000) / calls);
    }
  }
  const base = spread(took.get("one key") ?? []).median;
  for (const [name, micros] of took) {
    const { q1, median, q3 } = spread(micros);
    const ratio = (median / base).toFixed(2);
    say(`${name}: ${median.toFixed(0)} us a call (${q1.toFixed(0)} to ${q3.toFixed(0)}), ${ratio} of one key's`);
  }
}

async function measureReports(miniflare: Miniflare): Promise<void> {
  const { origin } = await miniflare.unsafeGetDirectURL("gateway");
  const toMs = Math.floor(Date.now() / 3_600_000) * 3_600_000;
  const range = `from=${toMs - 365 * 86_400_000}&to=${toMs}`;
  for (const query of [
    "group_by=account",
    "group_by=day",
    "group_by=account,key,model",
    "account=account-7&group_by=day",
    "account=account-7&group_by=hour",
  ]) {
    const times: number[] = [];
    for (let again = 0; again < 3; again++) {
      const beganMs = performance.now();
      const response = await fetch(`${origin}/admin/usage?${range}&${query}`, {
        headers: { authorization: `Bearer ${adminToken}` },
      });
      if (!response.ok) throw new Error(await response.text());
      await response.arrayBuffer();
      times.push(performance.now() - beganMs);
    }
    say(`a year of ${events} events, ${query}: ${spread(times).median.toFixed(0)} ms`);
  }
}

try {
  let miniflare = await start();
  await migrate(await miniflare.getD1Database("BOOKS", "gateway"), join(root, "migrations"));
  for (const number of [SMALL, LARGE, OLD]) await send(miniflare, { do: "open", number });
  await miniflare.dispose();
  fillKeys(state, LARGE, keys, teams);
  if (entries > 0) fillEntries(state, OLD, entries, Date.now());
  if (events > 0) fillHours(state, events, GROUPS, Math.floor(Date.now() / 3_600_000) * 3_600_000 - 3_600_000);
  miniflare = await start();
  await measureCalls(miniflare);
  for (const [name, number] of [["large", LARGE], ...(entries > 0 ? [["old", OLD]] : [])] as [string, number][]) {
    const { ms, body } = await send(miniflare, { do: "audit", number });
    say(`audit of the ${name} account: ${ms.toFixed(0)} ms, ${JSON.stringify(body.audit)}`);
  }
  if (events > 0) await measureReports(miniflare);
  await miniflare.dispose();
} finally {
  remove(dir);
}
