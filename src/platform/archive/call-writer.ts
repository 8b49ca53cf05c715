/**
 * Writes the raw usage events of closed hours from the books to the archive, in the scheduled run. Each run does a
 * bounded amount, hour by hour, and the next one goes on. Events leave the books only once they are before the mark
 * that moves here.
 */
import { dayOf } from "../../core/account/budgets.ts";
import { operatorAlert } from "../../core/alerts/operator-alert.ts";
import { callPartLine } from "../../core/archive/call-line.ts";
import { BLOCK_LINES, PART_BYTES, PART_LINES, partName } from "../../core/archive/part.ts";
import { type AccountId, asId } from "../../core/ids.ts";
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
import { type AlertBindings, raise } from "../webhooks/raise.ts";
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

export async function archiveCalls(env: AlertBindings, bucket: R2Bucket, nowMs: number): Promise<void> {
  const { BOOKS: books } = env;
  const room: Room = { parts: PARTS_PER_RUN, lines: LINES_PER_RUN };
  let whole = true;
  for (const hourMs of await closedHours(books, await archivedUntil(books), HOURS_PER_RUN)) {
    for (const account of await unarchivedIn(books, hourMs)) {
      if (room.parts <= 0 || room.lines <= 0) return;
      const kept = await attempt(account, async () => {
        const end = await archiveHour(books, bucket, account, hourMs, room);
        if (typeof end === "object") await tellDiffers(env, asId<AccountId>(account.id), end, nowMs);
        return end === true;
      });
      whole = kept && whole;
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

/** Other bytes stand where this part belongs. */
interface Differs {
  readonly part: string;
  readonly why: string;
}

/** Writes the parts of an account's hour. False: this run has no room for all. */
async function archiveHour(
  books: D1Database,
  bucket: R2Bucket,
  { id, number }: Unarchived,
  hourMs: number,
  room: Room,
): Promise<boolean | Differs> {
  while (room.parts > 0 && room.lines > 0) {
    const { inHour, n, planned } = await lastParts(books, number, hourMs);
    if (planned) {
      const there = await matchPart(bucket, planned);
      if (there.kind === "kept") await partIsKept(books, planned, there.etag);
      if (there.kind === "differs") return { part: partName(planned), why: there.why };
      if (there.kind === "kept") continue;
    }
    const place = planned ?? { series: "calls" as const, account: number, hourMs, n: n + 1 };
    const span = planned ?? (await nextSpan(books, id, hourMs, inHour));
    const made = span && (await make(books, id, place, span, planned?.last));
    if (!made) return true;
    await planPart(books, made.part);
    const kept = await keepPart(bucket, made.part, made.bytes);
    if (kept.kind !== "kept") return { part: partName(made.part), why: kept.why };
    await partIsKept(books, made.part, kept.etag);
    room.parts -= 1;
    room.lines -= made.part.lines;
  }
  return false;
}

/** Once a day of each account; the log has each time. */
async function tellDiffers(env: AlertBindings, account: AccountId, data: Differs, nowMs: number): Promise<void> {
  log({ event: "archive.differs", account, ...data });
  const name = `archive_differs_${account}_${dayOf(nowMs)}`;
  await raise(env, [operatorAlert(name, { type: "archive.differs", data }, nowMs, account)], nowMs);
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
