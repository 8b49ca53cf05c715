/** Usage events, queue batches and reports for tests; what a test does not name is a harmless default. */
import { createExecutionContext, createMessageBatch, getQueueResult, type QueueResult } from "cloudflare:test";
import { env } from "cloudflare:workers";
import type { UsageEvent, UsageMessage } from "../../../src/core/account/hold.ts";
import { type AccountId, type AccountNumber, asId, type CallId, type KeyId } from "../../../src/core/ids.ts";
import { consumeUsage } from "../../../src/platform/queue/usage.ts";
import { done, type Json } from "./operator.ts";

export const HOUR = 3_600_000;
export const DAY = 24 * HOUR;
/** A day that begins on a day and an hour. */
export const START = Date.UTC(2026, 4, 1);

let made = 0;

export function event(some: Partial<UsageEvent> = {}): UsageEvent {
  const endedAtMs = some.endedAtMs ?? START;
  return {
    eventId: asId<CallId>(`event-${++made}`),
    account: asId<AccountId>("acme"),
    team: null,
    key: asId<KeyId>("key_1"),
    endpoint: "chat.completions",
    model: "llama",
    alias: null,
    upstream: "main",
    targetModel: "llama",
    region: "eu",
    outcome: "completed",
    reason: null,
    status: 200,
    source: "exact",
    usage: { input_tokens: 10, output_tokens: 5 },
    priceNanoUsd: 30,
    costNanoUsd: 20,
    overrunNanoUsd: 0,
    lossNanoUsd: 0,
    priceRule: "book:llama",
    startedAtMs: endedAtMs - 100,
    endedAtMs,
    latencyMs: 100,
    firstByteMs: 10,
    ...some,
  };
}

export const message = (...events: UsageEvent[]): UsageMessage => ({ account: asId<AccountNumber>(1), events });

/**
 * Delivers bodies as one batch, for the so many-th time, and gives which messages (`m0`, `m1`, ...) were acknowledged
 * and which sent back.
 */
export async function deliver(bodies: readonly unknown[], values: Partial<Env> = {}, attempts = 1) {
  const context = createExecutionContext();
  const batch = createMessageBatch(
    "tollgate-usage",
    bodies.map((body, index) => ({ id: `m${index}`, timestamp: new Date(), attempts, body })),
  );
  await consumeUsage(batch, { ...env, ...values });
  const result: QueueResult = await getQueueResult(batch, context);
  return { acked: result.explicitAcks, retried: result.retryMessages.map(({ msgId }) => msgId) };
}

/** One row of a report, or all of them, from START for 30 days where the query does not say. */
export async function report(query: string): Promise<Json[]> {
  const range = query.includes("from=") ? "" : `&from=${START}&to=${START + 30 * DAY}`;
  return (await done("GET", `/usage?${query}${range}`)).data;
}

export const count = (table: string) => env.BOOKS.prepare(`select count(*) as n from ${table}`).first<number>("n");

/** Events of `event()` that are written. Objects of files before may still ship some of their own. */
export const countWritten = () =>
  env.BOOKS.prepare("select count(*) as n from usage_events where event_id like 'event-%'").first<number>("n");

/** No usage, as before the first call of all. */
export async function emptyUsage(): Promise<void> {
  await env.BOOKS.batch(
    [
      "usage_events",
      "usage_hours",
      "usage_days",
      "usage_late_hours",
      "usage_set_aside",
      "refused_calls",
      "refusal_minutes",
      "refusal_batches",
      "histograms",
    ].map((table) => env.BOOKS.prepare(`delete from ${table}`)),
  );
  await env.BOOKS.prepare(
    "update usage_progress set summed_until_ms = 0, days_summed_until_ms = 0, kept_from_ms = 0",
  ).run();
}
