/**
 * Webhooks of the operator, and of a tenant's owners for their own account: the same routes. A secret is shown once,
 * where it is made or rotated; the one before it signs too for a day. `test` sends at once and says what came of it.
 */
import type { Env } from "hono";
import { messageBody } from "../../core/alerts/message.ts";
import { originsIn, receiverFault } from "../../core/alerts/receiver-url.ts";
import { ROTATION_MS } from "../../core/alerts/retries.ts";
import type { AccountId } from "../../core/ids.ts";
import { findDelivery, listDeliveries, resend } from "../../platform/d1/deliveries.ts";
import {
  addWebhook,
  amendWebhook,
  findWebhook,
  listWebhooks,
  removeWebhook,
  rotateWebhook,
  type WebhookRow,
} from "../../platform/d1/webhooks.ts";
import { openSecrets, secretSeal } from "../../platform/webhooks/deliver.ts";
import { queueDue } from "../../platform/webhooks/raise.ts";
import { newSecret, send } from "../../platform/webhooks/send.ts";
import { type AdminContext, known } from "./context.ts";
import { deleted, pageRequest } from "./fields.ts";
import { newId } from "./new-id.ts";
import { conflict, invalid } from "./problem.ts";
import { type ApiRoutes, created, ok } from "./route.ts";
import { serializeDelivery, serializeWebhook, type WebhooksAt, webhookRoutes } from "./webhook-schema.ts";

interface Holder {
  /** Null: the operator. */
  readonly account: AccountId | null;
  readonly context: AdminContext;
}

/** Where webhooks are managed, and by whom. `holderOf` throws where the caller may not. */
export interface ManagedWebhooks<Work> extends WebhooksAt {
  holderOf(work: Work): Holder;
}

export function addWebhooks<Work, Bindings extends Env>(
  api: ApiRoutes<Work, Bindings>,
  at: ManagedWebhooks<Work>,
): void {
  const { create, list, get, patch, remove, rotate } = webhookRoutes(at);

  api.add(create, async ({ work, body, making }) => {
    const { account, context } = at.holderOf(work);
    checkUrl(context, body.url);
    const id = making.id("wh_");
    const secret = newSecret();
    const row = newRow(id, account, body, await context.secrets.seal(secretSeal(id), secret), context.now());
    if (await addWebhook(context.books, row, at.most)) return created({ ...serializeWebhook(row), secret });
    const made = await findWebhook(context.books, account, id);
    if (made) return created({ ...serializeWebhook(made), secret: null });
    throw conflict("too_many_webhooks", `There are ${at.most} webhooks, as many as there may be. Delete one.`);
  });

  api.add(list, async ({ work, query }) => {
    const { account, context } = at.holderOf(work);
    const page = await listWebhooks(context.books, account, pageRequest(query));
    return ok({ data: page.data.map(serializeWebhook), next_cursor: page.nextCursor });
  });

  api.add(get, async ({ work, params }) => ok(serializeWebhook(await theWebhook(at.holderOf(work), params.webhook))));

  api.add(patch, async ({ work, params: { webhook: id }, body }) => {
    const holder = at.holderOf(work);
    const { context } = holder;
    await theWebhook(holder, id);
    if (body.url !== undefined) checkUrl(context, body.url);
    await amendWebhook(context.books, id, body, context.now());
    return ok(serializeWebhook(await theWebhook(holder, id)));
  });

  api.add(remove, async ({ work, params: { webhook: id } }) => {
    const holder = at.holderOf(work);
    await theWebhook(holder, id);
    await removeWebhook(holder.context.books, id);
    return ok(deleted(id));
  });

  api.add(rotate, async ({ work, params: { webhook: id } }) => {
    const holder = at.holderOf(work);
    const { books, secrets, now } = holder.context;
    await theWebhook(holder, id);
    const secret = newSecret();
    await rotateWebhook(books, id, await secrets.seal(secretSeal(id), secret), now() + ROTATION_MS);
    return ok({ ...serializeWebhook(await theWebhook(holder, id)), secret });
  });

  addSending(api, at);
}

/** What sends, and what was sent. */
function addSending<Work, Bindings extends Env>(api: ApiRoutes<Work, Bindings>, at: ManagedWebhooks<Work>): void {
  const { test, deliveries, again } = webhookRoutes(at);

  api.add(test, async ({ work, params }) => {
    const holder = at.holderOf(work);
    const { context, account } = holder;
    const row = await theWebhook(holder, params.webhook);
    const nowMs = context.now();
    const id = newId("evt_");
    const body = messageBody({ type: "webhook.test", account, atMs: nowMs, data: { webhook: row.id } });
    const secrets = await openSecrets(context.secrets, row, nowMs);
    const { status, problem, ms } = await send(context.alerts, { url: row.url, id, body, secrets }, nowMs);
    return ok({ ok: problem === null, status, problem, latency_ms: ms });
  });

  api.add(deliveries, async ({ work, params, query }) => {
    const holder = at.holderOf(work);
    const row = await theWebhook(holder, params.webhook);
    const page = await listDeliveries(holder.context.books, row.id, { ...pageRequest(query), state: query.state });
    return ok({ data: page.data.map(serializeDelivery), next_cursor: page.nextCursor });
  });

  api.add(again, async ({ work, params: { webhook, delivery } }) => {
    const holder = at.holderOf(work);
    const { books, alerts, now } = holder.context;
    const row = await theWebhook(holder, webhook);
    known(await findDelivery(books, webhook, delivery), "delivery", delivery);
    if (row.disabledMs !== null) throw conflict("webhook_disabled", `The webhook '${webhook}' is disabled. Enable it.`);
    if (!(await resend(books, webhook, delivery, now()))) {
      throw conflict("delivery_pending", `The delivery '${delivery}' is under way already.`);
    }
    // Not in the queue now: the scheduled run puts it there.
    await queueDue(alerts, now()).catch(() => undefined);
    return { status: 202 as const, body: { id: delivery, state: "pending" as const } };
  });
}

const newRow = (
  id: string,
  account: string | null,
  { url, events }: { readonly url: string; readonly events: readonly string[] },
  secret: string,
  createdMs: number,
): WebhookRow => ({
  id,
  account,
  url,
  events: [...new Set(events)],
  secret,
  oldSecret: null,
  oldUntilMs: null,
  createdMs,
  failingSinceMs: null,
  disabledMs: null,
  disabledWhy: null,
});

/** The holder's own, or 404. */
const theWebhook = async ({ account, context }: Holder, id: string): Promise<WebhookRow> =>
  known(await findWebhook(context.books, account, id), "webhook", id);

function checkUrl({ alerts, host }: AdminContext, url: string): void {
  const fault = receiverFault(url, host, originsIn(alerts.WEBHOOK_TEST_ORIGINS ?? ""));
  if (fault) throw invalid("url", `\`url\` ${fault}.`);
}
