/**
 * Reports over a large D1: a month of raw events, a year of sums. `npm test` fills 30,000 events and looks at the
 * plans: no statement reads all events or all sums. `EVENTS=10000000` (`npm run proof`) fills as many, and each answer
 * takes less than half a second of CPU: what others do on the machine does not count.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { UNIT_NAMES } from "../../src/core/pricing/usage.ts";
import { SqliteBooks } from "../support/sqlite-books.ts";

/** By name: what belongs to workerd has types that Node's tests do not know. */
const d1 = (file: string) => import(join(import.meta.dirname, `../../src/platform/d1/${file}.ts`));
const { findCall, listCalls } = await d1("calls");
const { readDurations } = await d1("histograms");
const { findRefusedCall, sumRefusals } = await d1("refused-calls");
const { busyAccounts, triesAt } = await d1("upstream-tries");
const { UNIT_COLUMNS } = await d1("usage-events");
const { reportUsage } = await d1("usage-report");

type Books = SqliteBooks["books"];
const EVENTS = Number(process.env.EVENTS ?? 30_000);
const LONGEST_MS = 500;
const [HOUR, DAY] = [3_600_000, 86_400_000];
const NOW = Date.UTC(2026, 10, 20, 12, 34);
const [FROM, YEAR] = [NOW - 30 * DAY, NOW - (NOW % DAY) - 365 * DAY];
const ACCOUNTS = 50;

const dir = mkdtempSync(join(tmpdir(), "tollgate-scale-"));
let scale: SqliteBooks;

const series = (count: number) =>
  `with recursive n (n) as (select 0 union all select n + 1 from n where n < ${count} - 1)`;
const units = UNIT_NAMES.map((unit) => String(UNIT_COLUMNS[unit]));
const sums = ["latency_ms", ...units, "price_nano_usd", "cost_nano_usd", "overrun_nano_usd", "loss_nano_usd"];
const GROUPS = "account, team, key, model, alias, upstream, region, endpoint, status, reason, country";

/** Every row of a period: 20 keys with 10 models each hour or day, as if calls were spread evenly. */
const fillSums = (table: string, time: string, fromMs: number, length: number, periods: number) =>
  `${series(periods * 200)}
   insert into ${table} (${time}, ${GROUPS}, calls, errors, ${sums.join(", ")})
   select ${fromMs} + (n / 200) * ${length}, 'a' || (n % ${ACCOUNTS}), null, 'k' || (n % 20), 'm' || (n % 10), null,
     'u' || (n % 4), 'eu', 'chat.completions', 200, null, 'DE', 5, 1, ${sums.map(() => "7").join(", ")} from n`;

const fillHistograms = (span: number, fromMs: number, periods: number) =>
  `${series(periods * 80)}
   insert into histograms select ${span}, ${fromMs} + (n / 80) * ${span}, iif(n % 2, 'latency', 'first_byte'),
     'u' || (n / 2 % 4), 'm' || (n / 8 % 10), '', 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 99 from n`;

beforeAll(() => {
  scale = new SqliteBooks(join(dir, "books.sqlite"));
  const { database } = scale;
  const detail = JSON.stringify({
    ...{ stream: true, heldNanoUsd: 99, prices: { input_tokens: 1 }, costs: null, entry: 7 },
    tries: [{ upstream: "u1", model: "m", result: "answered", ms: 90 }],
  });
  database.exec("begin");
  database.exec(
    `${series(ACCOUNTS)} insert into accounts (id, name, created_ms, opened_ms) select 'a' || n, 'Account', 0, 0 from n`,
  );
  database.exec(
    `${series(EVENTS)}
     insert into usage_events (event_id, account, key, endpoint, model, upstream, target_model, outcome, reason, status,
       source, ${sums.join(", ")}, price_rule, started_ms, ended_ms, first_byte_ms, country, detail)
     select printf('call-%09d', n), 'a' || (n * n % ${ACCOUNTS}), 'k' || (n % 20), 'chat.completions', 'm' || (n % 10),
       'u' || (n % 4), 'm', iif(n % 100, 'completed', 'failed'), iif(n % 100, null, 'upstream_error'), iif(n % 100, 200, 502),
       'exact', ${sums.map(() => "7").join(", ")}, 'book:m', ${FROM} + cast(n * ${(NOW - FROM) / EVENTS} as integer) - 100,
       ${FROM} + cast(n * ${(NOW - FROM) / EVENTS} as integer), 50, 'DE', '${detail}' from n`,
  );
  const firstHour = FROM - (FROM % HOUR);
  database.exec(fillSums("usage_hours", "hour_ms", firstHour, HOUR, Math.floor((NOW - firstHour) / HOUR)));
  database.exec(fillSums("usage_days", "day_ms", YEAR, DAY, 365));
  database.exec(
    `update usage_progress set summed_until_ms = ${NOW - (NOW % HOUR)}, days_summed_until_ms = ${NOW - (NOW % DAY)}`,
  );
  const small = EVENTS < 1_000_000;
  database.exec(fillHistograms(60_000, NOW - (NOW % 60_000) - 6 * HOUR, small ? 10 : 6 * 60));
  database.exec(fillHistograms(HOUR, NOW - (NOW % HOUR) - 35 * DAY, small ? 10 : 35 * 24 - 6));
  database.exec(fillHistograms(DAY, YEAR, 330));
  database.exec(
    `${series(EVENTS / 10)}
     insert into refused_calls (call_id, account, at_ms, started_ms, key, endpoint, status, reason)
     select 'r' || n, 'a' || (n % ${ACCOUNTS}), ${FROM} + n, ${FROM} + n, 'k', 'chat.completions', 429, 'rate_limit' from n`,
  );
  database.exec(
    `${series(EVENTS / 10)} insert into refusal_minutes
     select 'a' || (n % ${ACCOUNTS}), ${FROM - (FROM % 60_000)} + (n / ${ACCOUNTS}) * 60000, 'k', 'key', 'rpm_limit', 'rate_limit', 3 from n`,
  );
  // D1 keeps no statistics unless it is told to: neither does this.
  database.exec("commit");
}, 1_200_000);
afterAll(() => {
  scale.close();
  rmSync(dir, { recursive: true });
});

const usage = (some: object) => (books: Books) =>
  reportUsage(books, { fromMs: YEAR, toMs: NOW, groupBy: [], account: undefined, limit: 1_000, offset: 0, ...some });
const range = { fromMs: FROM, toMs: NOW };
const listed =
  (some: object, after: object | null = null) =>
  (books: Books) =>
    listCalls(books, { ...range, ...some }, after, 100);

type Question = [name: string, ask: (books: Books) => Promise<unknown>];
const MOST = 1_000;
const durations = (fromMs: number, groupBy: readonly string[]) => (books: Books) =>
  readDurations(books, { fromMs, toMs: NOW, groupBy });

/** What the console's overview asks for a range, of all accounts and of one: console/operator/overview.tsx. */
function asksOfOverview(name: string, spanMs: number, step: "hour" | "day"): Question[] {
  const fromMs = NOW - spanMs - ((NOW - spanMs) % HOUR);
  const whose = (account: string | undefined) =>
    [[], [step], ["account"], ["model"]].map(
      (groupBy): Question => [
        `overview, ${name}, by ${groupBy[0] ?? "nothing"}${account ? " of an account" : ""}`,
        usage({ fromMs, groupBy, account, limit: MOST + 1 }),
      ],
    );
  const percentiles = [[], [step], ["model"]].map(
    (groupBy): Question => [`overview, ${name}, percentiles by ${groupBy[0] ?? "nothing"}`, durations(fromMs, groupBy)],
  );
  return [...whose(undefined), ...whose("a7"), ...percentiles];
}

/** What the console's pages ask besides: console/kit/series.ts, calls-page.tsx, tenant/usage.tsx. */
const OF_CONSOLE: readonly Question[] = [
  ...asksOfOverview("24 hours", DAY, "hour"),
  ...asksOfOverview("7 days", 7 * DAY, "hour"),
  ...asksOfOverview("30 days", 30 * DAY, "day"),
  ...asksOfOverview("90 days", 90 * DAY, "day"),
  ["overview, an hour, its sum", usage({ fromMs: NOW - HOUR })],
  ["overview, an hour, by model", usage({ fromMs: NOW - HOUR, groupBy: ["model"] })],
  ["overview, an hour, single calls", (books) => listCalls(books, { fromMs: NOW - HOUR, toMs: NOW }, null, 500)],
  [
    "overview, an hour, its last page of single calls",
    (books) => listCalls(books, { fromMs: NOW - HOUR, toMs: NOW }, { atMs: NOW - 60_000, table: 0, row: EVENTS }, 500),
  ],
  ["who runs dry: the last 24 hours by account", usage({ fromMs: NOW - DAY, groupBy: ["account"], limit: MOST + 1 })],
  ["a tenant's week by key", usage({ fromMs: NOW - (NOW % HOUR) - 7 * DAY, account: "a7", groupBy: ["key"] })],
  ...Object.entries({
    key: "k7",
    model: "m3",
    upstream: "u2",
    outcome: "failed",
    status: 502,
    reason: "upstream_error",
  })
    .flatMap(([name, value]) => [
      [name, value],
      [name, typeof value === "number" ? 499 : "nothing"],
    ])
    .map(
      ([name = "", value]): Question => [
        `calls whose ${name} is ${value}`,
        (books) => listCalls(books, { fromMs: 0, toMs: NOW, [name]: value }, null, 101),
      ],
    ),
  [
    "refused calls of all accounts",
    (books) => listCalls(books, { fromMs: 0, toMs: NOW, outcome: "refused" }, null, 101),
  ],
  ["calls of an hour of an account", listed({ account: "a7", fromMs: NOW - 2 * DAY, toMs: NOW - 2 * DAY + HOUR })],
];

test.each<Question>([
  ["the newest calls", listed({})],
  ["the newest of an account", listed({ account: "a7" })],
  ["failed ones of an account", listed({ account: "a7", outcome: "failed" })],
  ["calls that nothing matches", listed({ status: 499 })],
  ["a key's calls", listed({ account: "a7", key: "nobody" })],
  ["a page far back", listed({}, { atMs: FROM + 5 * DAY, table: 0, row: 1_000_000 })],
  ["an hour long ago", listed({ fromMs: FROM + DAY, toMs: FROM + DAY + HOUR, model: "m3" })],
  ["refused calls of an account", listed({ account: "a7", outcome: "refused" })],
  ["a call by its id", (books) => findCall(books, "nobody")],
  ["a refused call by its id", (books) => findRefusedCall(books, "r77")],
  [
    "refusals of an account",
    (books) => sumRefusals(books, { account: "a7", key: undefined, ...range, limit: 101, offset: 0 }),
  ],
  ["a year by day", usage({ groupBy: ["day"] })],
  ["a year by account and model", usage({ groupBy: ["account", "model"], orderBy: "price_usd" })],
  ["a year of one account by model, as of a statement", usage({ account: "a7", groupBy: ["model"] })],
  ["a day by key, to the minute", usage({ fromMs: NOW - DAY, groupBy: ["account", "key"], orderBy: "price_usd" })],
  ["a month by hour", usage({ fromMs: NOW - (NOW % HOUR) - 29 * DAY, groupBy: ["hour"] })],
  ["a key's week by country", usage({ fromMs: NOW - 7 * DAY, account: "a7", key: "k7", groupBy: ["country"] })],
  [
    "percentiles of a year",
    (books) => readDurations(books, { fromMs: YEAR, toMs: NOW, groupBy: ["upstream", "model"] }),
  ],
  [
    "percentiles of two days by hour",
    (books) => readDurations(books, { fromMs: NOW - 2 * DAY, toMs: NOW, groupBy: ["hour"] }),
  ],
  ["an upstream's last tries", (books) => triesAt(books, "u1", NOW - HOUR)],
  ["accounts with calls lately", (books) => busyAccounts(books, NOW - HOUR, 100)],
  ...OF_CONSOLE,
])("%s", async (_, ask) => {
  scale.ran.length = 0;
  const before = process.cpuUsage();
  await ask(scale.books);
  const { user, system } = process.cpuUsage(before);
  const ms = (user + system) / 1_000;
  const scans = scale.ran.flatMap(({ plan }) =>
    plan.filter((step) => /^SCAN (usage_(events|hours|days)|histograms|refus\w+)\b(?!.*USING.* INDEX)/.test(step)),
  );
  expect(scans).toEqual([]);
  if (process.env.EVENTS) process.stdout.write(`${ms.toFixed(0)} ms ${_}\n`);
  if (process.env.EVENTS) expect(ms).toBeLessThan(LONGEST_MS);
});
