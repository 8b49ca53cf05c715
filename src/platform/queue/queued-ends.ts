/**
 * Ends of calls that their account object could not be told when they came: told now, by way of the queue. The object
 * answers each call id once and for all, so that one that is delivered twice, or that got through before, is harmless.
 */
import { QUEUED_END_LIFE_MS, type QueuedEnd, type Release, type Settlement } from "../../core/account/hold.ts";
import { accountObject } from "../account/stub.ts";
import { log } from "../log.ts";

export interface EndMessage {
  readonly message: Message;
  readonly content: QueuedEnd;
}

/** Waits before an end is told again: 5 s, then three times as long each time, so that ten tries span a day. */
const FIRST_WAIT_S = 5;
const LONGEST_WAIT_S = 12 * 3_600;
const waitSeconds = (attempts: number): number =>
  Math.min(FIRST_WAIT_S * 3 ** Math.max(0, attempts - 1), LONGEST_WAIT_S);

/** Accounts side by side; of one account one end after the other, and none after one that did not get through. */
export async function tellEnds(env: Pick<Env, "ACCOUNTS">, ends: readonly EndMessage[]): Promise<void> {
  const byAccount = Map.groupBy(ends, ({ content }) => content.account);
  await Promise.all([...byAccount.values()].map((own) => tellInTurn(env, own)));
}

async function tellInTurn(env: Pick<Env, "ACCOUNTS">, ends: readonly EndMessage[]): Promise<void> {
  let reached = true;
  for (const { message, content } of ends) {
    const call = content.end.said.callId;
    if (Date.now() - content.endedAtMs > QUEUED_END_LIFE_MS) {
      // The expiry of its hold has booked the call.
      log({ event: "queued_end_dropped", account: content.account, call, kind: content.end.kind });
      message.ack();
      continue;
    }
    try {
      if (reached) await tell(env, content);
    } catch (error) {
      reached = false;
      log({ event: "queued_end_not_told", account: content.account, call, error: String(error) });
    }
    if (reached) message.ack();
    else message.retry({ delaySeconds: waitSeconds(message.attempts) });
  }
}

/** The account object's ear for ends. */
interface Told {
  settle(settlement: Settlement): Promise<unknown>;
  release(released: Release): Promise<unknown>;
}

async function tell(env: Pick<Env, "ACCOUNTS">, { account, end }: QueuedEnd): Promise<void> {
  const object = accountObject(env, account) as unknown as Told;
  if (end.kind === "settle") await object.settle(end.said);
  else await object.release(end.said);
}
