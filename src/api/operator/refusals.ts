/** `GET /admin/accounts/{account}/refusals`: how many calls were refused, by minute, key, level and limit. */
import * as z from "zod/mini";
import { READERS } from "../../core/account/operators.ts";
import type { LimitLevel } from "../../core/refusal.ts";
import { sumRefusals } from "../../platform/d1/refused-calls.ts";
import { type AdminRoutes, theAccount } from "../kit/context.ts";
import { listOf, moment, numberedPage, timeAnswer } from "../kit/fields.ts";
import { invalid } from "../kit/problem.ts";
import { answers, ok, route } from "../kit/route.ts";
import { toIso } from "../kit/serializers.ts";

const RefusalSum = z
  .object({
    minute: timeAnswer,
    key: z.string().check(z.describe("`(others)` where too many keys were refused at once")),
    level: z.nullable(z.enum(["key", "team", "account"])),
    limit: z.nullable(z.string()),
    reason: z.string(),
    refusals: z.int(),
  })
  .register(z.globalRegistry, { id: "RefusalSum" });

const refusals = route({
  id: "listRefusals",
  method: "get",
  path: "/admin/accounts/{account}/refusals",
  roles: READERS,
  summary: "Count refused calls by minute, key, level and limit, newest first",
  query: z.strictObject({
    ...numberedPage,
    key: z.optional(z.string()),
    from: z.optional(moment).check(z.describe("Inclusive; a day ago where absent")),
    to: z.optional(moment).check(z.describe("Exclusive")),
  }),
  answers: { 200: answers("Sums", listOf(RefusalSum)) },
});
const DAY_MS = 86_400_000;

export function addRefusals(api: AdminRoutes): void {
  api.add(refusals, async ({ work: context, params, query }) => {
    const { row } = await theAccount(context, params.account);
    const { key, limit, from: fromMs = context.now() - DAY_MS, to: toMs = Number.MAX_SAFE_INTEGER } = query;
    if (fromMs > toMs) throw invalid("from", "`from` must not be after `to`.");
    const offset = Number(query.cursor ?? 0);
    const sums = await sumRefusals(context.books, { account: row.id, key, fromMs, toMs, limit: limit + 1, offset });
    const data = sums.slice(0, limit).map((sum) => ({
      minute: toIso(sum.minute_ms),
      key: sum.key,
      level: (sum.level || null) as LimitLevel | null,
      limit: sum.limit_name || null,
      reason: sum.reason,
      refusals: sum.refusals,
    }));
    return ok({ data, next_cursor: sums.length > limit ? String(offset + limit) : null });
  });
}
