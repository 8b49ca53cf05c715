/**
 * Asks the route's targets until one answers. `core/routing/target-selection.ts` decides which target is next,
 * `core/routing/failure.ts` what a failure means and what the caller gets at the end. `attempt.ts` makes one try.
 *
 * Once the client has left, no further target is asked. The call's lifetime decides whether a running try is finished
 * or cancelled. A call that reached no target costs nothing.
 */

import { MOST_TRIES } from "../core/account/call-trace.ts";
import type { LostTries, ServedBy } from "../core/account/hold.ts";
import type { AnswerReader } from "../core/meters/meter.ts";
import type { Refusal } from "../core/refusal.ts";
import { judge, judgeCoded, lastRefusal, type RetryClass, waitOf } from "../core/routing/failure.ts";
import type { Target } from "../core/routing/routes.ts";
import { Search, type Step } from "../core/routing/target-selection.ts";
import { type Attempt, attempt, pseudonymise, type Sending, type Served } from "./attempt.ts";
import type { ParsedCall } from "./call.ts";
import type { Ports } from "./ports.ts";

/**
 * `abandoned`: the client left while a target was at work; the reader knows what it may have used. `left`: it left
 * while nothing was under way. `lostTries` excludes the try that served or was abandoned.
 */
export type Forwarded = { readonly lostTries: LostTries } & (
  | { kind: "served"; served: Served }
  | { kind: "refused"; refusal: Refusal; servedBy: ServedBy | null }
  | { kind: "abandoned"; servedBy: ServedBy; reader: AnswerReader }
  | { kind: "left"; servedBy: ServedBy | null }
);

/** Who waits for the answer. */
export interface Waiting {
  /** Aborts when the upstream request is to be cancelled. */
  readonly signal: AbortSignal;
  /** The client has left; the upstream may be read on for a while. */
  readonly gone: boolean;
  /** The gateway ended the call while its client waits: it ran too long, or its hold has ended. */
  readonly cut?: boolean;
}

/** The result of the tries so far. */
interface Progress {
  lostTries: LostTries;
  /** The shortest wait that a target asked for, ms. */
  retryAfterMs: number | null;
  last: Extract<Attempt, { ok: false }> | null;
}

export async function forward(parsed: ParsedCall, sending: Sending, client: Waiting, ports: Ports): Promise<Forwarded> {
  const { endpoint } = parsed;
  const { route } = sending;
  const pseudonyms = await pseudonymise(parsed, ports);
  const search = new Search(route.targets, ports.upstreams.health, () => ports.random(), ports.now());
  const progress: Progress = { lostTries: 0, retryAfterMs: null, last: null };
  let step = search.first(ports.now());
  while (step.kind === "ask") {
    await pause(step.waitMs, client.signal);
    if (client.cut) {
      search.abandoned();
      return cutOff(endpoint.retry, progress.lostTries, progress.last?.servedBy ?? null);
    }
    if (client.gone || client.signal.aborted) {
      search.abandoned();
      return { kind: "left", lostTries: progress.lostTries, servedBy: progress.last?.servedBy ?? null };
    }
    const sinceMs = ports.now();
    const tried = await attempt(
      parsed,
      sending,
      step.target,
      isCareful(step, endpoint.retry),
      pseudonyms,
      client.signal,
      ports,
    );
    note(parsed, step.target, tried, ports.now() - sinceMs);
    if (tried.ok) {
      search.answered(ports.now());
      return { kind: "served", served: tried.served, lostTries: progress.lostTries };
    }
    const { failure, servedBy } = tried;
    const judged = judge(failure, endpoint.retry, route.retryOn);
    const verdict = endpoint.readCode ? judgeCoded(judged, failure, tried.words?.coded ?? false) : judged;
    if (client.signal.aborted && failure.kind !== "status") {
      // We cancelled the request, so the broken connection says nothing about the target.
      search.abandoned();
      if (client.cut) {
        const lostTries = progress.lostTries + (verdict.executed === "unknown" ? 1 : 0);
        return cutOff(endpoint.retry, lostTries, servedBy);
      }
      return verdict.executed === "unknown"
        ? { kind: "abandoned", servedBy, reader: tried.reader, lostTries: progress.lostTries }
        : { kind: "left", servedBy, lostTries: progress.lostTries };
    }
    search.failed(failure, verdict, ports.now());
    if (verdict.executed === "unknown") progress.lostTries += 1;
    report(parsed, tried, verdict.operators && !tried.words, ports);
    if (tried.words && !tried.words.passedOver)
      return { kind: "refused", refusal: tried.words.refusal, lostTries: progress.lostTries, servedBy };
    progress.last = tried;
    progress.retryAfterMs = shorter(progress.retryAfterMs, waitOf(failure));
    if (!verdict.next) break;
    step = search.next(failure, ports.now());
  }
  return refused(progress, step, endpoint.retry);
}

/** Adds a try to the record of the call. */
function note({ tries }: ParsedCall, { upstream, model }: Target, tried: Attempt, ms: number): void {
  if (tries.length < MOST_TRIES) tries.push({ upstream, model, result: resultOf(tried), ms });
}

function resultOf(tried: Attempt): string {
  if (tried.ok) return "answered";
  return tried.failure.kind === "status" ? `status_${tried.failure.status}` : tried.failure.kind;
}

/** The call ran out of time without an answer: it failed. */
function cutOff(retry: RetryClass, lostTries: LostTries, servedBy: ServedBy | null): Forwarded {
  const refusal = lastRefusal({ kind: "answer_timeout" }, lostTries === 0 ? "no" : "unknown", retry);
  return { kind: "refused", refusal, lostTries, servedBy };
}

/** The refusal when no target remains. */
function refused({ lostTries, retryAfterMs, last }: Progress, step: Step, retry: RetryClass): Forwarded {
  const dueMs = step.kind === "none" ? step.retryAfterMs : null;
  if (!last) {
    const refusal: Refusal = { kind: "no_healthy_upstream", retryAfterMs: dueMs };
    return { kind: "refused", refusal, lostTries, servedBy: null };
  }
  const executed = lostTries === 0 ? "no" : "unknown";
  const refusal = last.words?.refusal ?? lastRefusal(last.failure, executed, retry, retryAfterMs ?? dueMs);
  return { kind: "refused", refusal, lostTries, servedBy: last.servedBy };
}

/**
 * Whether to hold back part of the body until the connection stands: for a target that was unreachable lately, and
 * where a refused connection must be told from a lost one, unless the target answers anyway.
 */
const isCareful = (step: Step & { kind: "ask" }, retry: RetryClass): boolean =>
  step.suspect || (retry !== "safe" && !step.answersNow);

const shorter = (a: number | null, b: number | null): number | null =>
  a === null || b === null ? (a ?? b) : Math.min(a, b);

/** Ends early when the call is cancelled. */
async function pause(ms: number, signal: AbortSignal): Promise<void> {
  if (ms <= 0 || signal.aborted) return;
  const { promise, resolve } = Promise.withResolvers<void>();
  const timer = setTimeout(resolve, ms);
  signal.addEventListener("abort", () => resolve(), { once: true });
  await promise;
  clearTimeout(timer);
}

function report(
  { callId }: ParsedCall,
  tried: Extract<Attempt, { ok: false }>,
  operators: boolean,
  ports: Ports,
): void {
  const { failure, servedBy } = tried;
  ports.log({
    event: operators ? "upstream_refuses_operator" : "upstream_failed",
    call: callId,
    upstream: servedBy.upstream,
    model: servedBy.model,
    failure: failure.kind,
    status: failure.kind === "status" ? failure.status : null,
  });
}
