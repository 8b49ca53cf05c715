/** Webhooks and their deliveries in bodies and answers, and their routes. */
import * as z from "zod/mini";
import { characters } from "../../core/shapes.ts";
import type { DeliveryRow } from "../../platform/d1/deliveries.ts";
import { DISABLED_WHYS, type WebhookRow } from "../../platform/d1/webhooks.ts";
import { Deleted, listOf, namedPage, numberedPage, timeAnswer } from "./fields.ts";
import { answers, type RefusalStatus, route } from "./route.ts";
import { toIso, toIsoOrNull } from "./serializers.ts";

export interface WebhooksAt {
  readonly base: "/admin/webhooks" | "/account/webhooks";
  /** What may be subscribed to. */
  readonly events: readonly string[];
  /** Webhooks of one holder. */
  readonly most: number;
  readonly refusals: readonly RefusalStatus[];
}

const fields = {
  id: z.string(),
  url: z.string(),
  events: z.array(z.string()),
  created_at: timeAnswer,
  old_secret_until: z.nullable(timeAnswer).check(z.describe("Until when the secret before this one signs too")),
  failing_since: z.nullable(timeAnswer).check(z.describe("Since when every try failed; null: the last one did not")),
  enabled: z.boolean(),
  disabled_at: z.nullable(timeAnswer),
  disabled_why: z
    .nullable(z.enum(DISABLED_WHYS))
    .check(z.describe("`gone`: it answered 410; `failing`: five days of failures; `owner`: you did")),
};
const WebhookAnswer = z.object(fields).register(z.globalRegistry, { id: "Webhook" });
const WebhookWithSecret = z
  .object({
    ...fields,
    secret: z.nullable(z.string()).check(z.describe("`whsec_...`, shown in this answer only; null in a repeat's")),
  })
  .register(z.globalRegistry, { id: "WebhookWithSecret" });

export const serializeWebhook = (row: WebhookRow) => ({
  id: row.id,
  url: row.url,
  events: [...row.events],
  created_at: toIso(row.createdMs),
  old_secret_until: toIsoOrNull(row.oldUntilMs),
  failing_since: toIsoOrNull(row.failingSinceMs),
  enabled: row.disabledMs === null,
  disabled_at: toIsoOrNull(row.disabledMs),
  disabled_why: row.disabledWhy,
});

const state = z.enum(["pending", "delivered", "failed"]);
const DeliveryAnswer = z
  .object({
    id: z.string().check(z.describe("Of the alert, and the `webhook-id` of each try")),
    type: z.string(),
    state,
    attempts: z.int(),
    status: z.nullable(z.int()).check(z.describe("Of the last try's answer")),
    problem: z
      .nullable(z.string())
      .check(
        z.describe("Why the last try failed: `status`, `redirect`, `timeout`, `unreachable`, `disabled`, `too_many`"),
      ),
    latency_ms: z.nullable(z.int()),
    created_at: timeAnswer,
    tried_at: z.nullable(timeAnswer),
    next_try_at: z.nullable(timeAnswer),
  })
  .register(z.globalRegistry, { id: "Delivery" });

export const serializeDelivery = (row: DeliveryRow) => ({
  id: row.alert,
  type: row.type,
  state: row.state,
  attempts: row.attempts,
  status: row.status,
  problem: row.problem,
  latency_ms: row.ms,
  created_at: toIso(row.createdMs),
  tried_at: toIsoOrNull(row.triedMs),
  next_try_at: row.state === "pending" ? toIso(row.nextMs) : null,
});

const TestAnswer = z
  .object({
    ok: z.boolean(),
    status: z.nullable(z.int()),
    problem: z.nullable(z.string()),
    latency_ms: z.int(),
  })
  .register(z.globalRegistry, { id: "WebhookTest" });

export function webhookRoutes({ base, events, refusals }: WebhooksAt) {
  const one = `${base}/{webhook}` as const;
  const url = characters(1, 2_000).check(
    z.describe("https on port 443 of a public host by its name. Redirects are not followed"),
  );
  const names = z.array(z.enum(events as [string, ...string[]])).check(z.minLength(1), z.maxLength(events.length));
  const webhook = { 200: answers("The webhook", WebhookAnswer) };
  return {
    create: route({
      id: "createWebhook",
      method: "post",
      path: base,
      summary: "Make a webhook; its secret is shown in this answer only",
      body: z.strictObject({ url, events: names }),
      answers: { 201: answers("The webhook with its secret", WebhookWithSecret) },
      secret: "secret",
      refusals,
    }),
    list: route({
      id: "listWebhooks",
      method: "get",
      path: base,
      summary: "List the webhooks",
      query: z.strictObject(namedPage),
      answers: { 200: answers("Webhooks by id", listOf(WebhookAnswer)) },
      refusals,
    }),
    get: route({
      id: "getWebhook",
      method: "get",
      path: one,
      summary: "Read a webhook: what it is told of, whether it fails, why it is disabled",
      answers: webhook,
      refusals,
    }),
    patch: route({
      id: "updateWebhook",
      method: "patch",
      path: one,
      summary: "Change a webhook, disable it, or enable it again",
      body: z.strictObject({ url: z.optional(url), events: z.optional(names), enabled: z.optional(z.boolean()) }),
      answers: webhook,
      refusals,
    }),
    remove: route({
      id: "deleteWebhook",
      method: "delete",
      path: one,
      summary: "Delete a webhook and its deliveries",
      answers: { 200: answers("Deleted", Deleted) },
      refusals,
    }),
    rotate: route({
      id: "rotateWebhookSecret",
      method: "post",
      path: `${one}/rotate` as const,
      summary: "Give it a new secret; the old one signs too for 24 hours",
      answers: { 200: answers("The webhook with its new secret", WebhookWithSecret) },
      secret: "secret",
      refusals,
    }),
    ...sendingRoutes(one, refusals),
  };
}

function sendingRoutes<One extends string>(one: `${One}/{webhook}`, refusals: readonly RefusalStatus[]) {
  return {
    test: route({
      id: "testWebhook",
      method: "post",
      path: `${one}/test` as const,
      summary: "Send `webhook.test` now, and say what came of it",
      answers: { 200: answers("What its receiver answered", TestAnswer) },
      refusals,
    }),
    deliveries: route({
      id: "listDeliveries",
      method: "get",
      path: `${one}/deliveries` as const,
      summary: "List what was sent in the last 30 days, newest first",
      query: z.strictObject({ ...numberedPage, state: z.optional(state) }),
      answers: { 200: answers("Deliveries", listOf(DeliveryAnswer)) },
      refusals,
    }),
    again: route({
      id: "resendDelivery",
      method: "post",
      path: `${one}/deliveries/{delivery}/resend` as const,
      summary: "Send an alert again, under the same id",
      answers: { 202: answers("It is queued", z.object({ id: z.string(), state: z.literal("pending") })) },
      refusals,
    }),
  };
}
