/** The calls that customers make, and for each a check that a complete answer is correct. */
import { COMMON, tokensOf } from "../../sandbox/chat/tokens.ts";
import { recordingLengthMs } from "../../src/core/formats/audio/recording.ts";
import { wav } from "../support/audio.ts";
import { type Asked, callOf, type Names, useOf } from "../support/service.ts";
import type { Random } from "./random.ts";

export interface Workload {
  readonly asked: Asked;
  /** The answer comes in frames, so a client can leave between two. */
  readonly streams: boolean;
  /** What is wrong with a complete answer; null: nothing. May throw if the body is not an answer at all. */
  readonly flawOf: (body: Uint8Array) => string | null;
}

/** Long enough that a client can leave between frames. */
const FRAME_DELAY_MS = 3;
/** The service's speed of speech. An answer may be a frame longer, not shorter. */
const MS_PER_CHARACTER = 60;

/** The parts of JSON answers that are checked. */
interface Body {
  readonly choices?: readonly {
    readonly message?: { readonly content: string };
    readonly delta?: { readonly content?: string };
  }[];
  readonly output?: readonly { readonly content: readonly { readonly text: string }[] }[];
  readonly status?: string;
  readonly data?: readonly { readonly url?: string; readonly b64_json?: string; readonly embedding?: unknown[] }[];
  readonly results?: readonly unknown[];
  readonly text?: string;
  readonly duration?: number;
  /** Of events. */
  readonly type?: string;
  readonly delta?: string;
  readonly response?: Body;
}

const textOf = (body: Uint8Array): string => new TextDecoder().decode(body);
const jsonOf = (body: Uint8Array): Body => JSON.parse(textOf(body)) as Body;
const unless = (fine: unknown, flaw: string): string | null => (fine ? null : flaw);
const hasTokens = (text: string, tokens: number): string | null => {
  const came = tokensOf(text, COMMON).length;
  return unless(came === tokens, `it has ${came} tokens, not ${tokens}`);
};

/** Each frame's JSON, and whether the stream was closed as the contract says. */
function framesOf(body: Uint8Array): { frames: Body[]; done: boolean } {
  const data = textOf(body)
    .split("\n\n")
    .flatMap((event) => (event.startsWith("data: ") ? [event.slice("data: ".length)] : []));
  const done = data.at(-1) === "[DONE]";
  return { frames: (done ? data.slice(0, -1) : data).map((one) => JSON.parse(one) as Body), done };
}

function chatStreamFlaw(body: Uint8Array, tokens: number, usageWanted: boolean): string | null {
  const { frames, done } = framesOf(body);
  if (!done) return "it ended as if it were whole, without [DONE]";
  const usageFrames = frames.filter(({ choices }) => choices?.length === 0).length;
  if (usageFrames > (usageWanted ? 1 : 0)) return `it has ${usageFrames} usage frames`;
  return hasTokens(frames.map(({ choices }) => choices?.[0]?.delta?.content ?? "").join(""), tokens);
}

function responseStreamFlaw(body: Uint8Array, tokens: number): string | null {
  const { frames } = framesOf(body);
  const last = frames.at(-1);
  if (last?.type !== "response.completed") return "it ended as if it were whole, without response.completed";
  const text = frames.map(({ delta }) => delta ?? "").join("");
  if (text !== last.response?.output?.[0]?.content[0]?.text) return "its pieces are not its whole";
  return hasTokens(text, tokens);
}

/** Draws twice for every workload, whatever its outcome. */
function textWorkload(endpoint: "chat" | "responses", random: Random, names: Names, stream: "no" | "yes" | "usage") {
  const tokens = 1 + Math.floor(random() * 60);
  const cached = Math.floor(random() * 20);
  const fields = {
    sandbox_output_tokens: tokens,
    sandbox_frame_delay_ms: FRAME_DELAY_MS,
    ...(endpoint === "chat" && { sandbox_cached_tokens: cached }),
    ...(stream !== "no" && { stream: true }),
    ...(stream === "usage" && { stream_options: { include_usage: true } }),
  };
  const flawOf = (body: Uint8Array): string | null => {
    if (stream !== "no") {
      return endpoint === "chat" ? chatStreamFlaw(body, tokens, stream === "usage") : responseStreamFlaw(body, tokens);
    }
    const { choices, output } = jsonOf(body);
    return hasTokens(choices?.[0]?.message?.content ?? output?.[0]?.content[0]?.text ?? "", tokens);
  };
  return { asked: callOf(endpoint, names.chat, fields), streams: stream !== "no", flawOf };
}

function speech(random: Random, names: Names, stream: boolean): Workload {
  const input = "Toll. ".repeat(1 + Math.floor(random() * 30));
  const ms = input.length * MS_PER_CHARACTER;
  const more = stream ? { stream, sandbox_frame_delay_ms: FRAME_DELAY_MS } : {};
  return {
    asked: callOf("speech", names.speech, { input, ...more }),
    streams: stream,
    flawOf: (body) => unless((recordingLengthMs(body) ?? 0) >= ms, `it is shorter than ${ms} ms`),
  };
}

/** A form; the answer reports how long the file was. */
function transcription(random: Random, names: Names): Workload {
  const ms = 300 + Math.floor(random() * 2_700);
  const form = { file: wav({ ms }), response_format: "verbose_json" };
  return {
    asked: callOf("transcription", names.transcription, form),
    streams: false,
    flawOf: (body) => {
      const { text, duration } = jsonOf(body);
      return unless(text && duration === ms / 1000, `it is of ${duration} s, not ${ms} ms`);
    },
  };
}

function small(endpoint: string, names: Names, isWhole: (body: Body) => unknown): Workload {
  const asked = callOf(endpoint, names[useOf(endpoint)]);
  return { asked, streams: false, flawOf: (body) => unless(isWhole(jsonOf(body)), "parts of it are missing") };
}
const hasPicture = ({ data }: Body) => data?.[0]?.url || data?.[0]?.b64_json;

/** By name; the names appear in reports. */
export const WORKLOADS: Readonly<Record<string, (random: Random, names: Names) => Workload>> = {
  chat: (random, names) => textWorkload("chat", random, names, "no"),
  "chat stream": (random, names) => textWorkload("chat", random, names, "yes"),
  "chat stream with usage": (random, names) => textWorkload("chat", random, names, "usage"),
  responses: (random, names) => textWorkload("responses", random, names, "no"),
  "responses stream": (random, names) => textWorkload("responses", random, names, "yes"),
  speech: (random, names) => speech(random, names, false),
  "speech stream": (random, names) => speech(random, names, true),
  transcription,
  embeddings: (_random, names) =>
    small("embeddings", names, ({ data }) => data?.length === 2 && data.every(({ embedding }) => embedding?.length)),
  rerank: (_random, names) => small("rerank", names, ({ results }) => results?.length === 2),
  images: (_random, names) => small("images", names, hasPicture),
  edits: (_random, names) => small("edits", names, hasPicture),
};
