/**
 * One try at one target: sends the call and reads the answer far enough to know whether the client may get it.
 *
 * A JSON answer counts once it is whole and valid, so that another target can replace one that breaks off half-way. A
 * large one counts once its beginning is read (`read-document.ts`). A stream counts from its status 200 on. After that
 * there is no second target.
 */

import type { ServedBy } from "../core/account/hold.ts";
import type { Call } from "../core/endpoints/call.ts";
import type { Endpoint } from "../core/endpoints/endpoint.ts";
import { toHex } from "../core/formats/bytes.ts";
import type { AnswerReader, BytesReader, EventReader } from "../core/meters/meter.ts";
import type { Failure } from "../core/routing/failure.ts";
import type { Route } from "../core/routing/resolution.ts";
import { type RoutingSnapshot, rowOf, type Target } from "../core/routing/routes.ts";
import type { ParsedCall } from "./call.ts";
import { type PassingDocument, readDocument } from "./http/read-document.ts";
import { type UpstreamWords, upstreamWords } from "./http/upstream-errors.ts";
import type { Answered, Patience, Ports } from "./ports.ts";

/** How to send a call upstream and read its answer. */
export interface Sending {
  readonly route: Pick<Route, "targets" | "retryOn" | "ownInstance" | "upstreamPath"> & Partial<Pick<Route, "row">>;
  readonly routing: RoutingSnapshot;
  /** The admitted output cap per choice; undefined where the endpoint has none. */
  readonly outputCap: number | undefined;
  /** True where the flow can only use a whole JSON answer. */
  readonly wholeAnswer?: boolean;
  /** A fresh reader for the answer of one try. */
  reader(): AnswerReader;
}

/** A target's answer, ready to be relayed. */
export type Served = {
  readonly servedBy: ServedBy;
  /** 2xx, the upstream's own status. */
  readonly status: number;
  readonly contentType: string;
  /** The upstream's headers that pass, by name. */
  readonly headers: readonly (readonly [string, string])[];
} & (
  | { readonly kind: "document"; readonly bytes: Uint8Array<ArrayBuffer> | null; readonly reader: AnswerReader }
  | { readonly kind: "passing"; readonly passing: PassingDocument; readonly reader: AnswerReader }
  | { readonly kind: "stream"; readonly answer: Answered; readonly reader: EventReader | BytesReader }
);

/** `words`: the upstream's own message about the request. `reader`: has read what the target may have used. */
export type Attempt =
  | { ok: true; served: Served }
  | { ok: false; failure: Failure; words: UpstreamWords | null; servedBy: ServedBy; reader: AnswerReader };

/** `careful`: see `UpstreamRequest`. */
export async function attempt(
  parsed: ParsedCall,
  sending: Sending,
  target: Target,
  careful: boolean,
  pseudonyms: Readonly<Record<string, string>>,
  signal: AbortSignal,
  ports: Ports,
): Promise<Attempt> {
  const { call, endpoint, callId } = parsed;
  const { outputCap, route, routing } = sending;
  const reader = sending.reader();
  const patience = patienceOf(call, endpoint, reader);
  const capField = endpoint.capField(rowOf(routing, target.model, ports.now()) ?? route.row);
  const answer = await ports.upstreams.send(
    target,
    {
      callId,
      method: endpoint.method,
      path: route.upstreamPath ?? call.path,
      contentType: call.payload.contentType,
      accept: call.accept,
      body: call.payload.encode({
        ...(endpoint.modelField && { [endpoint.modelField]: target.model }),
        ...(capField && outputCap !== undefined && { [capField]: outputCap }),
        ...pseudonyms,
      }),
      careful,
      patience,
      signal,
    },
    routing,
  );
  const region = answer.kind === "answer" ? answer.region : null;
  const servedBy: ServedBy = { upstream: target.upstream, model: target.model, region };
  const failed = (failure: Failure, words: UpstreamWords | null = null): Attempt => ({
    ok: false,
    failure,
    words,
    servedBy,
    reader,
  });
  if (answer.kind !== "answer") return failed({ kind: answer.kind });
  const { response } = answer;
  if (!response.ok) {
    const retryAfterMs = retryAfter(response.headers);
    const failure: Failure = { kind: "status", status: response.status, retryAfterMs };
    const scrub = (text: string) => ports.upstreams.scrub(text, target, routing);
    const passing = { ownInstance: route.ownInstance, readCode: endpoint.readCode, retryAfterMs };
    return failed(failure, await upstreamWords(answer, passing, scrub, signal, ports));
  }
  const opened = await open(parsed, sending, answer, reader, patience, signal, ports);
  if ("failure" in opened) return failed(opened.failure);
  return {
    ok: true,
    served: { ...opened, servedBy, status: response.status, headers: passedHeaders(response.headers) },
  };
}

type Opened =
  | { kind: "document"; bytes: Uint8Array<ArrayBuffer> | null; reader: AnswerReader; contentType: string }
  | { kind: "passing"; passing: PassingDocument; reader: AnswerReader; contentType: string }
  | { kind: "stream"; answer: Answered; reader: EventReader | BytesReader; contentType: string };

function patienceOf(call: Call, endpoint: Endpoint, reader: AnswerReader): Patience {
  if (call.streams || endpoint.atHand) return "stream";
  return reader.kind === "json" ? "whole" : "begin";
}

/** Reads an answer of status 200 far enough to know whether the client may get it. */
async function open(
  { caller, endpoint }: ParsedCall,
  { wholeAnswer }: Sending,
  answer: Answered,
  reader: AnswerReader,
  patience: Patience,
  signal: AbortSignal,
  ports: Ports,
): Promise<Opened | { failure: Failure }> {
  const { response } = answer;
  const contentType = response.headers.get("content-type") ?? "";
  if (reader.kind === "json") {
    const wanted = {
      rules: endpoint.answerRules,
      account: caller.account,
      creates: endpoint.creates !== null,
      whole: wholeAnswer ?? endpoint.wholeAnswer,
      // Some upstreams send the status before they make the answer, some after: one limit covers both.
      patient: patience === "whole",
    };
    const opened = await readDocument(answer, reader, wanted, signal, ports);
    return "failure" in opened ? opened : { ...opened, contentType: "application/json" };
  }
  const fits = reader.kind === "events" ? isEventStream(contentType) : reader.accepts(contentType);
  // A tenant's own engine may answer with an empty body.
  if (!response.body && reader.kind === "bytes") return { kind: "document", bytes: null, reader, contentType };
  if (!response.body || !fits) {
    await response.body?.cancel().catch(() => undefined);
    return { failure: { kind: "malformed" } };
  }
  return { kind: "stream", answer, reader, contentType };
}

/** Passes besides the content type: the contract names it on audio answers. */
const PASSED = ["inference-id"];

const passedHeaders = (headers: Headers): [string, string][] =>
  PASSED.flatMap((name): [string, string][] => {
    const value = headers.get(name);
    return value === null ? [] : [[name, value]];
  });

const isEventStream = (contentType: string): boolean => contentType.toLowerCase().startsWith("text/event-stream");

/** `retry-after` in seconds; any other form is ignored. */
function retryAfter(headers: Headers): number | null {
  const seconds = Number(headers.get("retry-after") ?? Number.NaN);
  return Number.isFinite(seconds) && seconds >= 0 ? seconds * 1000 : null;
}

/** Replaces the ids of the tenant's users by HMACs. The service can tell users apart but not identify them. */
export async function pseudonymise({ call, caller }: ParsedCall, ports: Ports): Promise<Record<string, string>> {
  const entries = Object.entries(call.pseudonyms).map(async ([field, value]) => {
    const hmac = await ports.secrets.hmac(`${caller.account} ${value}`);
    return [field, toHex(hmac)] as const;
  });
  return Object.fromEntries(await Promise.all(entries));
}
