/**
 * One call, top to bottom:
 *
 *     authenticate -> parse -> route -> admit -> forward -> relay -> settle
 *
 * The only place where a hold is ended. Each step answers a value or a refusal; a refusal becomes a response at once.
 */

import type { Rates } from "../core/account/hold.ts";
import type { Endpoint } from "../core/endpoints/endpoint.ts";
import { type Refusal, toHttp } from "../core/refusal.ts";
import { mayPassUnread, usageWasRead } from "../core/routing/target-health.ts";
import { authenticate } from "./authenticate.ts";
import type { AdmittedCall, IdentifiedCall, ParsedCall, ReceivedCall } from "./call.ts";
import { logRefused } from "./call-log.ts";
import { serveFree } from "./flows/free-call.ts";
import { replay } from "./flows/replay.ts";
import { isQuestion, servePoll, serveVideo } from "./flows/video-queries.ts";
import { estimate } from "./flows/video-quote.ts";
import { submitted } from "./flows/video-submit.ts";
import { type Forwarded, forward } from "./forward.ts";
import { parse } from "./http/parse.ts";
import { callHeaders, refuse } from "./http/responses.ts";
import { BodyPlace } from "./http/upload-slot.ts";
import { admitOnce } from "./idempotency.ts";
import { recordOwnership } from "./own.ts";
import { refusalTo } from "./permit.ts";
import type { Ports } from "./ports.ts";
import { route } from "./resolve.ts";
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
    const callId = ports.newCallId();
    return await serveReceived({ callId, startedAtMs: ports.now(), endpoint, params, request, place }, ports);
  } finally {
    place.leave();
  }
}

async function serveReceived(received: ReceivedCall, ports: Ports): Promise<Response> {
  const { endpoint, request, place } = received;
  const authentication = await authenticate(request.headers, ports);
  if (!authentication.ok) return refuseCall(received, authentication.refusal, ports);
  const identified: IdentifiedCall = { ...received, caller: authentication.caller };
  const no = (refusal: Refusal, rates?: Rates) => refuseCall(identified, refusal, ports, rates);
  // Authority first: only the object knows whether the key is live, and a dead one is told nothing else.
  const noUnlessDead = async (refusal: Refusal) => no(await refusalTo(identified.caller, refusal, ports));

  const parsed = await parse(identified, ports);
  if (!parsed.ok) return noUnlessDead(parsed.refusal);
  if (namesNoModel(parsed.call)) {
    return isQuestion(endpoint.manner) ? servePoll(parsed.call, no, ports) : serveFree(parsed.call, ports);
  }
  const routed = await route(parsed.call, ports);
  if (!routed.ok) return noUnlessDead(routed.refusal);
  if (isQuestion(endpoint.manner)) return serveVideo(routed.call, no, ports);

  const quoted = await estimate(routed.call, ports);
  if (!quoted.ok && quoted.earlier) return replay(routed.call, quoted.earlier, ports);
  if (!quoted.ok) return no(quoted.refusal, quoted.rates);
  const admitted = await admitOnce(quoted.call, ports);
  if (!admitted.ok && admitted.earlier) return replay(routed.call, admitted.earlier, ports);
  if (!admitted.ok) return no(admitted.refusal, admitted.rates);
  place.paid();

  const work = run(admitted.call, ports);
  // Before the upstream is called: without it a client that leaves early tears down catch and finally too.
  ports.waitUntil(work.ended);
  place.keepUntil(work.ended);
  return work.response;
}

/** It names an id of the account's own, whose home the object knows. */
const namesNoModel = ({ endpoint, call }: ParsedCall): boolean =>
  endpoint.free && call.model === null && call.instance === null;

/** Tells a caller why its call goes no further. */
function refuseCall(refused: ReceivedCall, refusal: Refusal, ports: Ports, rates?: Rates): Response {
  logRefused(refused, refusal, ports);
  // Nothing that the caller could have done otherwise.
  if (toHttp(refusal).status >= 500) refused.place.paid();
  return refuse(refusal, refused.callId, refused.endpoint.errors, rates);
}

interface Work {
  readonly response: Promise<Response>;
  /** Resolves once the hold is ended. */
  readonly ended: Promise<void>;
}

/** Forwards an admitted call and relays its answer; ends in settle or release, exactly once. */
function run(admitted: AdmittedCall, ports: Ports): Work {
  const { hold, rates, endpoint, caller, call, route, measured, earlierTokens } = admitted;
  const response = Promise.withResolvers<Response>();
  const reader = () => call.reader({ row: route.row, outputCap: hold.outputCap, measured, earlierTokens });
  const work = async () => {
    const lifetime = new Lifetime(hold.onDisconnect, call.streams, admitted.request.signal, ports);
    lifetime.keep(hold, () => ports.account(caller.number));
    try {
      const sending = { route, routing: admitted.routing, outputCap: hold.outputCap, reader };
      const forwarded = await forward(admitted, sending, lifetime, ports);
      await end(admitted, forwarded, lifetime, response.resolve, ports);
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
  lifetime: Lifetime,
  respond: Respond,
  ports: Ports,
): Promise<void> {
  const { callId, endpoint, rates } = admitted;
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
  const record = (id: string) => recordOwnership(admitted, id, servedBy, ports);
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
