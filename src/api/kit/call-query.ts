/** The query of lists of calls, and the cursor of their pages. */
import * as z from "zod/mini";
import { characters } from "../../core/shapes.ts";
import type { CallFilter, CallRow, Position } from "../../platform/d1/call-rows.ts";
import { listCalls } from "../../platform/d1/calls.ts";
import type { RefusedRow } from "../../platform/d1/refused-calls.ts";
import { countInQuery, moment } from "./fields.ts";
import { invalid } from "./problem.ts";

/** `<time>-<table>-<row>`. Only its form is checked: an invented one reads an odd page of what its caller may see. */
const CURSOR = /^(\d{1,15})-([01])-(\d{1,15})$/;

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

/** Whose calls, and of which of them. */
type Narrowed = Pick<CallFilter, "account" | "team" | "key" | "upstream">;

/** A page may have fewer rows than asked for, and a cursor: it looks at a bounded number of calls. */
export async function callPage<Answer>(
  books: D1Database,
  query: z.output<typeof Query>,
  narrowed: Narrowed,
  serialize: (call: CallRow | RefusedRow) => Answer,
): Promise<{ data: Answer[]; next_cursor: string | null }> {
  const { model, outcome, status, reason, from: fromMs = 0, to: toMs = Number.MAX_SAFE_INTEGER } = query;
  if (fromMs > toMs) throw invalid("from", "`from` must not be after `to`.");
  const filter = { ...narrowed, model, outcome, status, reason, fromMs, toMs };
  const page = await listCalls(books, filter, positionIn(query.cursor), query.limit);
  return { data: page.data.map(serialize), next_cursor: page.next && cursorOf(page.next) };
}

const cursorOf = ({ atMs, table, row }: Position): string => `${atMs}-${table}-${row}`;

function positionIn(cursor: string | undefined): Position | null {
  const [, atMs, table, row] = CURSOR.exec(cursor ?? "") ?? [];
  return atMs === undefined ? null : { atMs: Number(atMs), table: table === "1" ? 1 : 0, row: Number(row) };
}
