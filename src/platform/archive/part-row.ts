/** A part's record as a row: what the tables of the account's object and of the books have in common. */
import type { PartRecord, Series } from "../../core/archive/part.ts";

export type PartRow = {
  n: number;
  hour_ms: number;
  lines: number;
  nano_usd: number;
  bytes: number;
  footer_bytes: number;
  /** JSON. */
  blocks: string;
  sha256: string;
  etag: string;
};

export const recordOf = (row: PartRow, series: Series, account: number): PartRecord => ({
  series,
  account,
  hourMs: row.hour_ms,
  n: row.n,
  lines: row.lines,
  nanoUsd: row.nano_usd,
  bytes: row.bytes,
  footerBytes: row.footer_bytes,
  blocks: JSON.parse(row.blocks) as number[],
  sha256: row.sha256,
  etag: row.etag,
});
