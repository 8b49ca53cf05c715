/**
 * A usage event in the archive: the columns of its row in the books, and `detail` as JSON. What is null or zero is left
 * out. The row has ids only; of a key, account or team no name.
 */
import type { PartLine } from "./part.ts";

export type StoredRow = Readonly<Record<string, string | number | null>>;

export function callPartLine(row: StoredRow): PartLine {
  const told: Record<string, unknown> = {};
  for (const [column, value] of Object.entries(row)) {
    // A first byte after 0 ms was measured: that is not the same as none.
    if (value !== null && (value !== 0 || column === "first_byte_ms"))
      told[column] = column === "detail" ? JSON.parse(String(value)) : value;
  }
  return { text: JSON.stringify(told), callId: String(row.event_id), nanoUsd: Number(row.price_nano_usd ?? 0) };
}

/** The row again, without what was null or zero; undefined for anything else. */
export function readCallLine(value: unknown): StoredRow | undefined {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return undefined;
  const row: Record<string, string | number> = {};
  for (const [column, each] of Object.entries(value)) {
    if (column === "detail" && typeof each === "object" && each !== null) row.detail = JSON.stringify(each);
    else if (typeof each === "string" || Number.isSafeInteger(each)) row[column] = each as string | number;
    else return undefined;
  }
  return typeof row.event_id === "string" && typeof row.ended_ms === "number" ? row : undefined;
}
