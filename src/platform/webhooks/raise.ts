/** Stores alerts and puts their deliveries into the queue. The scheduled run queues what did not get in. */
import type { Alert } from "../../core/alerts/alert.ts";
import { writeAlerts } from "../d1/alerts.ts";
import { notQueued, takeDue } from "../d1/deliveries.ts";

export type AlertBindings = Pick<Env, "BOOKS" | "WEBHOOKS">;

/** Messages in one call of the queue. */
const AT_ONCE = 100;
/** Deliveries queued in one go; what is left is queued by the next. */
const MOST_QUEUED = 500;

/** `also`: what is written with them, or not at all. */
export async function raise(
  env: AlertBindings,
  alerts: readonly Alert[],
  nowMs: number,
  also: readonly D1PreparedStatement[] = [],
): Promise<void> {
  if (alerts.length + also.length === 0) return;
  const deliveries = await writeAlerts(env.BOOKS, alerts, nowMs, also);
  // The alerts are stored: what fails from here on is made up for by the scheduled run.
  if (deliveries > 0) await queueDue(env, nowMs).catch(() => undefined);
}

export async function queueDue(env: AlertBindings, nowMs: number): Promise<void> {
  const due = await takeDue(env.BOOKS, nowMs, MOST_QUEUED);
  for (let start = 0; start < due.length; start += AT_ONCE) {
    const part = due.slice(start, start + AT_ONCE);
    try {
      await env.WEBHOOKS.sendBatch(part.map((delivery) => ({ body: { delivery } })));
    } catch (error) {
      await notQueued(env.BOOKS, due.slice(start));
      throw error;
    }
  }
}
