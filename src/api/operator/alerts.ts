/** `/admin/alerts`: what happened, whoever was told. `/admin/webhooks`: who of the operator's is told. */
import * as z from "zod/mini";
import { READERS } from "../../core/account/operators.ts";
import { ALERTS } from "../../core/alerts/alert.ts";
import { type AlertRow, listAlerts } from "../../platform/d1/alerts.ts";
import type { AdminRoutes } from "../kit/context.ts";
import { listOf, numberedPage, pageRequest, timeAnswer } from "../kit/fields.ts";
import { answers, ok, route } from "../kit/route.ts";
import { toIso } from "../kit/serializers.ts";
import { addWebhooks } from "../kit/webhooks.ts";

/** Webhooks of the operator. */
const MOST_WEBHOOKS = 20;

const AlertAnswer = z
  .object({
    id: z.string(),
    type: z.string(),
    account: z.nullable(z.string()),
    at: timeAnswer,
    data: z.looseObject({}),
  })
  .register(z.globalRegistry, { id: "Alert" });

const list = route({
  id: "listAlerts",
  method: "get",
  path: "/admin/alerts",
  roles: READERS,
  summary: "Read the alerts of the last 30 days, newest first",
  query: z.strictObject({
    ...numberedPage,
    account: z.optional(z.string()),
    type: z.optional(z.enum(ALERTS as [string])),
  }),
  answers: { 200: answers("Alerts", listOf(AlertAnswer)) },
});

const serialize = ({ id, type, account, atMs, data }: AlertRow) => ({ id, type, account, at: toIso(atMs), data });

export function addAlerts(api: AdminRoutes): void {
  api.add(list, async ({ work: { books }, query }) => {
    const { account, type } = query;
    const page = await listAlerts(books, { ...pageRequest(query), account, type });
    return ok({ data: page.data.map(serialize), next_cursor: page.nextCursor });
  });
  addWebhooks(api, {
    base: "/admin/webhooks",
    events: ALERTS,
    most: MOST_WEBHOOKS,
    refusals: [],
    holderOf: (context) => ({ account: null, context }),
  });
}
