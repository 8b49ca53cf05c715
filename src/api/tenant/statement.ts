/** `GET /account/statement`: the account's month, for its owners. */
import * as z from "zod/mini";
import { Problem } from "../kit/problem.ts";
import { answers, ok, route } from "../kit/route.ts";
import {
  csvAnswer,
  monthOf,
  STATEMENT_HEAD,
  StatementAnswer,
  serializeStatement,
  statementOf,
  statementQuery,
  statementToCsv,
} from "../kit/statement.ts";
import type { SelfServiceRoutes } from "./self-service.ts";

const read = route({
  id: "getStatement",
  method: "get",
  path: "/account/statement",
  summary: "The account's month: opening, credits, charges by model, closing; for owners",
  query: z.strictObject(statementQuery),
  answers: { 200: answers("The statement", StatementAnswer) },
  alsoAs: "text/csv",
  refusals: [403],
});

export function addSelfStatement(api: SelfServiceRoutes): void {
  api.add(read, async ({ work: { context, standing, object }, query }) => {
    if (standing.key.role !== "owner") {
      throw new Problem(403, "role_not_allowed", "Statements are for account owners. Use an owner's key.");
    }
    const month = monthOf(query.month, context.now());
    const { id } = standing.account;
    const statement = await statementOf(context.books, object, id, month, context.now());
    if (query.format === "json") return ok(serializeStatement(statement));
    return csvAnswer(STATEMENT_HEAD + statementToCsv(statement), `${id}-${month.name}`);
  });
}
