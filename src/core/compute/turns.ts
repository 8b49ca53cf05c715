/**
 * Chooses which waiting call the broker sends next: stops first, then launches and other calls. Accounts take turns, so
 * that a busy account does not delay the others.
 */
import type { CallClass } from "./call-budget.ts";

export interface WaitingCall {
  readonly account: number;
  readonly cls: CallClass;
}

const ORDER: readonly CallClass[] = ["stop", "create", "call", "list"];

/**
 * The index of the next call, among those of classes that may be sent now; undefined if there is none. `servedAt`: for
 * each account, the running number of its last call that was sent.
 */
export function nextCall(
  waiting: readonly WaitingCall[],
  maySend: (cls: CallClass) => boolean,
  servedAt: ReadonlyMap<number, number>,
): number | undefined {
  let best: number | undefined;
  for (const [index, call] of waiting.entries()) {
    if (!maySend(call.cls)) continue;
    const chosen = best === undefined ? undefined : waiting[best];
    if (!chosen || isBefore(call, chosen, servedAt)) best = index;
  }
  return best;
}

function isBefore(one: WaitingCall, other: WaitingCall, servedAt: ReadonlyMap<number, number>): boolean {
  const rank = ORDER.indexOf(one.cls) - ORDER.indexOf(other.cls);
  const stops = (one.cls === "stop" || other.cls === "stop") && rank !== 0;
  if (stops) return rank < 0;
  return (servedAt.get(one.account) ?? 0) < (servedAt.get(other.account) ?? 0);
}
