/**
 * How many control calls a broker may send to its upstream account now.
 *
 * The service allows 60 calls a minute. Of the 55 that we use in any stretch of 60 s, 15 are kept for stops, because a
 * machine that nobody pays for must be stopped whatever else goes on, and lists take at most 24. Stops leave 6 to
 * lists: without a list no end is ever seen, and each stop is repeated for ever. Launches have a limit of their own.
 * The log of what was sent is durable, so the budget is exact over restarts of the broker.
 */

/**
 * `stop`: ends something or deletes it. `create`: a launch. `list`: the broker's own reading. `call`: everything else.
 */
export type CallClass = "stop" | "create" | "call" | "list";

export interface SentCall {
  readonly atMs: number;
  readonly cls: CallClass;
}

export const BUDGET_SPAN_MS = 60_000;
const MOST_CALLS = 55;
const KEPT_FOR_STOPS = 15;
const MOST_LISTS = 24;
const KEPT_FOR_LISTS = 6;
const MOST_LAUNCHES = 10;

interface Rule {
  readonly counts: (cls: CallClass) => boolean;
  readonly most: number;
}
const ALL: Rule = { counts: () => true, most: MOST_CALLS };
const UNRESERVED: Rule = { counts: () => true, most: MOST_CALLS - KEPT_FOR_STOPS };
const STOPS: Rule = { counts: (cls) => cls === "stop", most: MOST_CALLS - KEPT_FOR_LISTS };
const OTHERS: Rule = { counts: (cls) => cls !== "stop", most: MOST_CALLS - KEPT_FOR_STOPS };
const LISTS: Rule = { counts: (cls) => cls === "list", most: MOST_LISTS };
const LAUNCHES: Rule = { counts: (cls) => cls === "create", most: MOST_LAUNCHES };

const RULES: Record<CallClass, readonly Rule[]> = {
  stop: [ALL, STOPS],
  call: [UNRESERVED],
  create: [UNRESERVED, LAUNCHES],
  list: [ALL, OTHERS, LISTS],
};

/**
 * Milliseconds until a call of this class may be sent; 0: now. `sent` is in order of time and may hold calls that are
 * too old to count. A call whose time lies in the future (the clock was set back) counts as sent now.
 */
export function waitForCall(sent: readonly SentCall[], cls: CallClass, nowMs: number): number {
  return Math.max(...RULES[cls].map((rule) => waitFor(sent, rule, nowMs)));
}

function waitFor(sent: readonly SentCall[], { counts, most }: Rule, nowMs: number): number {
  const times = sent
    .filter((call) => counts(call.cls))
    .map((call) => Math.min(call.atMs, nowMs))
    .filter((atMs) => atMs > nowMs - BUDGET_SPAN_MS);
  if (times.length < most) return 0;
  // There is room again once the oldest of the newest `most` calls is a span old.
  const frees = times[times.length - most] ?? nowMs;
  return frees + BUDGET_SPAN_MS - nowMs;
}

/** Calls of the last span, by class: for the operator's view. */
export function callsOfSpan(sent: readonly SentCall[], nowMs: number): Record<CallClass, number> {
  const counted: Record<CallClass, number> = { stop: 0, create: 0, call: 0, list: 0 };
  for (const { atMs, cls } of sent) if (Math.min(atMs, nowMs) > nowMs - BUDGET_SPAN_MS) counted[cls] += 1;
  return counted;
}
