/**
 * Before a job is admitted: may this key submit it, and what may it come to? The account's object is asked first, so that
 * a revoked key or a full limit costs no upstream call; then the upstream's quote, which is free and names the tokens.
 */

import type { Inquired, Inquiry } from "../../core/account/precheck.ts";
import { QUOTE_PATH, videoQuote } from "../../core/endpoints/inference/video.ts";
import type { Estimate } from "../../core/meters/estimate.ts";
import type { Refusal } from "../../core/refusal.ts";
import { quoteReader } from "../../core/video/quote.ts";
import { ask } from "../ask.ts";
import type { RoutedCall, Step } from "../call.ts";
import { forward } from "../forward.ts";
import type { Ports } from "../ports.ts";

export type Estimated = { ok: true; estimate: Estimate; region: string | null } | { ok: false; refusal: Refusal };

/** Asks for the tenant's prices; an object that cannot be asked lets nobody on. */
export async function inquire(from: RoutedCall, purpose: Inquiry["purpose"], ports: Ports): Promise<Inquired> {
  const { call, endpoint, caller, callId, startedAtMs, route, idempotency } = from;
  const inquiry: Inquiry = {
    callId,
    keyDigest: caller.digest,
    endpoint: endpoint.id,
    model: route.model,
    alias: route.alias,
    row: route.row,
    unit: call.jobUnit,
    purpose,
    idempotency,
    startedAtMs,
  };
  try {
    return await ask(ports, caller.number, (account) => account.inquire(inquiry));
  } catch (error) {
    ports.log({ event: "admission_failed", call: callId, error: String(error) });
    return { ok: false, refusal: { kind: "admission_unavailable" } };
  }
}

/** The upstream's quote for the call's body. One that cannot be believed is a failure of the upstream. */
export async function askQuote(from: RoutedCall, ports: Ports): Promise<Estimated> {
  const client = from.request.signal;
  let reader = quoteReader();
  const forwarded = await forward(
    { ...from, endpoint: videoQuote },
    {
      routing: from.routing,
      route: { ...from.route, upstreamPath: QUOTE_PATH },
      outputCap: undefined,
      reader: () => {
        reader = quoteReader();
        return reader;
      },
    },
    {
      signal: client,
      get gone() {
        return client.aborted;
      },
    },
    ports,
  );
  if (forwarded.kind === "refused") return { ok: false, refusal: forwarded.refusal };
  const estimate = reader.estimate();
  if (forwarded.kind !== "served" || !estimate) return { ok: false, refusal: { kind: "internal" } };
  return { ok: true, estimate, region: forwarded.served.servedBy.region };
}

/** For a submission; every other call needs none. */
export async function estimate(
  from: RoutedCall,
  ports: Ports,
): Promise<Extract<Step<RoutedCall>, { ok: true }> | (Inquired & { ok: false })> {
  if (from.endpoint.manner !== "job") return { ok: true, call: from };
  const inquired = await inquire(from, "submission", ports);
  if (!inquired.ok) return inquired;
  const quoted = await askQuote(from, ports);
  if (!quoted.ok) return quoted;
  return { ok: true, call: { ...from, measured: { ...from.measured, estimate: quoted.estimate } } };
}
