/**
 * Writes the raw usage events of closed hours from the books to the archive, in the scheduled run. Each run does a
 * bounded amount, hour by hour, and the next one goes on. Events leave the books only once they are before the mark
 * that moves here.
 */
import { callPartLine } from "../../core/archive/call-line.ts";
import { BLOCK_LINES, PART_BYTES, PART_LINES, partName } from "../../core/archive/part.ts";
import {
  advance,
  archivedUntil,
  type CallPart,
  closedHours,
  lastParts,
  nextSpan,
  partIsKept,
  planPart,
  type RowSpan,
  rowsOf,
  type Unarchived,
  unarchivedIn,
} from "../d1/call-parts.ts";
import { log } from "../log.ts";
import { keepPart, matchPart } from "./bucket.ts";
import { PartWriter, type WrittenPart } from "./part-writer.ts";

/** Work of one run. */
const HOURS_PER_RUN = 200;
const PARTS_PER_RUN = 300;
const LINES_PER_RUN = 400_000;

/** What one run may still do. */
interface Room {
  parts: number;
  lines: number;
}

export async function archiveCalls(books: D1Database, bucket: R2Bucket): Promise<void> {
  const room: Room = { parts: PARTS_PER_RUN, lines: LINES_PER_RUN };
  let whole = true;
  for (const hourMs of await closedHours(books, await archivedUntil(books), HOURS_PER_RUN)) {
    for (const account of await unarchivedIn(books, hourMs)) {
      if (room.parts <= 0 || room.lines <= 0) return;
      whole = (await attempt(account, () => archiveHour(books, bucket, account, hourMs, room))) && whole;
    }
    // An account whose part cannot be kept holds up the mark, and nobody else's parts.
    whole = whole && (await advance(books, hourMs));
  }
}

async function attempt({ id }: Unarchived, work: () => Promise<boolean>): Promise<boolean> {
  try {
    return await work();
  } catch (error) {
    log({ event: "archive_failed", account: id, error: String(error) });
    return false;
  }
}

/** Writes the parts of an account's hour. False: other bytes stand where one belongs. */
async function archiveHour(
  books: D1Database,
  bucket: R2Bucket,
  { id, number }: Unarchived,
  hourMs: number,
  room: Room,
): Promise<boolean> {
  while (room.parts > 0 && room.lines > 0) {
    const { inHour, n, planned } = await lastParts(books, number, hourMs);
    if (planned) {
      const there = await matchPart(bucket, planned);
      if (there.kind === "kept") await partIsKept(books, planned, there.etag);
      if (there.kind === "differs") return differs(id, planned, there.why);
      if (there.kind === "kept") continue;
    }
    const place = planned ?? { series: "calls" as const, account: number, hourMs, n: n + 1 };
    const span = planned ?? (await nextSpan(books, id, hourMs, inHour));
    const made = span && (await make(books, id, place, span, planned?.last));
    if (!made) return true;
    await planPart(books, made.part);
    const kept = await keepPart(bucket, made.part, made.bytes);
    if (kept.kind !== "kept") return differs(id, made.part, kept.why);
    await partIsKept(books, made.part, kept.etag);
    room.parts -= 1;
    room.lines -= made.part.lines;
  }
  return false;
}

function differs(account: string, part: CallPart, why: string): false {
  log({ event: "archive.differs", account, part: partName(part), why });
  return false;
}

type Made = { readonly part: CallPart; readonly bytes: WrittenPart["bytes"] };
type Beginning = Pick<CallPart, "series" | "account" | "hourMs" | "n">;

async function make(
  books: D1Database,
  account: string,
  { series, account: number, hourMs, n }: Beginning,
  span: RowSpan,
  to: CallPart["last"] | undefined,
): Promise<Made | undefined> {
  const writer = new PartWriter({ series, account: number, hourMs, n });
  let [last, late] = [span.after, 0];
  while (writer.lines < PART_LINES && writer.bytes < PART_BYTES) {
    const rows = await rowsOf(books, account, hourMs, { ...span, after: last }, to);
    const end = rows.at(-1);
    if (!end) break;
    await writer.add(rows.map(({ row: _, ...columns }) => callPartLine(columns)));
    last = { atMs: Number(end.ended_ms), row: Number(end.row) };
    late += rows.filter((row) => row.late === 1).length;
    if (rows.length < BLOCK_LINES) break;
  }
  if (writer.lines === 0) return undefined;
  const { record, bytes } = await writer.finish();
  return { part: { ...record, ...span, last, late }, bytes };
}
