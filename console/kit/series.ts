/** Usage over a range, point by point: by the hour or day as reports have it, by the minute from single calls. */
import { all, get, type Page, withQuery } from "./api.ts";
import { pointsOf, type Range, stepSeconds } from "./range.tsx";
import type { TenantCall, TenantUsageRow } from "./types.ts";

interface Point {
  readonly calls: number;
  readonly errors: number;
  readonly price: number;
  readonly cost: number;
  readonly tokens: number;
  /** Null where the reports do not say. */
  readonly firstByteMs: number | null;
}
const NOTHING: Point = { calls: 0, errors: 0, price: 0, cost: 0, tokens: 0, firstByteMs: null };

/** A row of either report; only an operator's has a cost, and percentiles where the API gives them. */
interface ReportRow extends TenantUsageRow {
  readonly cost_usd?: number;
}
interface CallRow extends TenantCall {
  readonly cost_usd?: number;
}
const FAILED = new Set(["failed", "stream_broken", "expired"]);
const MOST_CALLS = 3_000;

export interface Series {
  readonly times: readonly number[];
  readonly points: readonly Point[];
}

/** `root`: `/admin` or `/account`. `narrowed`: filters that the report takes. */
export async function loadSeries(
  root: "/admin" | "/account",
  range: Range,
  narrowed: Readonly<Record<string, string | undefined>>,
  signal: AbortSignal,
): Promise<Series> {
  const span = { from: range.fromMs, to: range.toMs, ...narrowed };
  if (range.step === "minute") {
    const calls = await minuteCalls(root, span, signal);
    if (calls)
      return series(
        range,
        calls.map((call) => [Date.parse(call.ended_at), ofCall(call)]),
      );
  }
  const step = range.step === "day" ? "day" : "hour";
  const rows = await all<ReportRow>(`${root}/usage`, { ...span, group_by: step }, 5_000, signal);
  const stepped: Range = { ...range, step };
  return series(
    stepped,
    rows.map((row) => [Date.parse(row[step] ?? ""), ofRow(row)]),
  );
}

/** Undefined where there are too many calls to read one by one. */
async function minuteCalls(root: string, span: object, signal: AbortSignal): Promise<CallRow[] | undefined> {
  const rows: CallRow[] = [];
  for (let cursor: string | null = ""; cursor !== null; ) {
    if (rows.length >= MOST_CALLS) return undefined;
    const page: Page<CallRow> = await get(withQuery(`${root}/calls`, { ...span, limit: 500, cursor }), {}, signal);
    rows.push(...page.data);
    cursor = page.next_cursor;
  }
  return rows;
}

function series(range: Range, found: readonly (readonly [ms: number, point: Point])[]): Series {
  const times = pointsOf(range);
  const step = stepSeconds(range);
  const points = times.map(() => NOTHING);
  for (const [ms, point] of found) {
    const at = Math.floor((ms / 1_000 - (times[0] ?? 0)) / step);
    const before = points[at];
    if (before) points[at] = sum(before, point);
  }
  return { times, points };
}

const sum = (a: Point, b: Point): Point => ({
  calls: a.calls + b.calls,
  errors: a.errors + b.errors,
  price: a.price + b.price,
  cost: a.cost + b.cost,
  tokens: a.tokens + b.tokens,
  firstByteMs:
    a.firstByteMs === null || b.firstByteMs === null
      ? (a.firstByteMs ?? b.firstByteMs)
      : Math.max(a.firstByteMs, b.firstByteMs),
});

const ofRow = (row: ReportRow): Point => ({
  calls: row.calls,
  errors: row.errors,
  price: row.price_usd,
  cost: row.cost_usd ?? 0,
  tokens: row.input_tokens + row.output_tokens,
  firstByteMs: row.first_byte?.p95 ?? null,
});
const ofCall = (call: CallRow): Point =>
  call.outcome === "refused"
    ? NOTHING
    : {
        calls: 1,
        errors: FAILED.has(call.outcome) ? 1 : 0,
        price: call.charged_usd,
        cost: call.cost_usd ?? 0,
        tokens: (call.usage.input_tokens ?? 0) + (call.usage.output_tokens ?? 0),
        firstByteMs: null,
      };
