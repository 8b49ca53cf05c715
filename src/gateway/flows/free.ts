/**
 * The flow of a call that costs nothing: no hold, no usage. The account object still checks that the key is live and
 * that the account owns the ids in the call. The call goes only to the target that has these ids.
 */
import { asObject } from "../../core/formats/json-fields.ts";
import { pinnedTo } from "../../core/routing/resolution.ts";
import { authorize, forgetOwned } from "../account-client.ts";
import type { Served } from "../attempt.ts";
import type { ParsedCall } from "../call.ts";
import { forward, type Waiting } from "../forward.ts";
import { callHeaders } from "../http/responses.ts";
import { parseAnswer } from "../http/upstream-errors.ts";
import type { Ports } from "../ports.ts";
import { aboutCall, refuseAndTell, refuseCall } from "../refuse-call.ts";
import { passFree } from "../stream/pass-document.ts";

/** Reading stops as soon as the client leaves. */
export const waitingFor = (signal: AbortSignal): Waiting => ({
  signal,
  get gone() {
    return signal.aborted;
  },
});

export async function serveFree(parsed: ParsedCall, ports: Ports): Promise<Response> {
  const { call, caller, callId, endpoint } = parsed;
  const client = parsed.request.signal;
  const free = { owned: call.owned, access: endpoint.access, reach: "upstream" } as const;
  const permission = await authorize(caller, ports, free, aboutCall(parsed));
  if (!permission.ok) return refuseCall(parsed, permission.refusal, ports);
  const [home] = permission.owned;
  if (!home) return refuseCall(parsed, { kind: "internal" }, ports);
  const routing = await ports.directory.routing().catch(() => undefined);
  if (!routing) return refuseAndTell(parsed, { kind: "admission_unavailable" }, ports);

  const forwarded = await forward(
    parsed,
    {
      route: { targets: pinnedTo(home), retryOn: [], ownInstance: false },
      routing,
      outputCap: undefined,
      reader: () => call.reader(null),
    },
    waitingFor(client),
    ports,
  );
  if (forwarded.kind !== "served" || forwarded.served.kind === "stream") {
    const refusal = forwarded.kind === "refused" ? forwarded.refusal : ({ kind: "internal" } as const);
    return refuseAndTell(parsed, refusal, ports);
  }
  const { served } = forwarded;
  const headers = callHeaders(callId, served.servedBy.region, permission.rates);
  headers.set("content-type", served.contentType);
  const [named] = call.owned;
  if (parsed.endpoint.deletes && named && saysDeleted(served)) await forgetOwned(caller, named, ports);
  const body = served.kind === "passing" ? passFree(served.passing, client, ports) : served.bytes;
  return new Response(body, { status: served.status, headers });
}

function saysDeleted(served: Served): boolean {
  const answer = served.kind === "document" && served.bytes ? asObject(parseAnswer(served.bytes)) : undefined;
  return answer?.deleted === true;
}
