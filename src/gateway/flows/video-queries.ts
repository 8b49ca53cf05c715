/**
 * What can be asked about video jobs besides submitting one: the price list, a quote, a job's state. None of it costs
 * anything; each asks the account's object, so that a revoked key reads nothing.
 */

import type { Rates } from "../../core/account/hold.ts";
import type { Manner } from "../../core/endpoints/endpoint.ts";
import type { Refusal } from "../../core/refusal.ts";
import { showQuote } from "../../core/video/quote.ts";
import { priceList } from "../../core/video/rates.ts";
import { ask } from "../ask.ts";
import type { ParsedCall, RoutedCall } from "../call.ts";
import { callHeaders } from "../http/responses.ts";
import type { Ports } from "../ports.ts";
import { askQuote, inquire } from "./video-quote.ts";

type Refuse = (refusal: Refusal, rates?: Rates) => Response;

/** Whether a row is served here. */
export const isQuestion = (manner: Manner): boolean => manner === "prices" || manner === "quote" || manner === "poll";

/** Answers a call of the manners `prices` and `quote`. */
export async function serveVideo(routed: RoutedCall, no: Refuse, ports: Ports): Promise<Response> {
  return routed.endpoint.manner === "quote" ? serveQuote(routed, no, ports) : servePrices(routed, no, ports);
}

async function servePrices(from: RoutedCall, no: Refuse, ports: Ports): Promise<Response> {
  const inquired = await inquire(from, "prices", ports);
  if (!inquired.ok) return no(inquired.refusal, inquired.rates);
  const { model, row } = from.route;
  return Response.json(priceList(model, row, inquired.prices), {
    headers: callHeaders(from.callId, null, inquired.rates),
  });
}

async function serveQuote(from: RoutedCall, no: Refuse, ports: Ports): Promise<Response> {
  const { call, callId, route } = from;
  const inquired = await inquire(from, "quote", ports);
  if (!inquired.ok) return no(inquired.refusal, inquired.rates);
  const quoted = await askQuote(from, ports);
  if (!quoted.ok) return no(quoted.refusal, inquired.rates);
  const shown = call.jobUnit && showQuote(quoted.estimate, call.jobUnit, inquired.prices, route.row.free);
  if (!shown) return no({ kind: "model_not_priced", model: route.model }, inquired.rates);
  return Response.json(shown, { headers: callHeaders(callId, quoted.region, inquired.rates) });
}

/** Answers a call of the manner `poll`. */
export async function servePoll({ call, caller, callId }: ParsedCall, no: Refuse, ports: Ports): Promise<Response> {
  const id = call.owned[0]?.id ?? "";
  try {
    const view = await ask(ports, caller.number, (account) => account.job(caller.digest, id));
    if (!view.ok) return no(view.refusal);
    return Response.json(view.document, { headers: callHeaders(callId, view.region, undefined) });
  } catch (error) {
    ports.log({ event: "admission_failed", call: callId, error: String(error) });
    return no({ kind: "admission_unavailable" });
  }
}
