/**
 * The only way to call an account object, which may be slow, restarting, overloaded or unreachable.
 *
 * - `ask`: a question that a client waits for. It has a time limit and fails closed. A stub that threw is broken, so
 *   the retry uses a fresh one. An object that reports overload is not retried.
 * - `askOnce`: the same without a retry, for requests that must not arrive twice.
 * - `askOrRefuse`: `ask`, with the refusal to return when there is no answer.
 * - `tell`: delivers the end of a call. It retries in the background for as long as the platform allows, then uses the
 *   queue.
 *
 * Except with `askOnce`, a request may arrive twice: the object recognises repeats by call id.
 */
import type { FreeCall } from "../core/account/free-calls.ts";
import type { Permission, QueuedEnd } from "../core/account/hold.ts";
import type { AskedAbout } from "../core/account/refused-call.ts";
import type { AccountNumber, CallId } from "../core/ids.ts";
import { type Refused, refused } from "../core/outcome.ts";
import type { NewOwned, OwnedRef } from "../core/owned.ts";
import type { Refusal } from "../core/refusal.ts";
import type { AccountPort, Caller, Ports } from "./ports.ts";
import { inTime, retry, settledWithin } from "./wait.ts";

/** The longest that a client waits for the account object, ms. */
export const LONGEST_ANSWER_MS = 5_000;

/** The object did not answer in time. It may still do what was asked. */
class Unanswered extends Error {
  /** The runtime sets the same flag on errors of an unreachable object. */
  readonly retryable = true;

  constructor() {
    super("the account object did not answer in time");
  }
}

/** The runtime sets this flag on errors of an object with too much to do. */
export const isOverloaded = (error: unknown): boolean =>
  typeof error === "object" && error !== null && (error as { overloaded?: unknown }).overloaded === true;

/** Gives a fresh stub for the account object at each call. */
interface Accounts<Account> {
  account(number: AccountNumber): Account;
}

/** Rejects when the time is over, or with the error of the object or its stub. */
export function ask<Account, Answer>(
  accounts: Accounts<Account>,
  number: AccountNumber,
  question: (account: Account) => Promise<Answer>,
  withinMs = LONGEST_ANSWER_MS,
): Promise<Answer> {
  const again = (error: unknown, tries: number) =>
    tries > 1 || error instanceof Unanswered || isOverloaded(error) ? null : 0;
  return inTime(
    withinMs,
    () => new Unanswered(),
    (late) => retry(() => Promise.race([question(accounts.account(number)), late]), again),
  );
}

/** `ask` without the retry. */
export function askOnce<Account, Answer>(
  accounts: Accounts<Account>,
  number: AccountNumber,
  question: (account: Account) => Promise<Answer>,
  withinMs = LONGEST_ANSWER_MS,
): Promise<Answer> {
  return inTime(
    withinMs,
    () => new Unanswered(),
    (late) => Promise.race([question(accounts.account(number)), late]),
  );
}

/** `call`: the name of the request in the log. */
export async function askOrRefuse<Account, Answer>(
  ports: Accounts<Account> & Pick<Ports, "log">,
  number: AccountNumber,
  call: CallId | null,
  question: (account: Account) => Promise<Answer>,
): Promise<Answer | Refused> {
  try {
    return await ask(ports, number, question);
  } catch (error) {
    ports.log({ event: "admission_failed", ...(call && { call }), error: String(error) });
    return refused({ kind: "admission_unavailable" });
  }
}

/** Checks that the key is live. With `free`, also checks that it may make that free call, and counts the call. */
export const authorize = (
  caller: Caller,
  ports: Pick<Ports, "account" | "log">,
  free?: FreeCall,
  about?: AskedAbout,
): Promise<Permission> =>
  askOrRefuse(ports, caller.number, null, (account) => account.authorize(caller.digest, free, about));

/** The refusal for a call that fails before admission. A dead key comes before any fault in the request. */
export async function refusalTo(
  caller: Caller,
  refusal: Refusal,
  ports: Pick<Ports, "account" | "log">,
  about?: AskedAbout,
): Promise<Refusal> {
  const permission = await authorize(caller, ports, undefined, about);
  return permission.ok ? refusal : permission.refusal;
}

/** Records who owns an id, before the account can see it. Rejects when it cannot: then the bytes must not pass. */
export const recordOwnership = (caller: Caller, owned: NewOwned, ports: Pick<Ports, "account">): Promise<void> =>
  ask(ports, caller.number, (account) => account.recordOwnership(owned));

/** Forgets an id that the service deleted. If that fails, using the id later gets the service's own 404. */
export const forgetOwned = (caller: Caller, ref: OwnedRef, ports: Pick<Ports, "account" | "log">): Promise<void> =>
  ask(ports, caller.number, (account) => account.forgetOwned(ref)).catch((error) =>
    ports.log({ event: "id_not_forgotten", account: caller.account, error: String(error) }),
  );

/** How long to retry the end of a call, ms. The platform stops background work 30 s after the response ends. */
const TOLD_WITHIN_MS = 25_000;
/** At least this much time remains for it after a long drain, ms. */
const LEAST_TOLD_MS = 2_000;
/** Waits between tries, ms. The first is for a broken stub; the last one repeats. */
const PAUSES_MS = [0, 50, 250, 1_000, 4_000] as const;
/** After an overload: how long to wait, ms, and how many tries are allowed at most. */
const OVERLOADED_PAUSE_MS = 4_000;
const OVERLOADED_TRIES = 2;
/** Time limit for the queue, and the wait before its second try, ms. */
const QUEUED_WITHIN_MS = 10_000;
const QUEUE_PAUSE_MS = 500;

/** `sinceMs`: when the platform's limit began to run. Never rejects. */
export async function tell(
  account: AccountNumber,
  end: QueuedEnd["end"],
  sinceMs: number,
  ports: Ports,
): Promise<void> {
  const endedAtMs = ports.now();
  const untilMs = Math.max(sinceMs + TOLD_WITHIN_MS, endedAtMs + LEAST_TOLD_MS);
  const call = end.said.callId;
  let overloads = 0;
  const pauseAfter = (error: unknown, tries: number) => {
    if (isOverloaded(error)) overloads++;
    const pauseMs = isOverloaded(error) ? OVERLOADED_PAUSE_MS : (PAUSES_MS[tries - 1] ?? (PAUSES_MS.at(-1) as number));
    const jitteredMs = pauseMs * (1 + ports.random() / 2);
    const last = overloads >= OVERLOADED_TRIES || ports.now() + jitteredMs >= untilMs;
    ports.log({ event: "settlement_failed", call, error: String(error), last });
    return last ? null : jitteredMs;
  };
  const say = () => tellOnce(ports.account(account), end, untilMs - ports.now());
  await retry(say, pauseAfter).catch(() => queue({ account, endedAtMs, end }, ports));
}

/** Rejects without an answer. A repeat does no harm: the object ends each call only once. */
async function tellOnce(account: AccountPort, end: QueuedEnd["end"], withinMs: number): Promise<void> {
  const told = end.kind === "settle" ? account.settle(end.said) : account.release(end.said);
  if (!(await settledWithin(told, withinMs))) throw new Unanswered();
}

/** The last resort before the hold expires. Never rejects. */
export async function queue(queued: QueuedEnd, ports: Ports): Promise<void> {
  const call = queued.end.said.callId;
  const send = async () => {
    if (!(await settledWithin(ports.queueEnd(queued), QUEUED_WITHIN_MS))) throw new Error("no answer in time");
    ports.log({ event: "settlement_queued", call });
  };
  const pauseAfter = (error: unknown, tries: number) => {
    const last = tries > 1;
    ports.log({ event: last ? "settlement_lost" : "settlement_not_queued", call, error: String(error) });
    return last ? null : QUEUE_PAUSE_MS;
  };
  await retry(send, pauseAfter).catch(() => undefined);
}
