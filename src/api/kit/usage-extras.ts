/** What the operator's usage reports say besides sums: names beside ids, and percentiles of how long calls took. */
import * as z from "zod/mini";
import { percentilesIn } from "../../core/histogram.ts";
import { readDurations } from "../../platform/d1/histograms.ts";
import { namesOf } from "../../platform/d1/key-index.ts";
import type { UsageGroup, UsageQuery, UsageRow } from "../../platform/d1/usage-report.ts";

const percentiles = z.nullable(
  z.object({ p50: z.nullable(z.number()), p95: z.nullable(z.number()), p99: z.nullable(z.number()) }),
);
const name = z.nullish(z.string());

export const extraFields = {
  account_name: name,
  team_name: name,
  key_name: name,
  latency: percentiles.check(
    z.describe(
      "ms, within a bucket of the exact ones (ends at 50, 100, 250, 500 ms, 1, 2.5, 5, 10, 30 s, 2, 10 min); null where " +
        "the report is narrowed or grouped by anything but upstream, model, day and hour, and by hour after 35 days",
    ),
  ),
  first_byte: percentiles.check(z.describe("The same until the first byte of calls that had one")),
};
type Extras = { readonly [Field in keyof typeof extraFields]?: z.input<(typeof extraFields)[Field]> };

/** In the order of the rows. */
export async function extrasOf(
  books: D1Database,
  rows: readonly UsageRow[],
  query: Pick<UsageQuery, "fromMs" | "toMs" | "groupBy" | "account" | "team" | "key">,
): Promise<readonly Extras[]> {
  const [named, took] = await Promise.all([names(books, rows, query.groupBy), durations(books, query)]);
  return rows.map((row, index) => ({ ...named[index], ...took(row) }));
}

async function names(books: D1Database, rows: readonly UsageRow[], groupBy: readonly UsageGroup[]): Promise<Extras[]> {
  const idOf = (row: UsageRow, what: UsageGroup) => {
    const id = groupBy.includes(what) ? row.groups[groupBy.indexOf(what)] : undefined;
    return typeof id === "string" ? id : undefined;
  };
  const ids = (what: UsageGroup) => rows.flatMap((row) => idOf(row, what) ?? []);
  const known = await namesOf(books, { account: ids("account"), team: ids("team"), key: ids("key") });
  return rows.map((row) =>
    Object.fromEntries(
      (["account", "team", "key"] as const)
        .filter((what) => groupBy.includes(what))
        .map((what) => [`${what}_name`, known[what].get(idOf(row, what) ?? "") ?? null]),
    ),
  );
}

const GROUPS = ["upstream", "model", "day", "hour"] as const;
type Group = (typeof GROUPS)[number];

async function durations(
  books: D1Database,
  { fromMs, toMs, groupBy, account, team, key }: Parameters<typeof extrasOf>[2],
): Promise<(row: UsageRow) => Extras> {
  const kept = groupBy.every((group) => GROUPS.some((one) => one === group));
  if (!kept || [account, team, key].some((one) => one !== undefined))
    return () => ({ latency: null, first_byte: null });
  const found = await readDurations(books, { fromMs, toMs, groupBy: groupBy as readonly Group[] });
  const at = new Map(found.map(({ groups, measure, histogram }) => [JSON.stringify([measure, ...groups]), histogram]));
  const of = (measure: string, row: UsageRow) => {
    const histogram = at.get(JSON.stringify([measure, ...row.groups]));
    return histogram ? percentilesIn(histogram) : null;
  };
  return (row) => ({ latency: of("latency", row), first_byte: of("first_byte", row) });
}
