/**
 * The demo's price book: one row for each model of the sandbox, with a margin of a quarter. USD, in each unit's own
 * measure.
 */

import type { NewModel } from "../client/operator.ts";
import { at } from "./demo-prices.ts";

const chat = (cost: number) => ({
  kind: "chat" as const,
  max_output_tokens: 4096,
  prices: at({ input_tokens: cost, output_tokens: cost }),
});

const VIDEO = {
  video_tokens_720p: 2.4,
  video_tokens_720p_reference: 1.6,
  video_tokens_1080p: 3.2,
  video_tokens_1080p_reference: 2.4,
  video_tokens_4k: 4.8,
  video_tokens_4k_reference: 3.2,
};

/** Bodies of `PUT /admin/models/{model}`. Those of instances have no upstream of their own. */
export const DEMO_MODELS: Readonly<Record<string, NewModel>> = {
  "llama-7b": { ...chat(0.2), upstream: "sandbox" },
  "llama-70b": { ...chat(0.8), upstream: "sandbox" },
  "full-7b": { ...chat(0.2), upstream: "sandbox" },
  "least-7b": { ...chat(0.2), upstream: "sandbox" },
  "llama-7b:1042": chat(0.2),
  "llama-7b:1043": chat(0.2),
  "image-turbo": { kind: "image", prices: at({ images: 0.004 }), upstream: "sandbox" },
  "image-edit": { kind: "image", prices: at({ images: 0.008 }), upstream: "sandbox" },
  "tts-fast": { kind: "speech", prices: at({ audio_seconds: 0.0004 }), upstream: "sandbox" },
  "tts-multilingual": { kind: "speech", prices: at({ audio_seconds: 0.0008 }), upstream: "sandbox" },
  "voice-1": { kind: "voice", prices: at({ audio_seconds: 0.0008 }), upstream: "sandbox" },
  "stt-large": { kind: "transcription", prices: at({ transcribed_seconds: 0.0001 }), upstream: "sandbox" },
  "embed-small": { kind: "embedding", prices: at({ input_tokens: 0.02 }), upstream: "sandbox" },
  "rerank-base": { kind: "rerank", prices: at({ input_tokens: 0.02 }), upstream: "sandbox" },
  "service-video-gen-2.0": { kind: "video", prices: at(VIDEO), upstream: "sandbox" },
};
