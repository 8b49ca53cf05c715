/** Statements of a month: of one account, and of all. */
import * as z from "zod/mini";
import { READERS } from "../../core/account/operators.ts";
import { listAccounts } from "../../platform/d1/accounts.ts";
import { type AdminRoutes, type OperatorContext, theAccount } from "../kit/context.ts";
import { countInQuery, listOf } from "../kit/fields.ts";
import { answers, ok, route } from "../kit/route.ts";
import { ASKED_AT_ONCE, someAtOnce } from "../kit/some-at-once.ts";
import {
  csvAnswer,
  type Month,
  monthOf,
  STATEMENT_HEAD,
  StatementAnswer,
  serializeStatement,
  statementOf,
  statementQuery,
  statementToCsv,
} from "../kit/statement.ts";

const ofOne = route({
  id: "getStatement",
  method: "get",
  path: "/admin/accounts/{account}/statement",
  roles: READERS,
  summary: "An account's month: opening, credits, charges by model, closing",
  query: z.strictObject(statementQuery),
  answers: { 200: answers("The statement", StatementAnswer) },
  alsoAs: "text/csv",
});
const ofAll = route({
  id: "listStatements",
  method: "get",
  path: "/admin/statements",
  roles: READERS,
  summary: "The same of all accounts that were not deleted before it began; CSV has all of them, JSON a page",
  query: z.strictObject({
    ...statementQuery,
    limit: countInQuery(100, 50, "Accounts in an answer"),
    cursor: z.optional(z.string().check(z.regex(/^\d{1,15}$/, "must be a `next_cursor` of this list"))),
  }),
  answers: { 200: answers("Statements", listOf(StatementAnswer)) },
  alsoAs: "text/csv",
});

export function addStatements(api: AdminRoutes): void {
  api.add(ofOne, async ({ work: context, params, query }) => {
    const month = monthOf(query.month, context.now());
    const { row, object } = await theAccount(context, params.account);
    const statement = await statementOf(context.books, object, row.id, month, context.now());
    if (query.format === "json") return ok(serializeStatement(statement));
    return csvAnswer(STATEMENT_HEAD + statementToCsv(statement), `${row.id}-${month.name}`);
  });

  api.add(ofAll, async ({ work: context, query }) => {
    const month = monthOf(query.month, context.now());
    if (query.format === "csv") return csvAnswer(allAsCsv(context, month), `statements-${month.name}`);
    const page = await statementsFrom(context, month, query.cursor ?? null, query.limit);
    return ok({ data: page.data.map(serializeStatement), next_cursor: page.nextCursor });
  });
}

async function statementsFrom(context: OperatorContext, month: Month, cursor: string | null, limit: number) {
  const { data: accounts, nextCursor } = await listAccounts(context.books, { cursor, limit }, month.fromMs);
  const data = await someAtOnce(accounts, ({ id, number }) =>
    statementOf(context.books, context.account(number), id, month, context.now()),
  );
  return { data, nextCursor };
}

/** Page by page as it is read. */
function allAsCsv(context: OperatorContext, month: Month): ReadableStream<Uint8Array> {
  const encoder = new TextEncoder();
  let cursor: string | null = null;
  // A client that leaves cancels the stream: no page is read after that.
  return new ReadableStream<Uint8Array>({
    start: (controller) => controller.enqueue(encoder.encode(STATEMENT_HEAD)),
    async pull(controller) {
      const page = await statementsFrom(context, month, cursor, ASKED_AT_ONCE);
      if (page.data.length > 0) controller.enqueue(encoder.encode(page.data.map(statementToCsv).join("")));
      cursor = page.nextCursor;
      if (cursor === null) controller.close();
    },
  });
}
