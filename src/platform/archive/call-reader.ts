/** Calls that left the books, as the archive has them. */
import { timeIn } from "../../core/account/call-time.ts";
import { readCallLine } from "../../core/archive/call-line.ts";
import { DamagedPart } from "../../core/archive/damaged-part.ts";
import { BLOCK_LINES, blockOf, HOUR_MS, hourOf, linesOf, PART_LINES } from "../../core/archive/part.ts";
import { type CallPart, listCallParts } from "../d1/call-parts.ts";
import { type CallFilter, type CallRow, callOf, type EventRow, eventRowOf, type Position } from "../d1/call-rows.ts";
import { readBlock, readPartFooter } from "./bucket.ts";

/** A call ends at most this long after it was made, and may be corrected as late, ms. */
const LATEST_MS = 50 * HOUR_MS;
/** Footers read at once. */
const AT_ONCE = 6;
/** Blocks that one page of a list reads. */
const BLOCKS_PER_PAGE = 20;

export interface CallArchive {
  readonly books: D1Database;
  readonly bucket: R2Bucket;
  /** The account's number. */
  readonly account: number;
}

/** A call by its id, which says when it was made; undefined: it is not there, or its id says nothing. */
export async function findArchived(archive: CallArchive, callId: string): Promise<CallRow | undefined> {
  const madeMs = timeIn(callId);
  if (madeMs === undefined) return undefined;
  const [call = ""] = callId.split(".");
  const fromMs = hourOf(madeMs);
  const parts = await listCallParts(archive.books, archive.account, { fromMs, toMs: fromMs + LATEST_MS });
  const found: EventRow[] = [];
  const ended = parts.filter(({ last }) => last.atMs >= madeMs);
  for (let at = 0; at < ended.length; at += AT_ONCE) {
    const some = ended.slice(at, at + AT_ONCE);
    // Once the call is found, only one that expired may have more, in parts with corrections.
    if (found.some(({ late, outcome }) => !late && outcome !== "expired")) break;
    const wanted = found.length === 0 ? some : some.filter(({ late }) => late > 0);
    found.push(...(await Promise.all(wanted.map((part) => eventsOf(archive.bucket, part, call)))).flat());
  }
  const [first, ...later] = found.sort((a, b) => Number(a.late) - Number(b.late) || a.endedAtMs - b.endedAtMs);
  return first && callOf(first, later);
}

async function eventsOf(bucket: R2Bucket, part: CallPart, call: string): Promise<readonly EventRow[]> {
  const lines = linesOf(await readPartFooter(bucket, part), call);
  const blocks = new Set(lines.map(blockOf));
  const rows = await Promise.all([...blocks].map((block) => eventRows(bucket, part, block)));
  return rows.flat().filter(({ eventId }) => eventId === call || eventId.startsWith(`${call}.`));
}

async function eventRows(bucket: R2Bucket, part: CallPart, block: number): Promise<readonly EventRow[]> {
  const values = await readBlock(bucket, part, block);
  return values.map((value, index) => {
    const stored = readCallLine(value);
    if (!stored) throw new DamagedPart(part, "a line is damaged");
    const line = block * BLOCK_LINES + index;
    const row = eventRowOf(withNulls(stored));
    return { ...row, position: positionOf(part, line) };
  });
}

const NULLABLE = [
  "team",
  "alias",
  "upstream",
  "target_model",
  "region",
  "country",
  "reason",
  "first_byte_ms",
  "detail",
];
const withNulls = (stored: Readonly<Record<string, string | number | null>>) => ({
  ...Object.fromEntries(NULLABLE.map((column) => [column, null])),
  ...stored,
});

/** By part and line: `row` has both. */
const positionOf = (part: CallPart, line: number): Position => ({
  atMs: part.hourMs,
  table: 2,
  row: part.n * PART_LINES + line,
});

const COMPARED = ["team", "key", "model", "upstream", "outcome", "status", "reason"] as const;
const passes = (row: EventRow, filter: CallFilter): boolean =>
  !row.late &&
  row.endedAtMs >= filter.fromMs &&
  row.endedAtMs < filter.toMs &&
  COMPARED.every((column) => filter[column] === undefined || row[column] === filter[column]);

/** A page of calls, newest first by part and line; corrections of a part's own calls are in them. */
export async function listArchived(
  { books, bucket, account }: CallArchive,
  filter: CallFilter,
  after: Position | null,
  limit: number,
): Promise<{ readonly data: readonly CallRow[]; readonly next: Position | null }> {
  const toMs = Math.min(filter.toMs, after?.table === 2 ? after.atMs + 1 : filter.toMs);
  const fromMs = Math.max(0, filter.fromMs - HOUR_MS + 1);
  const parts = await listCallParts(books, account, { fromMs, toMs, newest: true, limit: BLOCKS_PER_PAGE });
  const data: CallRow[] = [];
  let [read, next] = [0, null as Position | null];
  for (const part of parts) {
    for (let block = part.blocks.length - 1; block >= 0; block--) {
      const beyond = after?.table === 2 && part.hourMs === after.atMs ? after.row : Number.POSITIVE_INFINITY;
      if (positionOf(part, block * BLOCK_LINES).row >= beyond) continue;
      if (read++ >= BLOCKS_PER_PAGE) return { data, next };
      const rows = await eventRows(bucket, part, block);
      const late = Map.groupBy(
        rows.filter((row) => row.late),
        ({ eventId }) => eventId.split(".")[0] ?? "",
      );
      for (const row of rows.toReversed()) {
        if (row.position.row >= beyond) continue;
        if (passes(row, filter)) {
          if (data.length === limit) return { data, next };
          data.push(callOf(row, late.get(row.eventId) ?? []));
        }
        next = row.position;
      }
    }
  }
  return { data, next: parts.length < BLOCKS_PER_PAGE ? null : next };
}
