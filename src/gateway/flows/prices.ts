/** The flow of a model's price list: the account object answers with the tenant's own prices. */

import { priceList } from "../../core/video/rates.ts";
import type { RoutedCall } from "../call.ts";
import { callHeaders } from "../http/responses.ts";
import type { Ports } from "../ports.ts";
import { refuseCall } from "../refuse-call.ts";
import { inquire } from "./precheck.ts";

export async function servePrices(routed: RoutedCall, ports: Ports): Promise<Response> {
  const inquired = await inquire(routed, "prices", ports);
  if (!inquired.ok) return refuseCall(routed, inquired.refusal, ports, inquired.rates);
  const { model, row } = routed.route;
  return Response.json(priceList(model, row, inquired.prices), {
    headers: callHeaders(routed.callId, null, inquired.rates),
  });
}
