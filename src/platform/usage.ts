/**
 * Usage on its way: the queue's consumer (outbox -> queue -> D1) and the scheduled upkeep of the books.
 *
 * A message is written whole, then acknowledged by itself, then its events are confirmed to the account's object, which
 * drops them from its outbox. Every step may be lost or repeated: an event id counts once in D1, and an object that
 * heard no confirmation sends again. A message that cannot be read or written goes back, and after its retries
 * to the dead-letter queue, where the operator finds it; it holds up no other.
 */
import * as z from "zod";
import type { UsageEvent, UsageMessage } from "../core/hold.ts";
import type { AccountNumber, CallId } from "../core/ids.ts";
import { UNIT_NAMES } from "../core/usage.ts";
import { accountObject } from "./accounts.ts";
import { sumDays } from "./books/usage-days.ts";
import { writeUsage } from "./books/usage-events.ts";
import { deleteOldUsage, sumHours } from "./books/usage-hours.ts";
import { log } from "./log.ts";
import { republish } from "./routing-cache.ts";

const text = z.string().max(4_000);
const count = z.int().min(0);
const duration = z.number().min(0).transform(Math.round);

/** Fields that this version does not know are left out: the other side may be newer. */
const Event = z.object({
  eventId: text.min(1),
  account: text.min(1),
  team: text.nullable(),
  key: text,
  endpoint: text,
  model: text,
  alias: text.nullable(),
  upstream: text.nullable(),
  targetModel: text.nullable(),
  region: text.nullable(),
  outcome: z.enum(["completed", "client_gone", "stream_broken", "failed", "expired"]),
  reason: text.nullable(),
  status: z.int(),
  source: z.enum(["exact", "own_count", "none"]),
  lowInput: z.literal(true).optional(),
  usage: z.object(Object.fromEntries(UNIT_NAMES.map((unit) => [unit, count.optional()]))),
  priceNanoUsd: count,
  costNanoUsd: count,
  overrunNanoUsd: count,
  lossNanoUsd: count,
  priceRule: text,
  startedAtMs: count,
  endedAtMs: count,
  latencyMs: duration,
  firstByteMs: duration.nullable(),
});
const MessageBody = z.object({ account: z.int().min(1), events: z.array(Event) });

/** Messages written in one transaction. */
const MESSAGES_PER_WRITE = 20;

interface Readable {
  readonly message: Message;
  readonly content: UsageMessage;
}

export async function consumeUsage(batch: MessageBatch, env: Pick<Env, "BOOKS" | "ACCOUNTS">): Promise<void> {
  const readable = batch.messages.flatMap((message): Readable[] => {
    const outcome = MessageBody.safeParse(message.body);
    if (outcome.success) return [{ message, content: outcome.data as unknown as UsageMessage }];
    log({
      event: "usage_message_unreadable",
      message: message.id,
      field: outcome.error.issues[0]?.path.join(".") ?? "",
    });
    message.retry();
    return [];
  });
  for (let start = 0; start < readable.length; start += MESSAGES_PER_WRITE) {
    await writeTogether(env, readable.slice(start, start + MESSAGES_PER_WRITE));
  }
}

/** All in one transaction; where that fails, each by itself, so that one bad message costs the others nothing. */
async function writeTogether(env: Pick<Env, "BOOKS" | "ACCOUNTS">, part: readonly Readable[]): Promise<void> {
  try {
    const keptFromMs = await writeUsage(
      env.BOOKS,
      part.map(({ content }) => content.events),
    );
    await finish(env, part, keptFromMs);
  } catch (error) {
    if (part.length > 1) {
      for (const one of part) await writeTogether(env, [one]);
      return;
    }
    for (const { message } of part) {
      log({ event: "usage_not_written", message: message.id, error: String(error) });
      message.retry();
    }
  }
}

/** `keptFromMs`: an event that ended before it was not written. */
async function finish(env: Pick<Env, "ACCOUNTS">, part: readonly Readable[], keptFromMs: number): Promise<void> {
  const written = new Map<AccountNumber, CallId[]>();
  for (const { message, content } of part) {
    const inTime = content.events.filter((event) => event.endedAtMs >= keptFromMs);
    written.set(content.account, [...(written.get(content.account) ?? []), ...inTime.map(({ eventId }) => eventId)]);
    if (inTime.length === content.events.length) message.ack();
    else {
      log({ event: "usage_too_old", message: message.id, events: content.events.length - inTime.length });
      message.retry();
    }
  }
  // Unheard, it costs a repetition: the object sends again, and the ids are known here.
  await Promise.allSettled(
    [...written].map(([account, ids]) => (accountObject(env, account) as unknown as Confirmed).shipped(ids)),
  );
}

/** The account object's ear for events that stand in D1. */
interface Confirmed {
  shipped(eventIds: readonly UsageEvent["eventId"][]): Promise<void>;
}

const DAY_MS = 24 * 60 * 60_000;
export const DEFAULT_RETENTION_DAYS = 90;
/** Work of one scheduled run, so that it ends within its time; the next one goes on. */
const HOURS_PER_RUN = 100;
const DAYS_PER_RUN = 10;
const DELETIONS_PER_RUN = 20_000;

export interface UpkeepEnv extends Pick<Env, "BOOKS" | "EDGE"> {
  /** Days that raw usage events are kept; the hourly sums stay. */
  readonly USAGE_RETENTION_DAYS?: string;
}

/** Every few minutes: sums closed hours and days, deletes old raw events, and publishes a routing snapshot that was not. */
export async function runScheduled(env: UpkeepEnv, nowMs: number): Promise<void> {
  const days = Number(env.USAGE_RETENTION_DAYS ?? DEFAULT_RETENTION_DAYS);
  const beforeMs = nowMs - (days >= 1 ? days : DEFAULT_RETENTION_DAYS) * DAY_MS;
  await attempt("sum_usage", () => sumHours(env.BOOKS, nowMs, HOURS_PER_RUN));
  await attempt("sum_usage_days", () => sumDays(env.BOOKS, DAYS_PER_RUN));
  await attempt("delete_usage", () => deleteOldUsage(env.BOOKS, beforeMs, DELETIONS_PER_RUN));
  await attempt("publish_routing", () =>
    republish({ kv: env.EDGE, books: env.BOOKS, now: () => nowMs, waitUntil: () => undefined, log }),
  );
}

/** Each job stands alone: one that fails keeps no other from its turn. */
async function attempt(job: string, work: () => Promise<unknown>): Promise<void> {
  try {
    await work();
  } catch (error) {
    log({ event: "upkeep_failed", job, error: String(error) });
  }
}
