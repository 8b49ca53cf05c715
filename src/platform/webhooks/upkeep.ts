/** What the scheduled run does for alerts: looks at upstreams and at the books, and queues deliveries that are due. */

import { dayOf } from "../../core/account/budgets.ts";
import { operatorAlert } from "../../core/alerts/operator-alert.ts";
import { WATCHED_MS, watchUpstreams } from "../../core/routing/upstream-watch.ts";
import { pruneAlerts } from "../d1/alerts.ts";
import { countTries, knownStates, noteState } from "../d1/upstream-tries.ts";
import { isFilling, STORE_LIMIT_BYTES } from "../store-sizes.ts";
import { type AlertBindings, queueDue, raise } from "./raise.ts";

const DELETIONS_PER_RUN = 20_000;

/** Tells of upstreams that went down or came back since the last run. */
export async function tellUpstreams(env: AlertBindings, nowMs: number): Promise<void> {
  const [counts, known] = await Promise.all([countTries(env.BOOKS, nowMs - WATCHED_MS), knownStates(env.BOOKS)]);
  for (const change of watchUpstreams(counts, known)) {
    const { news, upstream } = change;
    const alerts = news ? [operatorAlert(`${news.type}_${upstream}_${nowMs}`, news, nowMs)] : [];
    await raise(env, alerts, nowMs, [noteState(env.BOOKS, change, nowMs)]);
  }
}

/** Tells once a day that the books are filling up. */
export async function tellBooksSize(env: AlertBindings, bytes: number, nowMs: number): Promise<void> {
  if (!isFilling(bytes)) return;
  const data = { store: "d1", bytes, limit_bytes: STORE_LIMIT_BYTES };
  await raise(env, [operatorAlert(`d1_filling_${dayOf(nowMs)}`, { type: "store.filling", data }, nowMs)], nowMs);
}

export async function keepDeliveries(env: AlertBindings, nowMs: number): Promise<void> {
  await queueDue(env, nowMs);
  await pruneAlerts(env.BOOKS, nowMs, DELETIONS_PER_RUN);
}
