/**
 * One call, top to bottom:
 *
 *     authenticate -> prepare (parse, resolve) -> admit -> forward -> relay -> settle
 *
 * The only place where a hold is ended. Each step answers a value or a refusal; a refusal becomes a response at once.
 */

import type { Hold, Rates } from "../core/account/hold.ts";
import type { Endpoint } from "../core/endpoints/endpoint.ts";
import { earlierTokens } from "../core/owned.ts";
import { type Refusal, toHttp } from "../core/refusal.ts";
import { pinnedTo, type RoutingSnapshot } from "../core/routing/routes.ts";
import { mayPassUnread, usageWasRead } from "../core/routing/target-health.ts";
import { type Applicant, measure } from "./admit.ts";
import { authenticate } from "./authenticate.ts";
import { logRefused } from "./call-log.ts";
import { serveFree } from "./flows/free-call.ts";
import { replay } from "./flows/replay.ts";
import { isQuestion, serveVideo } from "./flows/video-queries.ts";
import { estimate } from "./flows/video-quote.ts";
import { submitted } from "./flows/video-submit.ts";
import { type Forwarded, forward } from "./forward.ts";
import { callHeaders, refuse } from "./http/responses.ts";
import { BodyPlace } from "./http/upload-slot.ts";
import { admitOnce } from "./idempotency.ts";
import { own } from "./own.ts";
import { refusalTo } from "./permit.ts";
import type { Ports } from "./ports.ts";
import { prepare } from "./prepare.ts";
import { failureOf, operatorsCost, release, settle } from "./settle.ts";
import { Lifetime } from "./stream/call-lifetime.ts";
import { BytesPassage, EventPassage, type Passage } from "./stream/client-stream.ts";
import type { ClientSide } from "./stream/outlet.ts";
import { DocumentPassage, recordFirst } from "./stream/pass-document.ts";
import { relay } from "./stream/relay.ts";
import { settledWithin } from "./wait.ts";

/** Serves one request to an endpoint of the table. `params`: what its path names. */
export async function serve(
  request: Request,
  endpoint: Endpoint,
  params: Readonly<Record<string, string>>,
  ports: Ports,
): Promise<Response> {
  const place = new BodyPlace(request.signal, ports);
  try {
    return await serveHeld(request, endpoint, params, place, ports);
  } finally {
    place.leave();
  }
}

/** `place`: where its body is held, until this has answered or as long as it says. */
async function serveHeld(
  request: Request,
  endpoint: Endpoint,
  params: Readonly<Record<string, string>>,
  place: BodyPlace,
  ports: Ports,
): Promise<Response> {
  const callId = ports.newCallId();
  const startedAtMs = ports.now();

  const authentication = await authenticate(request.headers, ports);
  const no = (refusal: Refusal, rates?: Rates) => {
    logRefused(endpoint, callId, authentication.ok ? authentication.caller : null, refusal, ports);
    // Nothing that the caller could have done otherwise.
    if (toHttp(refusal).status >= 500) place.paid();
    return refuse(refusal, callId, endpoint.errors, rates);
  };
  if (!authentication.ok) return no(authentication.refusal);
  const { caller } = authentication;

  const prepared = await prepare(request, endpoint, params, caller, place, ports);
  // Authority first: only the object knows whether the key is live, and a dead one is told nothing else.
  if (!prepared.ok) return no(await refusalTo(caller, prepared.refusal, ports));
  const { call, routed } = prepared;
  if (isQuestion(endpoint.manner)) {
    return serveVideo({ call, endpoint, caller, callId, startedAtMs, routed }, request.signal, no, ports);
  }
  if (!routed) return serveFree({ call, endpoint, caller, callId }, request.signal, ports);
  const { route, routing, recordingMs, idempotency } = routed;

  const asking = { call, endpoint, caller, callId, startedAtMs, route, routing, idempotency };
  const estimated = await estimate(asking, request.signal, ports);
  if (!estimated.ok && estimated.earlier) return replay(asking, estimated.earlier, routing, request.signal, ports);
  if (!estimated.ok) return no(estimated.refusal, estimated.rates);

  const measured = measure(call, route, { recordingMs, estimate: estimated.estimate });
  const applicant = { ...asking, measured };
  const admission = await admitOnce(applicant, request.signal, ports);
  if (!admission.ok && admission.earlier) return replay(applicant, admission.earlier, routing, request.signal, ports);
  if (!admission.ok) return no(admission.refusal, admission.rates);
  const { hold, rates, owned } = admission;
  place.paid();

  const targets = owned[0] ? pinnedTo(owned[0]) : route.targets;
  const admitted = { ...applicant, route: { ...route, targets }, routing, hold, earlierTokens: earlierTokens(owned) };
  const work = run(admitted, rates, request.signal, ports);
  // Before the upstream is called: without it a client that leaves early tears down catch and finally too.
  ports.waitUntil(work.ended);
  place.keepUntil(work.ended);
  return work.response;
}

/** A call that holds what it may cost. */
export interface AdmittedCall extends Applicant {
  readonly routing: RoutingSnapshot;
  readonly hold: Hold;
  /** Tokens recorded for the conversation that it continues. */
  readonly earlierTokens: number;
}

interface Work {
  readonly response: Promise<Response>;
  /** Resolves once the hold is ended. */
  readonly ended: Promise<void>;
}

/** Forwards an admitted call and relays its answer; ends in settle or release, exactly once. */
function run(admitted: AdmittedCall, rates: Rates, client: AbortSignal, ports: Ports): Work {
  const { hold, endpoint, caller, call, route, measured, earlierTokens } = admitted;
  const response = Promise.withResolvers<Response>();
  const reader = () => call.reader({ row: route.row, outputCap: hold.outputCap, measured, earlierTokens });
  const work = async () => {
    const lifetime = new Lifetime(hold.onDisconnect, call.streams, client, ports);
    lifetime.keep(hold, () => ports.account(caller.number));
    try {
      const forwarded = await forward({ ...admitted, outputCap: hold.outputCap, reader }, lifetime, ports);
      await end(admitted, forwarded, rates, lifetime, response.resolve, ports);
    } catch (error) {
      // A defect of ours: whatever it was, the hold is ended and the client is told.
      ports.log({ event: "call_crashed", call: hold.callId, error: String(error) });
      lifetime.settling();
      // What may have made something by then is not to be repeated.
      const refusal: Refusal = { kind: endpoint.retry === "safe" ? "internal" : "outcome_unknown" };
      response.resolve(refuse(refusal, hold.callId, endpoint.errors, rates));
      await release(admitted, { ...failureOf(refusal), reason: "internal" }, 1, null, ports);
    } finally {
      lifetime.stop();
    }
  };
  return { response: response.promise, ended: work() };
}

type Respond = (response: Response) => void;

/** Answers the client and ends the hold, each in the order that its kind of answer asks for. */
async function end(
  admitted: AdmittedCall,
  forwarded: Forwarded,
  rates: Rates,
  lifetime: Lifetime,
  respond: Respond,
  ports: Ports,
): Promise<void> {
  const { callId, endpoint } = admitted;
  if (forwarded.kind === "served") {
    const headers = callHeaders(callId, forwarded.served.servedBy.region, rates);
    return deliver(admitted, forwarded, headers, lifetime, respond, ports);
  }
  lifetime.settling();
  const { servedBy, lostTries } = forwarded;
  if (forwarded.kind === "abandoned") {
    respond(refuse({ kind: "internal" }, callId, endpoint.errors, rates));
    // What a job comes to is known at its end only, and nobody has its id.
    if (endpoint.manner === "job") {
      return release(admitted, LEFT, lostTries + 1, servedBy, ports);
    }
    const reading = forwarded.reader.reading();
    const { leftAtMs } = lifetime;
    const ending = { outcome: LEFT.reason, status: LEFT.status, reading, firstByteAtMs: null, leftAtMs };
    return settle(admitted, { ...ending, servedBy: forwarded.servedBy, lostTries }, ports);
  }
  if (forwarded.kind === "left") {
    respond(refuse({ kind: "internal" }, callId, endpoint.errors, rates));
    return release(admitted, LEFT, lostTries, servedBy, ports);
  }
  const released = release(admitted, failureOf(forwarded.refusal), lostTries, servedBy, ports);
  // First the release: who repeats at once finds slot and money free. But an object that is slow keeps nobody waiting.
  await settledWithin(released, RELEASED_WITHIN_MS);
  respond(refuse(forwarded.refusal, callId, endpoint.errors, rates));
  return released;
}

/** How long a client whose call failed waits for its release, ms. */
const RELEASED_WITHIN_MS = 1_000;

/** What is booked of a call whose client left before there was a status. */
const LEFT = { reason: "client_gone", status: 499 } as const;

async function deliver(
  admitted: AdmittedCall,
  { served, lostTries }: Extract<Forwarded, { kind: "served" }>,
  headers: Headers,
  lifetime: Lifetime,
  respond: Respond,
  ports: Ports,
): Promise<void> {
  const { servedBy, reader, status } = served;
  const record = (id: string) => own(admitted, id, servedBy, ports);
  if (served.contentType) headers.set("content-type", served.contentType);
  for (const [name, value] of served.headers) headers.set(name, value);
  if (served.kind === "document" && admitted.endpoint.manner === "job") {
    return respond(await submitted(admitted, served, headers, ports));
  }
  if (served.kind === "document") {
    const created = (reader.kind === "json" && reader.created?.()) || null;
    if (created !== null) await record(created);
    const outcome = lifetime.gone ? "client_gone" : "completed";
    const reading = reader.reading();
    const { leftAtMs } = lifetime;
    const ending = { outcome, status, reading, servedBy, firstByteAtMs: ports.now(), lostTries, leftAtMs } as const;
    lifetime.settling();
    const settled = settle(admitted, ending, ports);
    respond(new Response(served.bytes, { status, headers }));
    return settled;
  }
  if (served.kind === "passing") await recordFirst(served.passing, record);
  if (served.kind === "stream") headers.set("cache-control", "no-store, no-transform");
  lifetime.follow({
    progress: () => {
      const reading = reader.reading();
      return { reading, servedBy, costNanoUsd: operatorsCost(admitted, servedBy, reading, ports.now()) };
    },
    ...(served.reader.kind === "events" && served.reader.awaitsUsage && { awaitsUsage: served.reader.awaitsUsage }),
  });
  const health = ports.upstreams.health.of(servedBy);
  const usageRead = (foreign: boolean) => usageWasRead(health, foreign, ports.now());
  const unreadAllowed = mayPassUnread(health, ports.now());
  const { answer } = served.kind === "passing" ? served.passing : served;
  const passageTo = (side: ClientSide): Passage => {
    if (served.kind === "passing") return new DocumentPassage(served.passing, side, lifetime);
    if (served.reader.kind === "bytes") return new BytesPassage(served.reader, side, lifetime);
    return new EventPassage(served.reader, side, lifetime, admitted.endpoint.errors, { record, usageRead });
  };
  const stream = relay({ answer, unreadAllowed }, passageTo, lifetime, lifetime.signal, ports);
  respond(new Response(stream.body, { status, headers }));
  const { outcome, firstByteAtMs, passedBroken } = await stream.ended;
  lifetime.settling();
  if (passedBroken) {
    health.passedBrokenAtMs = ports.now();
    const { upstream, model } = servedBy;
    ports.log({ event: "broken_event_passed", call: admitted.callId, upstream, model });
  }
  const reading = reader.reading();
  const { leftAtMs } = lifetime;
  await settle(admitted, { outcome, status, reading, servedBy, firstByteAtMs, lostTries, leftAtMs }, ports);
  await stream.closed;
}
