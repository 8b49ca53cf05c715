/**
 * Asks the caller's account object for a hold: key, team, account, limits at three levels and money, in one transaction
 * there. Nothing of money or limits is decided here.
 */
import type { Call, Endpoint } from "../core/endpoints/endpoint.ts";
import type { Admission } from "../core/hold.ts";
import type { CallId } from "../core/ids.ts";
import { utf8Bytes } from "../core/meters/tokens.ts";
import type { Route } from "../core/routes.ts";
import type { Caller, Ports } from "./ports.ts";

/** An object that cannot be asked lets no money through. */
export async function admit(
  call: Call,
  route: Route,
  caller: Caller,
  endpoint: Endpoint,
  callId: CallId,
  startedAtMs: number,
  ports: Ports,
): Promise<Admission> {
  const longestModel = Math.max(...route.targets.map((target) => utf8Bytes(target.model)));
  try {
    return await ports.account(caller.number).admit({
      callId,
      keyDigest: caller.digest,
      endpoint: endpoint.id,
      model: route.model,
      alias: route.alias,
      row: route.row,
      bound: call.bound(route.row, longestModel),
      startedAtMs,
    });
  } catch (error) {
    ports.log({ event: "admission_failed", call: callId, error: String(error) });
    return { ok: false, refusal: { kind: "admission_unavailable" } };
  }
}
