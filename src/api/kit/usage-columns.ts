/** Usage reports in JSON and CSV: the same rows, USD as numbers and as exact decimal text. */
import * as z from "zod/mini";
import { formatUsd } from "../../core/pricing/money.ts";
import { UNIT_NAMES, type Unit } from "../../core/pricing/usage.ts";
import type { UsageGroup, UsageRow } from "../../platform/d1/usage-report.ts";
import { quantityShown } from "./call-record.ts";
import { type Cell, csvLine, type Decimal } from "./csv.ts";
import { timeAnswer, usdAnswer } from "./fields.ts";
import { extraFields } from "./usage-extras.ts";

/** Who reads the report. Tenants see neither cost nor margin. */
export type Reader = "operator" | "tenant";

const counts = {
  calls: z.int(),
  errors: z.int().check(z.describe("Calls that failed, broke off or expired")),
  ...(Object.fromEntries(UNIT_NAMES.map((unit) => [unit, z.number()])) as Record<Unit, z.ZodMiniNumber>),
};
const groups = {
  account: z.optional(z.string()),
  team: z.nullish(z.string()),
  key: z.optional(z.string()),
  model: z.optional(z.string()),
  alias: z.nullish(z.string()),
  upstream: z.nullish(z.string()),
  region: z.nullish(z.string()),
  endpoint: z.nullish(z.string()),
  status: z.nullish(z.int()).check(z.describe("Null in sums from before it was kept")),
  reason: z.nullish(z.string()),
  country: z.nullish(z.string()),
  day: z.optional(z.string()).check(z.meta({ format: "date" })),
  hour: z.optional(timeAnswer),
};
const latency = { latency_ms: z.int().check(z.describe("Mean over all calls")) };

export const UsageAnswer = z
  .object({
    ...groups,
    ...counts,
    cost_usd: usdAnswer,
    price_usd: usdAnswer,
    margin_usd: usdAnswer.check(z.describe("Price less cost")),
    overrun_usd: usdAnswer.check(z.describe("Beyond what was held; borne by the operator")),
    loss_usd: usdAnswer.check(z.describe("Executed, or perhaps, and never charged")),
    ...latency,
    ...extraFields,
    low_input_calls: z
      .int()
      .check(z.describe("Charged by an input figure of the upstream below a tenth of what was sent by our own count")),
  })
  .register(z.globalRegistry, { id: "UsageRow" });
const { account: _a, upstream: _u, ...tenantGroups } = groups;
export const TenantUsageAnswer = z
  .object({ ...tenantGroups, ...counts, price_usd: usdAnswer, ...latency })
  .register(z.globalRegistry, { id: "TenantUsageRow" });

/** A column: its name, and its cell in a row. */
type Column = readonly [name: string, cell: (row: UsageRow) => Cell];

const QUANTITIES: readonly Column[] = [
  ["calls", (row) => row.calls],
  ["errors", (row) => row.errors],
  ...UNIT_NAMES.map((unit): Column => [unit, (row) => quantityShown(unit, row.usage[unit])]),
];
const PRICE: Column = ["price_usd", (row) => usd(row.priceNanoUsd)];
const LATENCY: Column = ["latency_ms", (row) => row.latencyMs];
const COLUMNS: { readonly [R in Reader]: readonly Column[] } = {
  operator: [
    ...QUANTITIES,
    ["cost_usd", (row) => usd(row.costNanoUsd)],
    PRICE,
    ["margin_usd", (row) => usd(row.priceNanoUsd - row.costNanoUsd)],
    ["overrun_usd", (row) => usd(row.overrunNanoUsd)],
    ["loss_usd", (row) => usd(row.lossNanoUsd)],
    LATENCY,
    ["low_input_calls", (row) => row.lowInput],
  ],
  tenant: [...QUANTITIES, PRICE, LATENCY],
};

const columnsFor = (groupBy: readonly UsageGroup[], reader: Reader): Column[] => [
  ...groupBy.map((group, index): Column => [group, (row) => groupCell(group, row.groups[index] ?? null)]),
  ...COLUMNS[reader],
];

function groupCell(group: UsageGroup, value: string | number | null): Cell {
  if (typeof value !== "number" || group === "status") return value;
  const iso = new Date(value).toISOString();
  return group === "day" ? iso.slice(0, 10) : iso;
}

const usd = (nanoUsd: bigint): Decimal => ({ decimal: formatUsd(nanoUsd) });

/** Rows for JSON, in the order of the columns. */
export function serializeUsage(
  rows: readonly UsageRow[],
  groupBy: readonly UsageGroup[],
  reader: Reader,
): Record<string, string | number | null>[] {
  const columns = columnsFor(groupBy, reader);
  return rows.map((row) =>
    Object.fromEntries(
      columns.map(([name, cell]) => {
        const value = cell(row);
        return [name, value !== null && typeof value === "object" ? Number(value.decimal) : value];
      }),
    ),
  );
}

export const csvHead = (groupBy: readonly UsageGroup[], reader: Reader): string =>
  csvLine(columnsFor(groupBy, reader).map(([name]) => name));

export function usageToCsv(rows: readonly UsageRow[], groupBy: readonly UsageGroup[], reader: Reader): string {
  const columns = columnsFor(groupBy, reader);
  return rows.map((row) => csvLine(columns.map(([, cell]) => cell(row)))).join("");
}
