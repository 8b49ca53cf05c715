/**
 * Answers a repeat of a call that was carried out under its idempotency key. The answer is read back by the id of what
 * the first call made, or the caller learns that it is not kept. Nothing new is made or charged.
 */

import { type EarlierCall, earlierRefusal } from "../../core/account/idempotency.ts";
import type { ReadBack } from "../../core/endpoints/endpoint.ts";
import { asObject } from "../../core/formats/json-fields.ts";
import { type Outcome, refused } from "../../core/outcome.ts";
import type { Owned } from "../../core/owned.ts";
import type { Refusal } from "../../core/refusal.ts";
import { pinnedTo } from "../../core/routing/resolution.ts";
import type { RoutedCall } from "../call.ts";
import { forward } from "../forward.ts";
import { callHeaders, refuse } from "../http/responses.ts";
import { parseAnswer } from "../http/upstream-errors.ts";
import type { Ports } from "../ports.ts";
import { passFree } from "../stream/pass-document.ts";

/** Marks a replayed answer; Stripe's API uses this name too. */
const REPLAYED = "idempotent-replayed";

type ReadBody = string | Uint8Array<ArrayBuffer> | ReadableStream<Uint8Array<ArrayBuffer>>;
type MadeAgain = Outcome<{ body: ReadBody; contentType: string; region: string | null }>;

/** `repeat`: the call that was sent again. */
export async function replay(repeat: RoutedCall, earlier: EarlierCall, ports: Ports): Promise<Response> {
  const { callId, endpoint } = repeat;
  const { created } = earlier;
  const made =
    earlier.state === "completed" && created && endpoint.readBack
      ? await makeAgain(repeat, created, endpoint.readBack, ports)
      : refused(earlierRefusal(earlier));
  if (!made.ok) {
    const response = refuse(made.refusal, callId, endpoint.errors);
    response.headers.set(REPLAYED, "true");
    return response;
  }
  const headers = callHeaders(callId, made.region, undefined);
  headers.set("content-type", made.contentType);
  headers.set(REPLAYED, "true");
  return new Response(made.body, { status: earlier.status, headers });
}

async function makeAgain(repeat: RoutedCall, created: Owned, readBack: ReadBack, ports: Ports): Promise<MadeAgain> {
  if (readBack.kind === "known") {
    return { ok: true, body: readBack.answer(created), contentType: "application/json", region: null };
  }
  const { routing } = repeat;
  const client = repeat.request.signal;
  const params = { id: created.id };
  const parsed = readBack.by.parse({ askedPath: "", params, body: { kind: "none" } });
  if (!parsed.ok) return parsed;
  const { call } = parsed;
  const forwarded = await forward(
    { ...repeat, call, endpoint: readBack.by },
    {
      route: { targets: pinnedTo(created), retryOn: [], ownInstance: false },
      routing,
      outputCap: undefined,
      wholeAnswer: repeat.call.streams,
      reader: () => call.reader(null),
    },
    { signal: client, gone: false },
    ports,
  );
  if (forwarded.kind === "refused") return { ok: false, refusal: goneOr(forwarded.refusal) };
  if (forwarded.kind !== "served") return { ok: false, refusal: { kind: "internal" } };
  const { served } = forwarded;
  const { region } = served.servedBy;
  if (served.kind === "passing") {
    return { ok: true, body: passFree(served.passing, client, ports), contentType: "application/json", region };
  }
  if (served.kind === "stream" || !served.bytes) return { ok: false, refusal: { kind: "internal" } };
  if (!repeat.call.streams) return { ok: true, body: served.bytes, contentType: "application/json", region };
  const body = readBack.asEvents(asObject(parseAnswer(served.bytes)) ?? {});
  return { ok: true, body, contentType: "text/event-stream", region };
}

/** The call did succeed, even if the service no longer keeps its result. */
const goneOr = (refusal: Refusal): Refusal =>
  refusal.kind === "upstream_refused" ? { kind: "idempotency", why: "not_kept" } : refusal;
