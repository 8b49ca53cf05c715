/** `GET /admin/events`: who changed what, operators and tenants' owners and admins. Rows are added, never changed. */
import * as z from "zod/mini";
import { type Change, listChanges } from "../../platform/d1/changes.ts";
import type { AdminRoutes } from "../kit/context.ts";
import { listOf, numberedPage, pageRequest, time, timeAnswer } from "../kit/fields.ts";
import { answers, ok, route } from "../kit/route.ts";
import { toIso } from "../kit/serializers.ts";

/** Only owners see operators and webhooks. */
const OF_OPERATORS = [
  "createOperator",
  "updateOperator",
  "revokeOperator",
  "createWebhook",
  "updateWebhook",
  "deleteWebhook",
  "rotateWebhookSecret",
  "testWebhook",
  "resendDelivery",
];

const state = z.nullable(z.looseObject({}));
const EventAnswer = z
  .object({
    id: z.int(),
    at: timeAnswer,
    actor: z.object({ kind: z.enum(["operator", "key"]), id: z.string(), name: z.string() }),
    account: z.nullable(z.string()),
    action: z.string().check(z.describe("The call's operation id, such as `updateKey`")),
    target: z.string().check(z.describe("The path that was called")),
    fields: z.array(z.string()).check(z.describe("The fields of the body, also where their values are secret")),
    outcome: z
      .enum(["done", "partly", "unknown"])
      .check(z.describe("`unknown`: it broke off, and may have been made; `partly`: refused after a part was made")),
    before: state.check(z.describe("The fields that differ, as they were; null: there was nothing")),
    after: state.check(z.describe("The same, as they are; null: there is nothing")),
  })
  .register(z.globalRegistry, { id: "ChangeEvent" });

const list = route({
  id: "listEvents",
  method: "get",
  path: "/admin/events",
  summary: "Read the log of changes, newest first",
  query: z.strictObject({
    ...numberedPage,
    account: z.optional(z.string()),
    actor: z.optional(z.string()).check(z.describe("An operator's id, `ADMIN_TOKEN`, or a key's id")),
    action: z.optional(z.string()),
    from: z.optional(time),
    to: z.optional(time),
  }),
  answers: { 200: answers("Changes", listOf(EventAnswer)) },
  roles: { support: "all", read: "all" },
});

const serialize = (change: Change) => ({
  id: change.id,
  at: toIso(change.atMs),
  actor: change.actor,
  account: change.account,
  action: change.action,
  target: change.target,
  fields: [...change.fields],
  outcome: change.outcome,
  before: change.before,
  after: change.after,
});

export function addEvents(api: AdminRoutes): void {
  api.add(list, async ({ work: { books, operator }, query }) => {
    const { account, actor, action, from: fromMs, to: toMs } = query;
    const except = operator.role === "owner" ? [] : OF_OPERATORS;
    const page = await listChanges(books, pageRequest(query), { account, actor, action, fromMs, toMs, except });
    return ok({ data: page.data.map(serialize), next_cursor: page.nextCursor });
  });
}
