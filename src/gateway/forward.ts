/**
 * Asks the route's targets in order until one answers. Which failure allows the next one is `core/failure.ts`'s word.
 *
 * A JSON answer counts only once it is whole and understood, so that a target that breaks off half-way can still be
 * passed over. A stream counts from its 200 on: after that there is no second target.
 */
import type { Call, Endpoint } from "../core/endpoints/endpoint.ts";
import { encodePayload } from "../core/endpoints/payload.ts";
import { type Executed, type Failure, judge, lastRefusal, passesWords } from "../core/failure.ts";
import type { Hold, ServedBy } from "../core/hold.ts";
import { toHex } from "../core/key.ts";
import type { AnswerReader, EventReader } from "../core/meters/meter.ts";
import type { Refusal } from "../core/refusal.ts";
import type { Route, RoutingSnapshot, Target } from "../core/routes.ts";
import { orderTargets } from "../core/targets.ts";
import { readUpstream } from "./body.ts";
import type { Caller, Ports, UpstreamAnswer } from "./ports.ts";

/** What one client call has become by the time it is forwarded. */
export interface AdmittedCall {
  readonly call: Call;
  readonly endpoint: Endpoint;
  readonly caller: Caller;
  readonly route: Route;
  readonly routing: RoutingSnapshot;
  readonly hold: Hold;
  readonly startedAtMs: number;
}

type Answered = UpstreamAnswer & { kind: "answer" };

/** A target's answer, ready to be relayed. */
export type Served = { readonly servedBy: ServedBy; readonly target: Target } & (
  | { readonly kind: "json"; readonly bytes: Uint8Array<ArrayBuffer>; readonly reader: AnswerReader }
  | { readonly kind: "events"; readonly answer: Answered; readonly reader: EventReader }
);

/** `abandoned`: the client left while a target was at work; what it may have used is the reader's to say. */
export type Forwarded =
  | { kind: "served"; served: Served }
  | { kind: "refused"; refusal: Refusal; executed: Executed; servedBy: ServedBy | null }
  | { kind: "abandoned"; servedBy: ServedBy; target: Target; reader: AnswerReader };

type Attempt =
  | { ok: true; served: Served }
  | { ok: false; failure: Failure; refusal: Refusal | null; servedBy: ServedBy; reader: AnswerReader };

export async function forward(admitted: AdmittedCall, signal: AbortSignal, ports: Ports): Promise<Forwarded> {
  const { endpoint, route } = admitted;
  const pseudonyms = await pseudonymise(admitted, ports);
  let executed: Executed = "no";
  let retryAfterMs: number | null = null;
  let last: { failure: Failure; servedBy: ServedBy } | undefined;
  for (const target of orderTargets(route.targets, () => ports.random())) {
    const attempt = await tryTarget(admitted, target, pseudonyms, signal, ports);
    if (attempt.ok) return { kind: "served", served: attempt.served };
    const { failure, servedBy } = attempt;
    if (signal.aborted) return { kind: "abandoned", servedBy, target, reader: attempt.reader };
    const verdict = judge(failure, endpoint.retry, route.retryOn);
    if (verdict.executed === "unknown") executed = "unknown";
    report(admitted, servedBy, failure, verdict.operators, ports);
    if (attempt.refusal) return { kind: "refused", refusal: attempt.refusal, executed, servedBy };
    last = { failure, servedBy };
    if (failure.kind === "status" && failure.retryAfterMs !== null) {
      retryAfterMs = Math.min(retryAfterMs ?? Number.POSITIVE_INFINITY, failure.retryAfterMs);
    }
    if (!verdict.next) break;
  }
  if (!last)
    return { kind: "refused", refusal: { kind: "no_healthy_upstream", retryAfterMs: null }, executed, servedBy: null };
  const failure = last.failure.kind === "status" ? { ...last.failure, retryAfterMs } : last.failure;
  return {
    kind: "refused",
    refusal: lastRefusal(failure, executed, endpoint.retry),
    executed,
    servedBy: last.servedBy,
  };
}

async function tryTarget(
  admitted: AdmittedCall,
  target: Target,
  pseudonyms: Readonly<Record<string, string>>,
  signal: AbortSignal,
  ports: Ports,
): Promise<Attempt> {
  const { call, endpoint, hold, route, routing } = admitted;
  const reader = call.reader({ row: route.row, outputCap: hold.outputCap });
  const answer = await ports.upstreams.send(
    target,
    {
      callId: hold.callId,
      method: endpoint.method,
      path: endpoint.path,
      contentType: call.payload.contentType,
      accept: call.accept,
      body: encodePayload(call.payload, {
        model: target.model,
        ...(endpoint.capField && hold.outputCap !== undefined && { [endpoint.capField]: hold.outputCap }),
        ...pseudonyms,
      }),
      signal,
    },
    routing,
  );
  const region = answer.kind === "answer" ? answer.region : null;
  const servedBy: ServedBy = { upstream: target.upstream, model: target.model, region };
  const failed = (failure: Failure, refusal: Refusal | null = null): Attempt => ({
    ok: false,
    failure,
    refusal,
    servedBy,
    reader,
  });
  if (answer.kind !== "answer") return failed({ kind: answer.kind });
  const { response } = answer;
  if (!response.ok) {
    const failure: Failure = { kind: "status", status: response.status, retryAfterMs: retryAfter(response.headers) };
    return failed(failure, await words(answer, target, admitted, signal, ports));
  }
  if (reader.kind === "events") {
    if (!response.body || !isEventStream(response)) {
      await response.body?.cancel().catch(() => undefined);
      return failed({ kind: "malformed" });
    }
    return { ok: true, served: { kind: "events", answer, servedBy, target, reader } };
  }
  const bytes = await readUpstream(answer, MAX_ANSWER_BYTES, signal, ports);
  if (typeof bytes === "string") return failed({ kind: bytes });
  if (!reader.read(parseAnswer(bytes))) return failed({ kind: "malformed" });
  return { ok: true, served: { kind: "json", bytes, servedBy, target, reader } };
}

/** A JSON answer longer than this is not held in memory. */
const MAX_ANSWER_BYTES = 32 * 1024 * 1024;
/** An error body longer than this is cut off; its words are not worth more. */
const MAX_ERROR_BYTES = 64 * 1024;

const isEventStream = (response: Response): boolean =>
  (response.headers.get("content-type") ?? "").toLowerCase().startsWith("text/event-stream");

const decoder = new TextDecoder();

function parseAnswer(bytes: Uint8Array): unknown {
  try {
    return JSON.parse(decoder.decode(bytes));
  } catch {
    return undefined;
  }
}

/** `retry-after` in seconds or as a date is a hint; anything unreadable is none. */
function retryAfter(headers: Headers): number | null {
  const seconds = Number(headers.get("retry-after") ?? Number.NaN);
  return Number.isFinite(seconds) && seconds >= 0 ? seconds * 1000 : null;
}

/** The upstream's own words about the request, with everything of the operator's taken out; null where none may pass. */
async function words(
  answer: Answered,
  target: Target,
  { route, routing }: AdmittedCall,
  signal: AbortSignal,
  ports: Ports,
): Promise<Refusal | null> {
  const { status } = answer.response;
  if (!passesWords(status, route.ownInstance)) {
    await answer.response.body?.cancel().catch(() => undefined);
    return null;
  }
  const bytes = await readUpstream(answer, MAX_ERROR_BYTES, signal, ports);
  const said = errorFields(typeof bytes === "string" ? undefined : parseAnswer(bytes));
  const clean = (text: string | null) => (text === null ? null : ports.upstreams.scrub(text, target, routing));
  return {
    kind: "upstream_refused",
    status,
    message: clean(said.message) || "The model server refused the request.",
    param: clean(said.param),
    code: clean(said.code),
  };
}

/** The fields of an error body in OpenAI's shape or in the flat one. */
function errorFields(body: unknown): { message: string | null; param: string | null; code: string | null } {
  const outer = typeof body === "object" && body !== null ? (body as Record<string, unknown>) : {};
  const inner =
    typeof outer.error === "object" && outer.error !== null ? (outer.error as Record<string, unknown>) : outer;
  const text = (value: unknown) => (typeof value === "string" ? value : null);
  return {
    message: text(inner.message) ?? text(outer.error),
    param: text(inner.param),
    code: text(inner.code),
  };
}

/** Tenants' users go upstream as HMACs: the service can tell them apart and nothing more. */
async function pseudonymise({ call, caller }: AdmittedCall, ports: Ports): Promise<Record<string, string>> {
  const entries = Object.entries(call.pseudonyms).map(async ([field, value]) => {
    const hmac = await ports.secrets.hmac(`${caller.account} ${value}`);
    return [field, toHex(hmac)] as const;
  });
  return Object.fromEntries(await Promise.all(entries));
}

function report(admitted: AdmittedCall, servedBy: ServedBy, failure: Failure, operators: boolean, ports: Ports): void {
  ports.log({
    event: operators ? "upstream_refuses_operator" : "upstream_failed",
    call: admitted.hold.callId,
    upstream: servedBy.upstream,
    model: servedBy.model,
    failure: failure.kind,
    status: failure.kind === "status" ? failure.status : null,
  });
}
