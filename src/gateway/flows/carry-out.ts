/**
 * The flows: one file for each kind of row in the endpoint table (`forwarded`, `free`, `job`, `poll`, `quote`,
 * `prices`, `local`), and what they share. Each takes a parsed or routed call and gives the response. Rows of the
 * compute table are served by `compute.ts`, service paths by `proxy.ts`.
 *
 * They promise that a hold ends exactly once, and that the end does not depend on the client staying. They must not
 * know a particular endpoint (its row does), how bytes pass to a client (`stream/`), or Cloudflare (`ports.ts`).
 *
 * This file carries out a call: admission, forwarding, the answer, and the end of the hold. `Ways` holds what differs
 * between flows.
 */

import type { Refusal } from "../../core/refusal.ts";
import type { AdmittedCall, RoutedCall } from "../call.ts";
import { type Forwarded, forward } from "../forward.ts";
import { callHeaders, refuse } from "../http/responses.ts";
import { admitOnce } from "../idempotency.ts";
import type { Ports } from "../ports.ts";
import { refuseCall } from "../refuse-call.ts";
import { failureOf, LEFT, release } from "../settle.ts";
import { Lifetime } from "../stream/call-lifetime.ts";
import { settledWithin } from "../wait.ts";
import { deliver, type Ways } from "./deliver.ts";
import { replay } from "./replay.ts";

/** Admits a call and carries it out. A repeat of a call that was carried out before gets the answer of the first. */
export function admitAndCarryOut(routed: RoutedCall, ways: Ways, ports: Ports): Promise<Response> {
  const response = carryOutOnce(routed, ways, ports);
  // A client that leaves during the admission would tear down the call, and nobody would end the hold that it gets.
  ports.waitUntil(response.catch(() => undefined));
  return response;
}

async function carryOutOnce(routed: RoutedCall, ways: Ways, ports: Ports): Promise<Response> {
  const admitted = await admitOnce(routed, ports);
  if (!admitted.ok && admitted.earlier) return replay(routed, admitted.earlier, ports);
  if (!admitted.ok) return refuseCall(routed, admitted.refusal, ports, admitted.rates);
  routed.place.paid();

  const work = carryOut(admitted.call, ways, ports);
  // Must precede the upstream call: without it, a client that leaves early also tears down catch and finally.
  ports.waitUntil(work.ended);
  routed.place.keepUntil(work.ended);
  return work.response;
}

interface Work {
  readonly response: Promise<Response>;
  /** Resolves once the hold is ended. */
  readonly ended: Promise<void>;
}

/** Forwards an admitted call and relays its answer. Settles or releases the hold, exactly once. */
function carryOut(admitted: AdmittedCall, ways: Ways, ports: Ports): Work {
  const { hold, rates, endpoint, caller, call, route, routing, measured, earlierTokens, startedAtMs } = admitted;
  const response = Promise.withResolvers<Response>();
  const sent = { row: route.row, outputCap: hold.outputCap, measured, earlierTokens, startedAtMs };
  const reader = () => call.reader(sent);
  const work = async () => {
    const lifetime = new Lifetime(hold.onDisconnect, call.streams, admitted.request.signal, ports);
    lifetime.keep(hold, () => ports.account(caller.number));
    try {
      const sending = { route, routing, outputCap: hold.outputCap, reader };
      const forwarded = await forward(admitted, sending, lifetime, ports);
      await end(admitted, forwarded, ways, lifetime, response.resolve, ports);
    } catch (error) {
      // An error of our own code: end the hold in any case and answer the client.
      ports.log({ event: "call_crashed", call: hold.callId, error: String(error) });
      lifetime.settling();
      // Do not invite a repeat when the target may already have made something.
      const refusal: Refusal = { kind: endpoint.retry === "safe" ? "internal" : "outcome_unknown" };
      response.resolve(refuse(refusal, hold.callId, endpoint.errors, rates));
      await release(admitted, { ...failureOf(refusal), reason: "internal" }, 1, null, ports);
    } finally {
      lifetime.stop();
    }
  };
  return { response: response.promise, ended: work() };
}

/** Answers the client and ends the hold, in the order that the kind of answer needs. */
async function end(
  admitted: AdmittedCall,
  forwarded: Forwarded,
  ways: Ways,
  lifetime: Lifetime,
  respond: (response: Response) => void,
  ports: Ports,
): Promise<void> {
  const { callId, endpoint, rates } = admitted;
  if (forwarded.kind === "served") {
    const headers = callHeaders(callId, forwarded.served.servedBy.region, rates);
    return deliver({ admitted, forwarded, headers, lifetime, respond }, ways, ports);
  }
  lifetime.settling();
  if (forwarded.kind === "abandoned") {
    respond(refuse({ kind: "internal" }, callId, endpoint.errors, rates));
    return ways.abandoned(admitted, forwarded, lifetime, ports);
  }
  const { servedBy, lostTries } = forwarded;
  if (forwarded.kind === "left") {
    respond(refuse({ kind: "internal" }, callId, endpoint.errors, rates));
    return release(admitted, LEFT, lostTries, servedBy, ports);
  }
  const released = release(admitted, failureOf(forwarded.refusal), lostTries, servedBy, ports);
  // Release first, so that a client which repeats at once finds its slot and money free: a leased call's are back in
  // its lease. Don't wait long for a slow object.
  if (!admitted.leased) await settledWithin(released, RELEASED_WITHIN_MS, ports.after);
  respond(refuse(forwarded.refusal, callId, endpoint.errors, rates));
  return released;
}

/** How long a client whose call failed waits for its release, ms. */
const RELEASED_WITHIN_MS = 1_000;
