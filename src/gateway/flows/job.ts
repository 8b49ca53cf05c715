/**
 * The flow of a submission: get the upstream's quote, hold its upper end, submit, and answer once the account object
 * has the job. The hold is not settled here: it lives on with the job.
 */

import type { Endpoint } from "../../core/endpoints/endpoint.ts";
import type { RoutedCall } from "../call.ts";
import type { Ports } from "../ports.ts";
import { refuseAndTell, refuseCall } from "../refuse-call.ts";
import { LEFT, release } from "../settle.ts";
import { admitAndCarryOut } from "./carry-out.ts";
import type { Ways } from "./deliver.ts";
import { submitted } from "./job-submit.ts";
import { inquire } from "./precheck.ts";
import { askQuote } from "./quote.ts";
import { replay } from "./replay.ts";

/** Asks the account object first, so that a revoked key or a full limit costs no upstream call. */
export async function serveJob(routed: RoutedCall, quotedBy: Endpoint, ports: Ports): Promise<Response> {
  const inquired = await inquire(routed, "submission", ports);
  if (!inquired.ok && inquired.earlier) return replay(routed, inquired.earlier, ports);
  if (!inquired.ok) return refuseCall(routed, inquired.refusal, ports, inquired.rates);
  const quoted = await askQuote(routed, quotedBy, ports);
  if (!quoted.ok) return refuseAndTell(routed, quoted.refusal, ports);
  const measured = { ...routed.measured, estimate: quoted.estimate };
  return admitAndCarryOut({ ...routed, measured }, WAYS, ports);
}

const WAYS: Ways = {
  async document({ admitted, headers, respond }, served, ports) {
    respond(await submitted(admitted, served, headers, ports));
  },

  /** A job's cost is known only at its end, and without an answer there is no id to poll. */
  abandoned: (admitted, { lostTries, servedBy }, _, ports) => release(admitted, LEFT, lostTries + 1, servedBy, ports),
};
