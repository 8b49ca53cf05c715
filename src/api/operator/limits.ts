/** `GET /admin/accounts/{account}/limits`: each limit and budget that is set, and what counts against it now. */
import * as z from "zod/mini";
import type { LevelView, LimitView } from "../../core/account/account-views.ts";
import { READERS } from "../../core/account/operators.ts";
import { toUsd } from "../../core/pricing/money.ts";
import { type AdminRoutes, known, theAccount } from "../kit/context.ts";
import { countInQuery, listOf, pageRequest, timeAnswer, usedAnswers } from "../kit/fields.ts";
import { answers, ok, route } from "../kit/route.ts";
import { serializeUsed, toIsoOrNull } from "../kit/serializers.ts";

const LevelAnswer = z
  .object({
    level: z.enum(["account", "team", "key"]),
    id: z.string(),
    name: z.string(),
    limits: z.array(
      z.object({
        limit: z.string(),
        allowed: z.number().check(z.describe("USD for `max_budget`")),
        used: z.number().check(z.describe("Of a budget: charged in its window, and held for calls in flight")),
        left: z.number(),
        frees_at: z
          .nullable(timeAnswer)
          .check(z.describe("When a full limit has room again, or a budget's window ends; null: not known or never")),
      }),
    ),
    ...usedAnswers,
  })
  .register(z.globalRegistry, { id: "Level" });

const list = route({
  id: "listLimits",
  method: "get",
  path: "/admin/accounts/{account}/limits",
  roles: READERS,
  summary: "Limits and budgets of the account, its live teams and its live keys, with what is used and left",
  query: z.strictObject({
    limit: countInQuery(1000, 100, "Rows in an answer"),
    cursor: z.optional(z.string().check(z.regex(/^(teams|keys):\d{1,15}$/, "must be a `next_cursor` of this list"))),
  }),
  answers: { 200: answers("The account, then teams, then keys", listOf(LevelAnswer)) },
});

const serializeLimit = ({ limit, allowed, used, freesAtMs }: LimitView) => {
  const shown = limit === "max_budget" ? toUsd : (count: number) => count;
  const left = Math.max(0, allowed - used);
  return { limit, allowed: shown(allowed), used: shown(used), left: shown(left), frees_at: toIsoOrNull(freesAtMs) };
};

const serialize = ({ level, id, name, limits, ...used }: LevelView) => ({
  level,
  id,
  name,
  limits: limits.map(serializeLimit),
  ...serializeUsed(used),
});

export function addLimits(api: AdminRoutes): void {
  api.add(list, async ({ work: context, params, query }) => {
    const { object } = await theAccount(context, params.account);
    const page = known(await object.view("limits", pageRequest(query)), "account", params.account);
    return ok({ data: page.data.map(serialize), next_cursor: page.nextCursor });
  });
}
