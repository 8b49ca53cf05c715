/**
 * One call, top to bottom:
 *
 *     authenticate -> parse -> resolve -> admit -> forward -> relay -> settle
 *
 * The only place where a hold is ended. Each step answers a value or a refusal; a refusal becomes a response at once.
 */
import type { Endpoint } from "../core/endpoints/endpoint.ts";
import type { Rates } from "../core/hold.ts";
import type { Refusal } from "../core/refusal.ts";
import { admit } from "./admit.ts";
import { callHeaders, refuse } from "./answer.ts";
import { authenticate } from "./authenticate.ts";
import { type AdmittedCall, type Forwarded, forward } from "./forward.ts";
import { Lifetime } from "./lifetime.ts";
import { parse } from "./parse.ts";
import type { Ports } from "./ports.ts";
import { relay } from "./relay.ts";
import { resolve } from "./resolve.ts";
import { release, settle } from "./settle.ts";

/** Serves one request to an endpoint of the table. */
export async function serve(request: Request, endpoint: Endpoint, ports: Ports): Promise<Response> {
  const callId = ports.newCallId();
  const startedAtMs = ports.now();
  const no = (refusal: Refusal, rates?: Rates) => refuse(refusal, callId, endpoint.errors, rates);

  const authentication = await authenticate(request.headers, ports);
  if (!authentication.ok) return no(authentication.refusal);
  const { caller } = authentication;

  const parsed = await parse(request, endpoint);
  if (!parsed.ok) return no(parsed.refusal);
  const { call } = parsed;

  const resolved = await resolve(call.model, caller, endpoint, ports);
  if (!resolved.ok) return no(resolved.refusal);
  const { route, routing } = resolved;

  const admission = await admit(call, route, caller, endpoint, callId, startedAtMs, ports);
  if (!admission.ok) return no(admission.refusal, admission.rates);
  const { hold, rates } = admission;

  const work = run({ call, endpoint, caller, route, routing, hold, startedAtMs }, rates, request.signal, ports);
  // Before the upstream is called: without it a client that leaves early tears down catch and finally too.
  ports.waitUntil(work.ended);
  return work.response;
}

interface Work {
  readonly response: Promise<Response>;
  /** Resolves once the hold is ended. */
  readonly ended: Promise<void>;
}

/** Forwards an admitted call and relays its answer; ends in settle or release, exactly once. */
function run(admitted: AdmittedCall, rates: Rates, client: AbortSignal, ports: Ports): Work {
  const { hold, endpoint, caller, call } = admitted;
  const response = Promise.withResolvers<Response>();
  const work = async () => {
    const lifetime = new Lifetime(hold, call.accept === "text/event-stream", client);
    lifetime.keep(hold, () => ports.account(caller.number), ports);
    try {
      const forwarded = await forward(admitted, lifetime.signal, ports);
      await end(admitted, forwarded, rates, lifetime, response.resolve, ports);
    } catch (error) {
      // A defect of ours: whatever it was, the hold is ended and the client is told.
      ports.log({ event: "call_crashed", call: hold.callId, error: String(error) });
      const refusal: Refusal = { kind: "internal" };
      response.resolve(refuse(refusal, hold.callId, endpoint.errors, rates));
      await release(admitted, refusal, "unknown", null, ports);
    } finally {
      lifetime.stop();
    }
  };
  return { response: response.promise, ended: work() };
}

/** Answers the client and ends the hold, each in the order that its kind of answer asks for. */
async function end(
  admitted: AdmittedCall,
  forwarded: Forwarded,
  rates: Rates,
  lifetime: Lifetime,
  respond: (response: Response) => void,
  ports: Ports,
): Promise<void> {
  const { hold, endpoint } = admitted;
  if (forwarded.kind === "refused") {
    const { refusal, executed, servedBy } = forwarded;
    // First the release: who repeats at once finds slot and money free.
    await release(admitted, refusal, executed, servedBy, ports);
    return respond(refuse(refusal, hold.callId, endpoint.errors, rates));
  }
  if (forwarded.kind === "abandoned") {
    const { reader, servedBy } = forwarded;
    respond(refuse({ kind: "internal" }, hold.callId, endpoint.errors, rates));
    const reading = reader.reading();
    return settle(
      admitted,
      { outcome: "client_gone", status: CLIENT_GONE, reading, servedBy, firstByteAtMs: null },
      ports,
    );
  }
  const { served } = forwarded;
  const { servedBy, reader } = served;
  const headers = callHeaders(hold.callId, servedBy.region, rates);
  if (served.kind === "json") {
    headers.set("content-type", "application/json");
    const outcome = lifetime.gone ? "client_gone" : "completed";
    const settled = settle(
      admitted,
      { outcome, status: 200, reading: reader.reading(), servedBy, firstByteAtMs: ports.now() },
      ports,
    );
    respond(new Response(served.bytes, { status: 200, headers }));
    return settled;
  }
  headers.set("content-type", "text/event-stream; charset=utf-8");
  headers.set("cache-control", "no-store, no-transform");
  const stream = relay(served.answer, served.reader, lifetime, endpoint.errors, lifetime.signal, ports);
  respond(new Response(stream.body, { status: 200, headers }));
  const { outcome, firstByteAtMs } = await stream.ended;
  await settle(admitted, { outcome, status: 200, reading: reader.reading(), servedBy, firstByteAtMs }, ports);
  await stream.closed;
}

/** What is booked as the status of a call whose client left before there was one. */
const CLIENT_GONE = 499;
