/** `/admin/usage`: calls, their cost and their price, by any grouping over any range. */

import * as z from "zod/mini";
import { READERS } from "../../core/account/operators.ts";
import type { AdminRoutes } from "../kit/context.ts";
import { listOf } from "../kit/fields.ts";
import { answers, ok, route } from "../kit/route.ts";
import { UsageAnswer } from "../kit/usage-columns.ts";
import { OPERATOR_GROUPS, OPERATOR_ORDERS, reportQuery, usageReport } from "../kit/usage-report.ts";

const report = route({
  id: "reportUsage",
  method: "get",
  path: "/admin/usage",
  roles: READERS,
  summary: "Report usage by the time that calls ended; keys and teams that are gone included",
  query: z.strictObject({
    ...reportQuery(OPERATOR_GROUPS, OPERATOR_ORDERS),
    account: z.optional(z.string()).check(z.describe("This account's calls only")),
  }),
  answers: { 200: answers("One row a group, or one for all", listOf(UsageAnswer)) },
  alsoAs: "text/csv",
});

export function addUsage(api: AdminRoutes): void {
  api.add(report, async ({ work: context, query }) => {
    const answer = await usageReport(context.books, query, { account: query.account }, "operator", context.now());
    return answer instanceof Response ? answer : ok(answer as z.input<(typeof report)["answers"][200]["schema"]>);
  });
}
