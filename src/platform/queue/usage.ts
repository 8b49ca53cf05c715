/**
 * Usage on its way to D1: the queue's consumer (outbox, queue, D1) and the scheduled upkeep. The folder must not know
 * how usage was metered or charged.
 *
 * A message is written whole and acknowledged; then its events are confirmed to the account's object, which drops them
 * from its outbox. Every step may be lost or repeated: an event id counts once in D1, and an object without a
 * confirmation sends again. A message that cannot be parsed or written is retried, then goes to the dead-letter queue
 * for the operator. It does not block others.
 *
 * Nor does a single bad event: its message is retried (the sender may be newer, or D1 may be failing), then the event
 * is set aside in a table of its own and confirmed, so that the account stops sending it. Ends of calls from the same
 * queue go to their objects (queued-ends.ts).
 */
import { CHANGES_KEPT_DAYS } from "../../core/account/change-record.ts";
import type { UsageEvent } from "../../core/account/hold.ts";
import type { RefusedBatch } from "../../core/account/refused-call.ts";
import { type AccountNumber, asId, type CallId } from "../../core/ids.ts";
import { accountObject } from "../account/stub.ts";
import { archiveCalls } from "../archive/call-writer.ts";
import { pruneChanges } from "../d1/changes.ts";
import { rollUpDurations } from "../d1/histograms.ts";
import { pruneCalls } from "../d1/idempotent-calls.ts";
import { indexOlder } from "../d1/key-index.ts";
import { pruneRefused, writeRefused } from "../d1/refused-calls.ts";
import { sumDays } from "../d1/usage-days.ts";
import { writeUsage } from "../d1/usage-events.ts";
import { sumHours } from "../d1/usage-hours.ts";
import { retainUsage } from "../d1/usage-retention.ts";
import { type SetAside, setAside } from "../d1/usage-set-aside.ts";
import { republish } from "../edge/routing-cache.ts";
import { memory } from "../isolate.ts";
import { log } from "../log.ts";
import { type AlertBindings, raise } from "../webhooks/raise.ts";
import { keepDeliveries, tellBooksSize, tellUpstreams } from "../webhooks/upkeep.ts";
import { type EndMessage, tellEnds } from "./queued-ends.ts";
import { type ReadEvents, readMessage } from "./usage-messages.ts";

type Bindings = AlertBindings & Pick<Env, "ACCOUNTS">;

/** Messages written in one transaction. */
const MESSAGES_PER_WRITE = 20;
/** On this attempt, events that cannot be written are set aside. */
const LAST_ATTEMPT = 5;
/** Wait before a message is retried, seconds: doubled each time, up to an hour. */
const FIRST_WAIT_S = 10;
const LONGEST_WAIT_S = 3_600;

interface EventsMessage {
  readonly message: Message;
  readonly content: ReadEvents;
}

export async function consumeUsage(batch: MessageBatch, env: Bindings): Promise<void> {
  const events: EventsMessage[] = [];
  const ends: EndMessage[] = [];
  const refused: RefusedMessages = [];
  for (const message of batch.messages) {
    const read = readMessage(message.body);
    if (read.kind === "events") events.push({ message, content: read.content });
    else if (read.kind === "refused") refused.push({ message, content: read.content });
    else if (read.kind === "end") ends.push({ message, content: read.content });
    else {
      log({ event: "usage_message_unreadable", message: message.id, field: read.field });
      retry(message);
    }
  }
  await Promise.all([writeEvents(env, events), tellEnds(env, ends), writeRefusals(env, refused)]);
}

type RefusedMessages = { readonly message: Message; readonly content: RefusedBatch }[];

/** All in one transaction; if that fails, each comes again by itself. */
async function writeRefusals({ BOOKS }: Bindings, messages: RefusedMessages): Promise<void> {
  if (messages.length === 0) return;
  try {
    await writeRefused(
      BOOKS,
      messages.map(({ content }) => content),
      Date.now(),
    );
    for (const { message } of messages) message.ack();
  } catch (error) {
    log({ event: "refusals_not_written", messages: messages.length, error: String(error) });
    for (const { message } of messages) retry(message);
  }
}

/** Events that are done, per account; the account's object still needs the confirmation. */
type Taken = Map<AccountNumber, CallId[]>;

async function writeEvents(env: Bindings, messages: readonly EventsMessage[]): Promise<void> {
  for (let start = 0; start < messages.length; start += MESSAGES_PER_WRITE) {
    const taken: Taken = new Map();
    await writeTogether(env, messages.slice(start, start + MESSAGES_PER_WRITE), taken);
    // A lost confirmation costs one repetition: the object sends again, and the ids are known here.
    await Promise.allSettled(
      [...taken].map(([account, ids]) => (accountObject(env, account) as unknown as Confirmed).shipped(ids)),
    );
  }
}

/**
 * Writes all messages in one transaction. If that fails, writes each by itself, so that one bad message does not affect
 * the others.
 */
async function writeTogether(env: Bindings, part: readonly EventsMessage[], taken: Taken): Promise<void> {
  try {
    const keptFromMs = await writeUsage(
      env.BOOKS,
      part.map(({ content }) => content),
    );
    await raiseAll(env, part);
    for (const one of part) await finish(env, one, [], keptFromMs, taken);
  } catch (error) {
    const [only, ...others] = part;
    if (others.length === 0 && only) await writeSingly(env, only, error, taken);
    else for (const one of part) await writeTogether(env, [one], taken);
  }
}

const raiseAll = (env: Bindings, part: readonly EventsMessage[]): Promise<void> =>
  raise(
    env,
    part.flatMap(({ content }) => content.alerts),
    Date.now(),
  );

/** Splits one message's events into ever smaller parts to find those that cannot be written. */
async function writeSingly(env: Bindings, one: EventsMessage, error: unknown, taken: Taken): Promise<void> {
  const { message, content } = one;
  log({ event: "usage_not_written", message: message.id, error: String(error) });
  try {
    // If D1 itself does not answer, no event is at fault.
    await env.BOOKS.prepare("select 1").run();
    const refused: SetAside[] = [];
    const keptFromMs = await writeParts(env, content, content.events, refused);
    await raiseAll(env, [one]);
    await finish(env, one, refused, keptFromMs, taken);
  } catch {
    retry(message);
  }
}

/** Returns the time before which events are not written. */
async function writeParts(
  env: Bindings,
  content: ReadEvents,
  events: readonly UsageEvent[],
  refused: SetAside[],
): Promise<number> {
  try {
    return await writeUsage(env.BOOKS, [{ account: content.account, events }]);
  } catch (error) {
    const [event, second] = events;
    if (event && !second) {
      refused.push({ account: content.account, eventId: event.eventId, problem: String(error), event });
      return 0;
    }
    const middle = Math.ceil(events.length / 2);
    const first = await writeParts(env, content, events.slice(0, middle), refused);
    return Math.max(first, await writeParts(env, content, events.slice(middle), refused));
  }
}

/** `keptFromMs`: events that ended before it were not written. `refused`: events that D1 rejected. */
async function finish(
  env: Bindings,
  { message, content }: EventsMessage,
  refused: readonly SetAside[],
  keptFromMs: number,
  taken: Taken,
): Promise<void> {
  const { account } = content;
  const ids = new Set(content.events.map(({ eventId }) => eventId));
  for (const { id } of content.alerts) ids.add(asId<CallId>(id));
  for (const { eventId } of refused) ids.delete(eventId as CallId);
  const problems = [...content.unreadable, ...refused];
  for (const event of content.events) {
    if (event.endedAtMs >= keptFromMs || !ids.delete(event.eventId)) continue;
    problems.push({ account, eventId: event.eventId, problem: "older than the events that are kept", event });
  }
  for (const { eventId, problem } of problems) {
    log({ event: "usage_event_not_taken", message: message.id, account, call: eventId, problem });
  }
  if (problems.length === 0) message.ack();
  else if (message.attempts < LAST_ATTEMPT) retry(message);
  else {
    await setAside(env.BOOKS, problems, Date.now());
    for (const { eventId } of problems) ids.add(eventId as CallId);
    message.ack();
  }
  taken.set(account, [...(taken.get(account) ?? []), ...ids]);
}

function retry(message: Message): void {
  const delaySeconds = Math.min(FIRST_WAIT_S * 2 ** Math.max(0, message.attempts - 1), LONGEST_WAIT_S);
  message.retry({ delaySeconds });
}

/** What is used of the account object here. */
interface Confirmed {
  shipped(eventIds: readonly UsageEvent["eventId"][]): Promise<void>;
}

const DAY_MS = 24 * 60 * 60_000;
const DEFAULT_RETENTION_DAYS = 30;
const DEFAULT_RETENTION_GB = 5;
const GB = 1_000_000_000;
/** Hours summed in one scheduled run, so that it ends within its time; the next run continues. */
const HOURS_PER_RUN = 100;
const DAYS_PER_RUN = 10;
const DELETIONS_PER_RUN = 20_000;
/** Pages of accounts' keys that were there before the index. */
const PAGES_PER_RUN = 20;

export interface UpkeepEnv extends AlertBindings, Pick<Env, "EDGE" | "ACCOUNTS" | "ARCHIVE"> {
  /** Days that raw usage events are kept, and the size of D1 above which the oldest go; the sums stay. */
  readonly USAGE_RETENTION_DAYS?: string;
  readonly USAGE_RETENTION_GB?: string;
}

/**
 * Every few minutes: sums closed hours and days, deletes old raw events, and publishes a routing snapshot that is
 * overdue.
 */
export async function runScheduled(env: UpkeepEnv, nowMs: number): Promise<void> {
  const days = Number(env.USAGE_RETENTION_DAYS ?? DEFAULT_RETENTION_DAYS);
  const beforeMs = nowMs - (days >= 1 ? days : DEFAULT_RETENTION_DAYS) * DAY_MS;
  const mostBytes = (Number(env.USAGE_RETENTION_GB) || DEFAULT_RETENTION_GB) * GB;
  await attempt("sum_usage", () => sumHours(env.BOOKS, nowMs, HOURS_PER_RUN));
  await attempt("sum_usage_days", () => sumDays(env.BOOKS, DAYS_PER_RUN));
  await attempt("roll_up_durations", () => rollUpDurations(env.BOOKS, nowMs, HOURS_PER_RUN));
  const { ARCHIVE } = env;
  if (ARCHIVE) await attempt("archive_usage", () => archiveCalls(env, ARCHIVE, nowMs));
  await attempt("delete_usage", async () => {
    const { bytes, shortenedToMs } = await retainUsage(env.BOOKS, {
      beforeMs,
      mostBytes,
      archives: ARCHIVE !== undefined,
    });
    if (shortenedToMs !== null) log({ event: "usage_shortened", to: new Date(shortenedToMs).toISOString(), bytes });
    memory.booksWatch.look({ store: "d1" }, bytes, nowMs);
    await tellBooksSize(env, bytes, nowMs);
  });
  await attempt("prune_refused", () => pruneRefused(env.BOOKS, { beforeMs, nowMs, atOnce: DELETIONS_PER_RUN }));
  await attempt("index_keys", () => indexOlder(env.BOOKS, (number) => accountObject(env, number), PAGES_PER_RUN));
  await attempt("tell_upstreams", () => tellUpstreams(env, nowMs));
  await attempt("deliveries", () => keepDeliveries(env, nowMs));
  await attempt("prune_calls", () => pruneCalls(env.BOOKS, nowMs, DELETIONS_PER_RUN));
  await attempt("prune_changes", () => pruneChanges(env.BOOKS, nowMs - CHANGES_KEPT_DAYS * DAY_MS, DELETIONS_PER_RUN));
  await attempt("publish_routing", () =>
    republish({ kv: env.EDGE, books: env.BOOKS, now: () => nowMs, waitUntil: () => undefined, log }),
  );
}

/** A job that fails does not stop the others. */
async function attempt(job: string, work: () => Promise<unknown>): Promise<void> {
  try {
    await work();
  } catch (error) {
    log({ event: "upkeep_failed", job, error: String(error) });
  }
}
