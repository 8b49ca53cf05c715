/** The query of lists of calls, and the cursor of their pages. */
import * as z from "zod";
import type { CallRow, Position } from "../../platform/d1/call-rows.ts";
import { type CallFilter, listCalls } from "../../platform/d1/calls.ts";
import { moment } from "./fields.ts";
import { invalid } from "./problem.ts";

/** `<time>-<table>-<row>`. Only its form is checked: an invented one reads an odd page of what its caller may see. */
const CURSOR = /^(\d{1,15})-([01])-(\d{1,15})$/;

const text = z.string().min(1).max(400).optional();
export const callQuery = {
  model: text,
  outcome: z.enum(["completed", "client_gone", "stream_broken", "failed", "expired", "refused"]).optional(),
  status: z.coerce.number<string>().int().min(100).max(599).optional(),
  reason: text,
  from: moment.optional().meta({ description: "Inclusive, of the time a call ended; `-24h` is so long ago" }),
  to: moment.optional().meta({ description: "Exclusive" }),
  limit: z.coerce.number<string>().int().min(1).max(500).default(100).meta({ description: "Rows in an answer" }),
  cursor: z
    .string()
    .regex(CURSOR, "must be a `next_cursor` of this list")
    .optional()
    .meta({ description: "`next_cursor` of the page before" }),
};
const Query = z.object(callQuery);

/** Whose calls, and of which of them. */
type Narrowed = Pick<CallFilter, "account" | "team" | "key" | "upstream">;

/** A page may have fewer rows than asked for, and a cursor: it looks at a bounded number of calls. */
export async function callPage<Answer>(
  books: D1Database,
  query: z.output<typeof Query>,
  narrowed: Narrowed,
  serialize: (call: CallRow) => Answer,
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
