/**
 * The one way to ask an account object, which may be slow, restarting, overloaded or out of reach.
 *
 * `ask`: a question that a client waits for. What is not answered in time is not answered, so money is never let through;
 * a stub that threw is broken, so the retry uses a fresh one. An object that says it is overloaded is left alone.
 * `askOrRefuse`: the same, and the refusal to give where there was no answer. `tell`: the end of a call, repeated in the
 * background for as long as the platform allows, then handed to the queue.
 *
 * What is asked or told may arrive twice: the object answers by call id. `askOnce` is for what does not bear that.
 */
import type { FreeCall } from "../core/account/free-calls.ts";
import type { Permission, QueuedEnd } from "../core/account/hold.ts";
import type { AccountNumber, CallId } from "../core/ids.ts";
import { type Refused, refused } from "../core/outcome.ts";
import type { NewOwned, OwnedRef } from "../core/owned.ts";
import type { Refusal } from "../core/refusal.ts";
import type { AccountPort, Caller, Ports } from "./ports.ts";
import { retry, settledWithin } from "./wait.ts";

/** The longest that a client waits for the account object, ms. */
export const LONGEST_ANSWER_MS = 5_000;

/** The object said nothing in time; what was asked may still happen. */
class Unanswered extends Error {
  /** As the runtime marks errors of an object that could not be reached. */
  readonly retryable = true;

  constructor() {
    super("the account object did not answer in time");
  }
}

/** Set by the runtime on errors of an object that has too much to do. */
export const isOverloaded = (error: unknown): boolean =>
  typeof error === "object" && error !== null && (error as { overloaded?: unknown }).overloaded === true;

/** Where account objects are found; each call gives a fresh stub. */
interface Accounts<Account> {
  account(number: AccountNumber): Account;
}

/** Rejects when the time is over, else with what the object or its stub threw. */
export function ask<Account, Answer>(
  accounts: Accounts<Account>,
  number: AccountNumber,
  question: (account: Account) => Promise<Answer>,
  withinMs = LONGEST_ANSWER_MS,
): Promise<Answer> {
  const again = (error: unknown, tries: number) =>
    tries > 1 || error instanceof Unanswered || isOverloaded(error) ? null : 0;
  return inTime(withinMs, (late) => retry(() => Promise.race([question(accounts.account(number)), late]), again));
}

/** The same without a second try. */
export function askOnce<Account, Answer>(
  accounts: Accounts<Account>,
  number: AccountNumber,
  question: (account: Account) => Promise<Answer>,
): Promise<Answer> {
  return inTime(LONGEST_ANSWER_MS, (late) => Promise.race([question(accounts.account(number)), late]));
}

async function inTime<Answer>(withinMs: number, work: (late: Promise<never>) => Promise<Answer>): Promise<Answer> {
  const late = Promise.withResolvers<never>();
  const timer = setTimeout(() => late.reject(new Unanswered()), withinMs);
  late.promise.catch(() => undefined);
  try {
    return await work(late.promise);
  } finally {
    clearTimeout(timer);
  }
}

/** `call`: names the call in the log. */
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

/** Whether a key is live and, with `free`, may make that call, which costs nothing and is counted. */
export const authorize = (
  caller: Caller,
  ports: Pick<Ports, "account" | "log">,
  free?: FreeCall,
): Promise<Permission> => askOrRefuse(ports, caller.number, null, (account) => account.authorize(caller.digest, free));

/** What to tell of a call that is refused before it is admitted: that its key is dead comes before what is wrong with it. */
export async function refusalTo(caller: Caller, refusal: Refusal, ports: Ports): Promise<Refusal> {
  const permission = await authorize(caller, ports);
  return permission.ok ? refusal : permission.refusal;
}

/** Records an id before the account can see it. Rejects when it cannot be recorded: then its bytes must not pass. */
export const recordOwnership = (caller: Caller, owned: NewOwned, ports: Pick<Ports, "account">): Promise<void> =>
  ask(ports, caller.number, (account) => account.recordOwnership(owned));

/** Forgets an id that the service deleted. Where that cannot be said, the id leads to the service's own 404 from then on. */
export const forgetOwned = (caller: Caller, ref: OwnedRef, ports: Pick<Ports, "account" | "log">): Promise<void> =>
  ask(ports, caller.number, (account) => account.forgetOwned(ref)).catch((error) =>
    ports.log({ event: "id_not_forgotten", account: caller.account, error: String(error) }),
  );

/** How long the object is told an end, ms. The platform stops background work 30 s after an answer or its client is gone. */
const TOLD_WITHIN_MS = 25_000;
/** What is left for that after a long drain, ms. */
const LEAST_TOLD_MS = 2_000;
/** Waits between tries, ms: the first is for a broken stub, the last is repeated. */
const PAUSES_MS = [0, 50, 250, 1_000, 4_000] as const;
/** An object that says it is overloaded is left alone this long, ms, and is asked this often at most. */
const OVERLOADED_PAUSE_MS = 4_000;
const OVERLOADED_TRIES = 2;
/** The queue's own time, and the wait before its second try, ms. */
const QUEUED_WITHIN_MS = 10_000;
const QUEUE_PAUSE_MS = 500;

/** `sinceMs`: since when the platform counts. Never rejects. */
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

/** Rejects where it was not answered: what was said may be slow in coming, and a repeat does no harm. */
async function tellOnce(account: AccountPort, end: QueuedEnd["end"], withinMs: number): Promise<void> {
  const told = end.kind === "settle" ? account.settle(end.said) : account.release(end.said);
  if (!(await settledWithin(told, withinMs))) throw new Unanswered();
}

/** The last resort but the hold's expiry. Never rejects. */
async function queue(queued: QueuedEnd, ports: Ports): Promise<void> {
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
