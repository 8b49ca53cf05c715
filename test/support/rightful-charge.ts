/**
 * What a tenant rightfully owes for a machine, by the rules of billing alone: from what really ran, what was asked for,
 * and what upstream's answers showed when. It knows nothing of the gateway's code or books.
 */

/** What ran, by the service's own record. */
export interface Ran {
  /** The service's state in the end; `lost` is gone without a trace. */
  readonly state: string;
  readonly started_ms: number | null;
  readonly ended_ms: number | null;
  readonly runs: readonly { readonly from_ms: number; readonly to_ms: number | null }[];
}

/** A status that an answer of the service showed. */
export interface Look {
  readonly atMs: number;
  readonly status: string;
}

export interface Bought {
  readonly priceNanoUsd: number;
  readonly hourMs: number;
  /** Of a fixed run, with what it was extended by; null: by the hour. */
  readonly hours: number | null;
}

/** How it ended, as tenant and operator know it. */
export interface Ending {
  /** When its end was first asked for and not refused. */
  readonly askedMs: number | null;
  /** When its money had run out, by the first stop that was sent for it: at most this much later. */
  readonly depleted: { readonly stopSentMs: number; readonly lateMs: number } | null;
}

/** Both ends included; equal where nothing is rounded. */
export interface Rightful {
  readonly leastNanoUsd: number;
  readonly mostNanoUsd: number;
}

interface Span {
  readonly fromMs: number;
  readonly toMs: number;
}

const RUNS: ReadonlySet<string> = new Set(["running", "degraded"]);

/** `periods`: how many charges it came to; each may be rounded up by less than a nano-USD. */
export function rightfulCharge(
  ran: Ran,
  looks: readonly Look[],
  bought: Bought,
  ending: Ending,
  periods: number,
): Rightful {
  const spans = chargedSpans(ran, looks);
  const askedMs = ending.askedMs ?? Number.POSITIVE_INFINITY;
  const depletedMs = ending.depleted?.stopSentMs ?? Number.POSITIVE_INFINITY;
  const mostMs = length(spans, Math.min(askedMs, depletedMs), bought);
  const leastMs = length(spans, Math.min(askedMs, depletedMs - (ending.depleted?.lateMs ?? 0)), bought);
  const exact = (ms: number) => BigInt(bought.priceNanoUsd) * BigInt(ms);
  const hour = BigInt(bought.hourMs);
  const rounded = exact(mostMs) % hour === 0n && bought.priceNanoUsd % bought.hourMs === 0 ? 0 : periods;
  return {
    leastNanoUsd: Number(exact(leastMs) / hour),
    mostNanoUsd: Number(exact(mostMs) / hour) + rounded,
  };
}

function length(spans: readonly Span[], untilMs: number, { hours, hourMs }: Bought): number {
  const ms = spans.reduce((sum, { fromMs, toMs }) => sum + Math.max(0, Math.min(toMs, untilMs) - fromMs), 0);
  return hours === null ? ms : Math.min(ms, hours * hourMs);
}

/**
 * The time that is charged if nobody asks for an end: from its start to its end, and not while it was seen preempted,
 * from the last look that showed it running to the first that shows it again. What vanished is charged to that look.
 */
function chargedSpans(ran: Ran, looks: readonly Look[]): Span[] {
  const first = ran.runs[0];
  if (ran.started_ms === null || !first) return [];
  const spans: Span[] = [];
  let fromMs: number | null = first.from_ms;
  let lastMs: number | null = null;
  for (const { atMs, status } of looks) {
    if (atMs < first.from_ms) continue;
    if (status === "preempted") {
      if (fromMs !== null) spans.push({ fromMs, toMs: Math.max(fromMs, lastMs ?? fromMs) });
      fromMs = null;
    } else if (RUNS.has(status)) {
      fromMs ??= atMs;
      lastMs = atMs;
    } else if (status === "pending" && lastMs !== null && fromMs !== null) {
      lastMs = atMs;
    }
  }
  if (fromMs === null) return spans;
  if (ran.state !== "lost") return [...spans, { fromMs, toMs: ran.ended_ms ?? Number.MAX_SAFE_INTEGER }];
  // Nobody ever saw that it ran.
  return lastMs === null ? spans : [...spans, { fromMs, toMs: Math.max(fromMs, lastMs) }];
}
