/**
 * The alarm's work: expire due holds, ship the outbox, poll jobs, prune. A job that fails does not stop the others, and
 * nothing is thrown, since the runtime gives up on an alarm that fails often.
 */
import type { UsageMessage } from "../../core/account/hold.ts";
import type { RefusedMessage } from "../../core/account/refused-call.ts";
import { log } from "../log.ts";
import { tellExpiring, tellSize } from "./alerting.ts";
import { expireDue } from "./expiry.ts";
import type { Store } from "./store.ts";

/** Messages sent by one alarm, and rows of each table that it prunes. */
const MESSAGES_PER_ALARM = 10;
const PRUNED_PER_ALARM = 500;

export type Send = (message: UsageMessage | RefusedMessage) => Promise<unknown>;

/** `poll` asks upstreams about the jobs that are due, `archive` moves the ledger's past: each with a time limit. */
export async function runAlarm(
  store: Store,
  send: Send,
  poll: () => Promise<unknown>,
  archive: () => Promise<unknown>,
): Promise<void> {
  await attempt("guard", () => store.alarm.guard(Date.now()));
  await attempt("expire", () => store.transact(expireDue));
  await attempt("expiring_keys", () => store.transact(tellExpiring));
  // In parallel, so that a slow queue and a slow upstream do not delay each other.
  await Promise.all([
    attempt("ship", () => ship(store, send)),
    attempt("refused", () => shipRefused(store, send)),
    attempt("poll", poll),
    attempt("archive", archive),
  ]);
  await attempt("prune", () => store.transact((state, nowMs) => state.prune(nowMs, PRUNED_PER_ALARM)));
  await attempt("size", () => {
    const bytes = store.sql.databaseSize;
    const account = store.transact((state, nowMs) => tellSize(state, bytes, nowMs));
    if (account) store.sizeWatch.look({ store: "account", account }, bytes, Date.now());
  });
  await attempt("rearm", () => {
    const dueMs = store.transact((state) => store.nextDueMs(state));
    store.alarm.finish(dueMs ?? null, Date.now());
  });
}

async function ship(store: Store, send: Send): Promise<void> {
  for (let sent = 0; sent < MESSAGES_PER_ALARM; sent++) {
    const taken = store.transact(({ outbox, tenants, openHolds }, nowMs) => {
      const shipment = outbox.take(nowMs);
      if (!shipment) return undefined;
      const shipped = shipment.events.length + shipment.alerts.length;
      const gauges = {
        open_holds: openHolds,
        waiting_events: Math.max(0, outbox.count() - shipped),
        account_bytes: store.sql.databaseSize,
      };
      return { shipment, gauges, account: tenants.account().number };
    });
    if (!taken) return;
    try {
      const { events, alerts } = taken.shipment;
      await send({ account: taken.account, events, ...(alerts.length > 0 && { alerts }), gauges: taken.gauges });
    } catch (error) {
      store.transact(({ outbox }, nowMs) => outbox.failed(taken.shipment, nowMs));
      throw error;
    }
    store.transact(({ outbox }) => outbox.sent());
  }
}

/** One message: what does not fit waits for the next alarm. */
async function shipRefused(store: Store, send: Send): Promise<void> {
  const refused = store.transact(({ refused: waiting, tenants }, nowMs) =>
    waiting.take(tenants.account().id, nowMs, () => crypto.randomUUID()),
  );
  if (!refused) return;
  await send({ refused });
  store.transact(({ refused: waiting }) => waiting.sent());
}

async function attempt(job: string, work: () => unknown): Promise<void> {
  try {
    await work();
  } catch (error) {
    // The job's rows are unchanged; the next alarm tries again.
    log({ event: "account_alarm_failed", job, error: error instanceof Error ? error.message : "unknown" });
  }
}
