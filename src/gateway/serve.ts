/**
 * The pipeline: serves one call of the endpoint table, from request to response.
 *
 *     receive -> authenticate -> parse -> [route -> admit -> forward -> relay -> settle]
 *
 * Each step has its own file and works on one record of the call (`call.ts`) that grows from step to step. After
 * `parse`, the row's flow takes over; this file chooses it once. `flows/` holds the flows, `stream/` relays answers,
 * `http/` reads requests and upstream answers and writes responses.
 *
 * Promises: a refusal is a value and becomes a response at once; `flows/carry-out.ts` ends each granted hold once;
 * nothing is held, sent or revealed before the key was found live.
 *
 * Must not know: Cloudflare (the platform implements `ports.ts`), nor a particular endpoint (its row does).
 */

import type { Endpoint } from "../core/endpoints/endpoint.ts";
import { authenticate } from "./authenticate.ts";
import type { ParsedCall, ReceivedCall, RoutedCall } from "./call.ts";
import { serveForwarded } from "./flows/forwarded.ts";
import { serveFree } from "./flows/free.ts";
import { serveJob } from "./flows/job.ts";
import { serveLocal } from "./flows/local.ts";
import { servePoll } from "./flows/poll.ts";
import { servePrices } from "./flows/prices.ts";
import { serveQuote } from "./flows/quote.ts";
import { parse } from "./http/parse.ts";
import { BodyPlace } from "./http/upload-slot.ts";
import type { Ports } from "./ports.ts";
import { refuseCall, refuseUnlessDead } from "./refuse-call.ts";
import { route } from "./resolve.ts";

/** Serves one request to a row of the table. `params`: the path's parameters. */
export async function serve(
  request: Request,
  endpoint: Endpoint,
  params: Readonly<Record<string, string>>,
  ports: Ports,
): Promise<Response> {
  const place = new BodyPlace(request.signal, ports);
  try {
    const callId = ports.newCallId();
    return await serveReceived(
      { callId, startedAtMs: ports.now(), endpoint, params, request, place, tries: [] },
      ports,
    );
  } finally {
    place.leave();
  }
}

async function serveReceived(received: ReceivedCall, ports: Ports): Promise<Response> {
  const authentication = await authenticate(received.request.headers, ports);
  if (!authentication.ok) return refuseCall(received, authentication.refusal, ports);
  const identified = { ...received, caller: authentication.caller };
  const parsed = await parse(identified, ports);
  return parsed.ok ? serveParsed(parsed.call, ports) : refuseUnlessDead(identified, parsed.refusal, ports);
}

async function serveParsed(parsed: ParsedCall, ports: Ports): Promise<Response> {
  const { flow } = parsed.endpoint;
  switch (flow.kind) {
    case "forwarded":
      return routed(parsed, serveForwarded, ports);
    case "job":
      return routed(parsed, (call) => serveJob(call, flow.quotedBy, ports), ports);
    case "quote":
      return routed(parsed, serveQuote, ports);
    case "prices":
      return routed(parsed, servePrices, ports);
    case "poll":
      return servePoll(parsed, ports);
    case "free":
      return serveFree(parsed, ports);
    case "local":
      return serveLocal(parsed, flow.answer, ports);
  }
}

/** For flows that need a model's targets and price. */
async function routed(
  parsed: ParsedCall,
  serveRouted: (call: RoutedCall, ports: Ports) => Promise<Response>,
  ports: Ports,
): Promise<Response> {
  const step = await route(parsed, ports);
  return step.ok ? serveRouted(step.call, ports) : refuseUnlessDead(parsed, step.refusal, ports);
}
