/** The query of lists of calls, and the cursor of their pages. */
import * as z from "zod/mini";
import { characters } from "../../core/shapes.ts";
import { listArchived } from "../../platform/archive/call-reader.ts";
import { findAccount } from "../../platform/d1/accounts.ts";
import { keptFrom } from "../../platform/d1/call-parts.ts";
import type { CallFilter, CallRow, Position } from "../../platform/d1/call-rows.ts";
import { listCalls } from "../../platform/d1/calls.ts";
import type { RefusedRow } from "../../platform/d1/refused-calls.ts";
import type { AdminContext } from "./context.ts";
import { countInQuery, listOf, moment } from "./fields.ts";
import { invalid } from "./problem.ts";

/** `<time>-<table>-<row>`. Only its form is checked: an invented one reads an odd page of what its caller may see. */
const CURSOR = /^(\d{1,15})-([012])-(\d{1,15})$/;

const text = z.optional(characters(1, 400));
export const callQuery = {
  model: text,
  outcome: z.optional(z.enum(["completed", "client_gone", "stream_broken", "failed", "expired", "refused"])),
  status: z.optional(z.coerce.number<string>().check(z.int(), z.minimum(100), z.maximum(599))),
  reason: text,
  from: z.optional(moment).check(z.describe("Inclusive, of the time a call ended; `-24h` is so long ago")),
  to: z.optional(moment).check(z.describe("Exclusive")),
  limit: countInQuery(500, 100, "Rows in an answer"),
  cursor: z
    .optional(z.string().check(z.regex(CURSOR, "must be a `next_cursor` of this list")))
    .check(z.describe("`next_cursor` of the page before")),
};
const Query = z.object(callQuery);

/** A page of calls, and where they were read. */
export const callsOf = <Row extends z.core.$ZodType>(row: Row) =>
  z.object({ ...listOf(row).shape, source: z.enum(["books", "archive"]) });

/** Whose calls, and of which of them. */
type Narrowed = Pick<CallFilter, "account" | "team" | "key" | "upstream">;

/** A page may have fewer rows than asked for, and a cursor: it looks at a bounded number of calls. */
export async function callPage<Answer>(
  { books, archive }: Pick<AdminContext, "books" | "archive">,
  query: z.output<typeof Query>,
  narrowed: Narrowed,
  serialize: (call: CallRow | RefusedRow) => Answer,
): Promise<{ data: Answer[]; next_cursor: string | null; source: "books" | "archive" }> {
  const { model, outcome, status, reason, from: fromMs = 0, to: toMs = Number.MAX_SAFE_INTEGER } = query;
  if (fromMs > toMs) throw invalid("from", "`from` must not be after `to`.");
  const filter = { ...narrowed, model, outcome, status, reason, fromMs, toMs };
  const after = positionIn(query.cursor);
  const gone = archive && (await goneOf(books, archive, filter));
  // What was archived may stand in the books for a while: it is read in one place.
  const held = gone ? { ...filter, fromMs: Math.max(filter.fromMs, gone.untilMs) } : filter;
  const page = after?.table === 2 ? null : await listCalls(books, held, after, query.limit);
  if (page && (page.data.length > 0 || page.next || !gone)) {
    const next = page.next ?? (gone ? gone.beginning : null);
    return { data: page.data.map(serialize), next_cursor: next && cursorOf(next), source: "books" };
  }
  if (!gone) return { data: [], next_cursor: null, source: "archive" };
  const found = await listArchived(gone, { ...filter, toMs: Math.min(filter.toMs, gone.untilMs) }, after, query.limit);
  return { data: found.data.map(serialize), next_cursor: found.next && cursorOf(found.next), source: "archive" };
}

/** What of the calls asked for left for the archive; undefined: nothing, or of more than one account. */
async function goneOf(books: D1Database, bucket: R2Bucket, { account, fromMs, outcome }: CallFilter) {
  if (account === undefined || outcome === "refused") return undefined;
  const untilMs = await keptFrom(books);
  if (untilMs <= fromMs) return undefined;
  const row = await findAccount(books, account);
  const beginning: Position = { atMs: untilMs - 1, table: 2, row: Number.MAX_SAFE_INTEGER % 1e15 };
  return row && { books, bucket, account: row.number, untilMs, beginning };
}

const cursorOf = ({ atMs, table, row }: Position): string => `${atMs}-${table}-${row}`;

function positionIn(cursor: string | undefined): Position | null {
  const [, atMs, table, row] = CURSOR.exec(cursor ?? "") ?? [];
  return atMs === undefined
    ? null
    : { atMs: Number(atMs), table: Number(table) as Position["table"], row: Number(row) };
}
