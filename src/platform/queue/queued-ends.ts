/**
 * Settlements and releases that could not reach their account object during the call, delivered through the queue. The
 * object records one end per call id, so an end that is delivered twice, or had arrived before, does no harm.
 */
import { QUEUED_END_LIFE_MS, type QueuedEnd, type Release, type Settlement } from "../../core/account/hold.ts";
import type { LeaseReport } from "../../core/account/lease.ts";
import { accountObject } from "../account/stub.ts";
import { log } from "../log.ts";

export interface EndMessage {
  readonly message: Message;
  readonly content: QueuedEnd;
}

/** Wait before the next try: 5 s, then three times as long each time, so that ten tries span a day. */
const FIRST_WAIT_S = 5;
const LONGEST_WAIT_S = 12 * 3_600;
const waitSeconds = (attempts: number): number =>
  Math.min(FIRST_WAIT_S * 3 ** Math.max(0, attempts - 1), LONGEST_WAIT_S);

/** Accounts in parallel. The ends of one account go one by one, and stop after the first that fails. */
export async function tellEnds(env: Pick<Env, "ACCOUNTS">, ends: readonly EndMessage[]): Promise<void> {
  const byAccount = Map.groupBy(ends, ({ content }) => content.account);
  await Promise.all([...byAccount.values()].map((own) => deliverInOrder(env, own)));
}

async function deliverInOrder(env: Pick<Env, "ACCOUNTS">, ends: readonly EndMessage[]): Promise<void> {
  let reached = true;
  for (const { message, content } of ends) {
    const call = content.end.said.callId;
    if (Date.now() - content.endedAtMs > QUEUED_END_LIFE_MS) {
      // The hold has expired, and the expiry has recorded the call.
      log({ event: "queued_end_dropped", account: content.account, call, kind: content.end.kind });
      message.ack();
      continue;
    }
    try {
      if (reached) await deliver(env, content);
    } catch (error) {
      reached = false;
      log({ event: "queued_end_not_told", account: content.account, call, error: String(error) });
    }
    if (reached) message.ack();
    else message.retry({ delaySeconds: waitSeconds(message.attempts) });
  }
}

/** What is used of the account object here. */
interface EndReceiver {
  settle(settlement: Settlement): Promise<unknown>;
  release(released: Release): Promise<unknown>;
  report(said: LeaseReport): Promise<unknown>;
}

async function deliver(env: Pick<Env, "ACCOUNTS">, { account, end, leased }: QueuedEnd): Promise<void> {
  const object = accountObject(env, account) as unknown as EndReceiver;
  if (leased) await object.report({ calls: [{ call: leased, end }], over: [], asks: [] });
  else if (end.kind === "settle") await object.settle(end.said);
  else await object.release(end.said);
}
