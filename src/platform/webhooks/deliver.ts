/**
 * The queue's consumer: tries deliveries. Their state is in D1, a message only says which to try, so a message that
 * comes twice, or never, changes nothing that a receiver sees beyond a second try under the same id.
 */

import { messageBody } from "../../core/alerts/message.ts";
import { operatorAlert } from "../../core/alerts/operator-alert.ts";
import { disabledBy, putOffMs, retryAfterMs } from "../../core/alerts/retries.ts";
import { type AccountId, asId } from "../../core/ids.ts";
import { type Claimed, claim, isBack, noteDelivered, noteFailed, putOff } from "../d1/deliveries.ts";
import { disable, type WebhookRow } from "../d1/webhooks.ts";
import { log } from "../log.ts";
import { type PlatformSecrets, readSecrets } from "../secrets.ts";
import { type AlertBindings, queueDue, raise } from "./raise.ts";
import { type Sent, send, type WebhookOut } from "./send.ts";

export type DeliverEnv = AlertBindings & WebhookOut & Pick<Env, "KEY_PEPPER" | "MASTER_KEY">;

/** Waits up to this are left to the queue, seconds; longer ones to the scheduled run. */
const QUEUE_WAITS_S = 600;

export async function consumeWebhooks(batch: MessageBatch, env: DeliverEnv): Promise<void> {
  const secrets = await readSecrets(env);
  await Promise.all(
    batch.messages.map(async (message) => {
      try {
        const { delivery } = message.body as { delivery?: unknown };
        if (secrets.ok && typeof delivery === "number") await deliver(env, secrets.secrets, delivery);
      } catch (error) {
        // Its mark in D1 runs out, and the scheduled run queues it again.
        log({ event: "delivery_broke_off", error: String(error) });
      }
      message.ack();
    }),
  );
}

async function deliver(env: DeliverEnv, secrets: PlatformSecrets, seq: number): Promise<void> {
  const claimed = await claim(env.BOOKS, seq, Date.now());
  if (claimed === "nothing") return;
  if ("backlogMs" in claimed) return later(env, seq, putOffMs(claimed.backlogMs, Math.random()), []);
  const { webhook, alert } = claimed;
  const opened = await openSecrets(secrets, webhook, Date.now());
  const sent = await send(
    env,
    { url: webhook.url, id: alert.id, body: messageBody(alert), secrets: opened },
    Date.now(),
  );
  const nowMs = Date.now();
  if (sent.problem !== null) return failed(env, claimed, sent, nowMs);
  await env.BOOKS.batch(noteDelivered(env.BOOKS, claimed, sent, nowMs));
  if (isBack(claimed)) await queueDue(env, nowMs).catch(() => undefined);
}

async function failed(env: DeliverEnv, claimed: Claimed, sent: Sent, nowMs: number): Promise<void> {
  const { webhook, attempts, seq } = claimed;
  const why = disabledBy(sent.status, webhook.failingSinceMs ?? nowMs, nowMs);
  if (why) {
    await env.BOOKS.batch([
      ...noteFailed(env.BOOKS, claimed, sent, true, nowMs),
      ...disable(env.BOOKS, webhook.id, why, nowMs),
    ]);
    log({ event: "webhook.disabled", webhook: webhook.id, account: webhook.account, why });
    const account = webhook.account === null ? null : asId<AccountId>(webhook.account);
    const news = { type: "webhook.disabled", data: { webhook: webhook.id, why } } as const;
    await raise(env, [operatorAlert(`disabled_${webhook.id}_${nowMs}`, news, nowMs, account)], nowMs);
    return;
  }
  const waitMs = retryAfterMs(attempts + 1, Math.random());
  const noted = noteFailed(env.BOOKS, claimed, sent, waitMs === null, nowMs);
  if (waitMs === null) await env.BOOKS.batch(noted);
  else await later(env, seq, waitMs, noted);
}

/** Tries it again after a wait. `noted`: what is written with it. */
async function later(env: DeliverEnv, seq: number, waitMs: number, noted: readonly D1PreparedStatement[]) {
  const delaySeconds = Math.ceil(waitMs / 1000);
  const queued = delaySeconds <= QUEUE_WAITS_S;
  await env.BOOKS.batch([...noted, putOff(env.BOOKS, seq, Date.now() + waitMs, queued)]);
  if (queued) await env.WEBHOOKS.send({ delivery: seq }, { delaySeconds });
}

/** The place that a webhook's secret is bound to. */
export const secretSeal = (webhook: string): string => `webhook ${webhook}`;

/** The secrets that sign now, the newest first. */
export async function openSecrets(
  secrets: PlatformSecrets,
  { id, secret, oldSecret, oldUntilMs }: WebhookRow,
  nowMs: number,
): Promise<string[]> {
  const sealed = oldSecret !== null && nowMs < (oldUntilMs ?? 0) ? [secret, oldSecret] : [secret];
  return Promise.all(sealed.map((one) => secrets.unseal(secretSeal(id), one)));
}
