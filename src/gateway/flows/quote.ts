/**
 * The upstream's quote for a job: it is free and names the tokens. A tenant who asks gets it in the tenant's own
 * prices; a submission holds its upper end.
 */

import type { Endpoint } from "../../core/endpoints/endpoint.ts";
import type { Estimate } from "../../core/meters/estimate.ts";
import type { Outcome } from "../../core/outcome.ts";
import { quoteReader, showQuote } from "../../core/video/quote.ts";
import type { RoutedCall } from "../call.ts";
import { forward } from "../forward.ts";
import { callHeaders } from "../http/responses.ts";
import type { Ports } from "../ports.ts";
import { refuseAndTell, refuseCall } from "../refuse-call.ts";
import { waitingFor } from "./free.ts";
import { inquire } from "./precheck.ts";

/** The flow of a tenant's own quote. */
export async function serveQuote(routed: RoutedCall, ports: Ports): Promise<Response> {
  const { call, callId, route } = routed;
  const inquired = await inquire(routed, "quote", ports);
  if (!inquired.ok) return refuseCall(routed, inquired.refusal, ports, inquired.rates);
  const { rates, prices } = inquired;
  const quoted = await askQuote(routed, routed.endpoint, ports);
  if (!quoted.ok) return refuseAndTell(routed, quoted.refusal, ports, rates);
  const shown = call.jobUnit && showQuote(quoted.estimate, call.jobUnit, prices, route.row.free);
  if (!shown) return refuseAndTell(routed, { kind: "model_not_priced", model: route.model }, ports, rates);
  return Response.json(shown, { headers: callHeaders(callId, quoted.region, rates) });
}

export type Quoted = Outcome<{ estimate: Estimate; region: string | null }>;

/** `by`: the row that asks for quotes. An implausible quote counts as a failure of the upstream. */
export async function askQuote(routed: RoutedCall, by: Endpoint, ports: Ports): Promise<Quoted> {
  let reader = quoteReader();
  const forwarded = await forward(
    { ...routed, endpoint: by },
    {
      routing: routed.routing,
      route: { ...routed.route, upstreamPath: by.path },
      outputCap: undefined,
      reader: () => {
        reader = quoteReader();
        return reader;
      },
    },
    waitingFor(routed.request.signal),
    ports,
  );
  if (forwarded.kind === "refused") return { ok: false, refusal: forwarded.refusal };
  const estimate = reader.estimate();
  if (forwarded.kind !== "served" || !estimate) return { ok: false, refusal: { kind: "internal" } };
  return { ok: true, estimate, region: forwarded.served.servedBy.region };
}
