/** Passes an upstream's answer to the client, and ends the hold by the usage that was read from it. */

import type { ServedBy } from "../../core/account/hold.ts";
import { mayPassUnread, usageWasRead, wasSeenWhole } from "../../core/routing/target-health.ts";
import { recordOwnership } from "../account-client.ts";
import type { Served } from "../attempt.ts";
import type { AdmittedCall } from "../call.ts";
import type { Forwarded } from "../forward.ts";
import type { Ports } from "../ports.ts";
import { operatorsCost, settle } from "../settle.ts";
import type { Lifetime } from "../stream/call-lifetime.ts";
import { BytesPassage, EventPassage, type Passage } from "../stream/client-stream.ts";
import type { ClientSide } from "../stream/outlet.ts";
import { DocumentPassage, recordFirst } from "../stream/pass-document.ts";
import { relay } from "../stream/relay.ts";

/** What differs between flows after the call was forwarded. */
export interface Ways {
  /** Answers with a whole answer and ends the hold. */
  document(delivery: Delivery, served: Served & { kind: "document" }, ports: Ports): Promise<void>;
  /** Ends the hold when the client left while a target was at work. */
  abandoned(
    admitted: AdmittedCall,
    forwarded: Extract<Forwarded, { kind: "abandoned" }>,
    lifetime: Lifetime,
    ports: Ports,
  ): Promise<void>;
}

export interface Delivery {
  readonly admitted: AdmittedCall;
  readonly forwarded: Extract<Forwarded, { kind: "served" }>;
  /** The status of the client's response. */
  readonly headers: Headers;
  readonly lifetime: Lifetime;
  respond(response: Response): void;
}

export async function deliver(delivery: Delivery, ways: Ways, ports: Ports): Promise<void> {
  const { headers } = delivery;
  const { served } = delivery.forwarded;
  if (served.contentType) headers.set("content-type", served.contentType);
  for (const [name, value] of served.headers) headers.set(name, value);
  return served.kind === "document" ? ways.document(delivery, served, ports) : pass(delivery, served, ports);
}

/** Relays the answer as it comes. */
async function pass(
  { admitted, forwarded, headers, lifetime, respond }: Delivery,
  served: Exclude<Served, { kind: "document" }>,
  ports: Ports,
): Promise<void> {
  const { servedBy, reader, status } = served;
  const recordId = (id: string) => record(admitted, id, servedBy, ports);
  if (served.kind === "passing") await recordFirst(served.passing, recordId);
  if (served.kind === "stream") headers.set("cache-control", "no-store, no-transform");
  lifetime.follow({
    progress: () => {
      const reading = reader.reading();
      return { reading, servedBy, costNanoUsd: operatorsCost(admitted, servedBy, reading, ports.now()) };
    },
    ...(served.reader.kind === "events" && served.reader.awaitsUsage && { awaitsUsage: served.reader.awaitsUsage }),
  });
  const health = ports.upstreams.health.of(servedBy);
  const usageRead = (foreign: boolean) => usageWasRead(health, foreign, ports.now());
  const readFirst = (needed: boolean) => wasSeenWhole(health, !needed, ports.now());
  const unreadAllowed = mayPassUnread(health, ports.now());
  const { answer } = served.kind === "passing" ? served.passing : served;
  const passageTo = (side: ClientSide): Passage => {
    if (served.kind === "passing") return new DocumentPassage(served.passing, side, lifetime);
    if (served.reader.kind === "bytes") return new BytesPassage(served.reader, side, lifetime);
    return new EventPassage(served.reader, side, lifetime, admitted.endpoint.errors, {
      record: recordId,
      usageRead,
      readFirst,
    });
  };
  const stream = relay({ answer, unreadAllowed }, passageTo, lifetime, lifetime.signal, ports);
  respond(new Response(stream.body, { status, headers }));
  void answer.bodyTaken.then(() => giveBackBody(admitted));
  const { outcome, whole, firstByteAtMs, passedBroken } = await stream.ended;
  lifetime.settling();
  if (passedBroken) {
    health.passedBrokenAtMs = ports.now();
    const { upstream, model } = servedBy;
    ports.log({ event: "broken_event_passed", call: admitted.callId, upstream, model });
  }
  if (reader.kind === "bytes" && outcome === "client_gone" && !whole) reader.left?.();
  const reading = reader.reading();
  const { leftAtMs } = lifetime;
  const { lostTries } = forwarded;
  await settle(admitted, { outcome, status, reading, servedBy, firstByteAtMs, lostTries, leftAtMs }, ports);
  await stream.closed;
}

/** Once an answer passes, nothing is sent again. A stream may go on for an hour; its room is for others' bodies. */
function giveBackBody({ call, place }: AdmittedCall): void {
  call.drop();
  place.give();
}

/** Records that the calling account owns an id which the answer hands out. */
export async function record(admitted: AdmittedCall, id: string, servedBy: ServedBy, ports: Ports): Promise<void> {
  const { call, caller, callId, endpoint, route } = admitted;
  if (endpoint.creates === null) return;
  const { upstream, model: targetModel } = servedBy;
  const continues = call.owned[0]?.id ?? null;
  const owned = { kind: endpoint.creates, id, callId, upstream, targetModel, model: route.model, continues };
  await recordOwnership(caller, owned, ports);
}
