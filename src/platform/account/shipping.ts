/**
 * The alarm's work: end what is due, ship the outbox, poll jobs, prune. Each job stands alone: one that fails keeps no other from
 * its turn, and nothing is thrown, since the runtime gives up on an alarm that fails often.
 */
import type { UsageMessage } from "../../core/account/hold.ts";
import { log } from "../log.ts";
import { expireDue } from "./expiry.ts";
import type { Store } from "./store.ts";

/** Messages sent, and rows of a sort pruned, by one alarm. */
const MESSAGES_PER_ALARM = 10;
const PRUNED_PER_ALARM = 500;

export type Send = (message: UsageMessage) => Promise<unknown>;

/** `poll`: asks upstreams for the jobs that are due, each against a time limit. */
export async function runAlarm(store: Store, send: Send, poll: () => Promise<void>): Promise<void> {
  await attempt("guard", () => store.alarm.guard(Date.now()));
  await attempt("expire", () => store.write(expireDue));
  // Side by side: neither a slow queue nor a slow upstream keeps the other waiting.
  await Promise.all([attempt("ship", () => ship(store, send)), attempt("poll", poll)]);
  await attempt("prune", () => store.write((books, nowMs) => books.prune(nowMs, PRUNED_PER_ALARM)));
  await attempt("rearm", () => {
    const dueMs = store.write((books) => books.nextDueMs());
    store.alarm.finish(dueMs ?? null, Date.now());
  });
}

async function ship(store: Store, send: Send): Promise<void> {
  for (let sent = 0; sent < MESSAGES_PER_ALARM; sent++) {
    const taken = store.write(({ outbox, tenants }, nowMs) => {
      const shipment = outbox.take(nowMs);
      return shipment && { shipment, account: tenants.account().number };
    });
    if (!taken) return;
    try {
      await send({ account: taken.account, events: taken.shipment.events });
    } catch (error) {
      store.write(({ outbox }, nowMs) => outbox.failed(taken.shipment, nowMs));
      throw error;
    }
    store.write(({ outbox }) => outbox.sent());
  }
}

async function attempt(job: string, work: () => unknown): Promise<void> {
  try {
    await work();
  } catch (error) {
    // Its rows are as they were; the next alarm tries again.
    log({ event: "account_alarm_failed", job, error: error instanceof Error ? error.message : "unknown" });
  }
}
