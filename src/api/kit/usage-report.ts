/** A usage report as a response: one page of JSON, or all of it in CSV. */
import * as z from "zod/mini";
import { brief } from "../../core/schema-words.ts";
import { HOUR_MS } from "../../platform/d1/usage-events.ts";
import {
  rawUsageKeptFrom,
  reportUsage,
  USAGE_GROUPS,
  USAGE_ORDERS,
  type UsageGroup,
  type UsageOrder,
} from "../../platform/d1/usage-report.ts";
import { countInQuery, moment } from "./fields.ts";
import { invalid } from "./problem.ts";
import { toIso } from "./serializers.ts";
import { csvHead, type Reader, serializeUsage, usageToCsv } from "./usage-columns.ts";
import { extrasOf } from "./usage-extras.ts";

const CSV_PAGE = 5_000;

/** `group_by` as a comma-separated list of names. */
const groupBy = (allowed: readonly UsageGroup[]) =>
  z.pipe(
    z._default(brief(z.string()), "").check(z.describe(`Any of ${allowed.join(", ")}, between commas`)),
    z.transform((text, context): UsageGroup[] => {
      const named = [...new Set(text.split(",").map((part) => part.trim()))].filter((part) => part !== "");
      const unknown = named.find((part) => !allowed.includes(part as UsageGroup));
      if (unknown === undefined) return named as UsageGroup[];
      const message = `must be any of ${allowed.join(", ")}, between commas`;
      context.issues.push({ code: "custom", message, input: text });
      return z.NEVER;
    }),
  );

/** The query of a report. `to` defaults to now, `from` to the beginning of that month. */
export const reportQuery = (allowed: readonly UsageGroup[], orders: readonly UsageOrder[]) => ({
  from: z
    .optional(moment)
    .check(z.describe("Inclusive; ISO 8601, Unix milliseconds or `-24h`; this month where absent")),
  to: z.optional(moment).check(z.describe("Exclusive; now where absent")),
  group_by: groupBy(allowed),
  order_by: z.optional(z.enum(orders)).check(z.describe("The most first; by the groups where absent or alike")),
  format: z._default(z.enum(["json", "csv"]), "json"),
  limit: countInQuery(10_000, 1_000, "Rows in a JSON answer"),
  cursor: z.optional(z.string().check(z.regex(/^\d{1,15}$/, "must be a `next_cursor` of this report"))),
});
export const OPERATOR_GROUPS = USAGE_GROUPS;
export const OPERATOR_ORDERS = USAGE_ORDERS;
/** Tenants see neither cost nor margin. */
export const TENANT_ORDERS = USAGE_ORDERS.filter((order) => !/^(cost|margin|overrun|loss)_usd$/.test(order));
export const TENANT_GROUPS = USAGE_GROUPS.filter((group) => group !== "account" && group !== "upstream");

export interface ReportRequest {
  readonly from?: number | undefined;
  readonly to?: number | undefined;
  readonly group_by: readonly UsageGroup[];
  readonly order_by?: UsageOrder | undefined;
  readonly format: "json" | "csv";
  readonly limit: number;
  readonly cursor?: string | undefined;
}
/** Whose calls the report covers. */
export interface Whose {
  readonly account: string | undefined;
  readonly team?: string | undefined;
  readonly key?: string | undefined;
}

export async function usageReport(
  books: D1Database,
  request: ReportRequest,
  whose: Whose,
  reader: Reader,
  nowMs: number,
): Promise<{ data: Record<string, unknown>[]; next_cursor: string | null } | Response> {
  const range = rangeOf(request, nowMs);
  await refuseDeletedParts(books, range);
  const query = { ...range, ...whose, groupBy: request.group_by, orderBy: request.order_by };
  if (request.format === "csv")
    return csv((offset) => reportUsage(books, { ...query, limit: CSV_PAGE, offset }), request.group_by, reader);
  const offset = Number(request.cursor ?? 0);
  const rows = await reportUsage(books, { ...query, limit: request.limit + 1, offset });
  const page = rows.slice(0, request.limit);
  const data = serializeUsage(page, request.group_by, reader);
  const extras = reader === "operator" ? await extrasOf(books, page, query) : [];
  return {
    data: data.map((row, index) => ({ ...row, ...extras[index] })),
    next_cursor: rows.length > request.limit ? String(offset + request.limit) : null,
  };
}

function rangeOf(request: ReportRequest, nowMs: number): { fromMs: number; toMs: number } {
  const toMs = request.to ?? nowMs;
  const month = new Date(toMs);
  const fromMs = request.from ?? Date.UTC(month.getUTCFullYear(), month.getUTCMonth());
  if (fromMs > toMs) throw invalid("from", "`from` must not be after `to`.");
  return { fromMs, toMs };
}

/** For hours whose raw events are deleted, only totals of whole hours remain. */
async function refuseDeletedParts(
  books: D1Database,
  { fromMs, toMs }: { fromMs: number; toMs: number },
): Promise<void> {
  const keptFromMs = await rawUsageKeptFrom(books);
  for (const [param, ms] of [
    ["from", fromMs],
    ["to", toMs],
  ] as const) {
    if (ms < keptFromMs && ms % HOUR_MS !== 0) {
      throw invalid(
        param,
        `\`${param}\` must be on a full hour before ${toIso(keptFromMs)}: older calls are kept by the hour.`,
      );
    }
  }
}

/** Reads and sends page by page, so that a long report is never whole in memory. */
function csv(
  read: (offset: number) => ReturnType<typeof reportUsage>,
  groupBy: readonly UsageGroup[],
  reader: Reader,
): Response {
  const encoder = new TextEncoder();
  let offset = 0;
  const body = new ReadableStream<Uint8Array>({
    start: (controller) => controller.enqueue(encoder.encode(csvHead(groupBy, reader))),
    async pull(controller) {
      const rows = await read(offset);
      offset += rows.length;
      if (rows.length > 0) controller.enqueue(encoder.encode(usageToCsv(rows, groupBy, reader)));
      if (rows.length < CSV_PAGE) controller.close();
    },
  });
  return new Response(body, {
    headers: {
      "content-type": "text/csv; charset=utf-8",
      "content-disposition": 'attachment; filename="usage.csv"',
      "cache-control": "no-store",
    },
  });
}
