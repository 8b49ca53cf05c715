/**
 * Turns an answer and its faults into the steps that deliver it: what to send, when to wait, where to cut. Pure.
 *
 * Faults are applied only here, so they affect every endpoint alike.
 */
import type { Answer, JsonObject } from "./endpoint.ts";
import type { MetFaults } from "./faults.ts";
import type { Usage } from "./usage.ts";

export type Step =
  /** `frame`: whether the log counts it as a frame. `usage`: what the call has used once it is sent. */
  | { readonly kind: "send"; readonly bytes: Uint8Array; readonly frame: boolean; readonly usage: Usage | null }
  | { readonly kind: "wait"; readonly ms: number }
  /** The connection breaks: the body is aborted, not ended. */
  | { readonly kind: "cut" };

const encoder = new TextEncoder();

/** An object as JSON, with the usage figures that the faults ask for. */
export function jsonBytes(body: JsonObject, met: MetFaults): Uint8Array<ArrayBuffer> {
  return garbleWhole(encoder.encode(JSON.stringify(reshape(body, met))), met);
}

/** A garbled body ends cleanly in its middle. */
export function garbleWhole(bytes: Uint8Array<ArrayBuffer>, met: MetFaults): Uint8Array<ArrayBuffer> {
  return met.garble ? bytes.slice(0, Math.max(1, bytes.length >> 1)) : bytes;
}

/** A body that breaks off: its first half, then a cut. */
export function* halfOf(bytes: Uint8Array, usage: Usage | null): Iterable<Step> {
  yield { kind: "send", bytes: bytes.subarray(0, bytes.length >> 1), frame: false, usage };
  yield { kind: "cut" };
}

/** A stream of events or of chunks, frame by frame. */
export function* stepsOf(
  answer: Extract<Answer, { kind: "events" | "chunks" }>,
  met: MetFaults,
  delayMs: number,
): Iterable<Step> {
  const pauseMs = met.pace?.ms ?? delayMs;
  let sent = 0;
  let usage: Usage | null = answer.usage;
  const frames = answer.kind === "events" ? encodeEvents(answer.events, met) : answer.chunks;
  for (const frame of frames) {
    if (met.truncate && sent >= met.truncate.after_frames) return yield { kind: "cut" };
    if (met.stall && sent === 1) yield { kind: "wait", ms: met.stall.ms };
    if (met.error_frame && sent === met.error_frame.after_frames) {
      return yield { kind: "send", bytes: errorFrame(met.error_frame.error), frame: true, usage };
    }
    if (met.garble && sent === met.garble.after_frames) {
      yield { kind: "send", bytes: garbled(frame.bytes), frame: true, usage: frame.usage };
      sent += 1;
      continue;
    }
    if (sent > 0 && pauseMs > 0) yield { kind: "wait", ms: pauseMs };
    yield { kind: "send", bytes: frame.bytes, frame: true, usage: frame.usage };
    usage = frame.usage;
    sent += 1;
  }
  if (met.truncate && sent >= met.truncate.after_frames) return yield { kind: "cut" };
  if (answer.kind === "events" && !met.no_done) {
    yield { kind: "send", bytes: encoder.encode("data: [DONE]\n\n"), frame: true, usage };
  }
}

function* encodeEvents(events: Extract<Answer, { kind: "events" }>["events"], met: MetFaults) {
  for (const { data, usage } of events) {
    const onlyUsage = Array.isArray(data.choices) && data.choices.length === 0;
    if (met.no_usage && onlyUsage) continue;
    yield { bytes: encoder.encode(`data: ${JSON.stringify(reshape(data, met))}\n\n`), usage };
  }
}

/** Cuts out a frame's middle: the rest is not JSON, or not audio. */
function garbled(bytes: Uint8Array): Uint8Array {
  const text = new TextDecoder().decode(bytes);
  if (text.startsWith("data: ")) return encoder.encode(`${text.slice(0, Math.min(20, text.length - 4))}\n\n`);
  return bytes.map((byte) => byte ^ 0x5a);
}

function errorFrame(error: unknown): Uint8Array {
  const failure = error ?? { message: "The engine failed.", type: "server_error", param: null, code: "internal_error" };
  return encoder.encode(`data: ${JSON.stringify({ error: failure })}\n\n`);
}

/** Omits or replaces `usage` (and video's `billing`), at the top level and inside `response`. */
function reshape(body: JsonObject, met: MetFaults): JsonObject {
  if (!met.no_usage && !met.usage) return body;
  const shaped: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(body)) {
    const figures = name === "usage" || name === "billing";
    if (figures && met.no_usage) continue;
    if (figures && met.usage && value !== null) shaped[name] = met.usage.usage;
    else if (name === "response" && typeof value === "object" && value !== null) {
      shaped[name] = reshape(value as JsonObject, met);
    } else shaped[name] = value;
  }
  return shaped;
}
