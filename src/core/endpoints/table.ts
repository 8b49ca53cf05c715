/** The contract as data: every endpoint that is forwarded, one entry each. */
import { chatCompletions } from "./chat.ts";
import { customInstances } from "./custom.ts";
import { embeddings } from "./embeddings.ts";
import type { Endpoint } from "./endpoint.ts";
import { imageEdits, imageGenerations } from "./images.ts";
import { rerank } from "./rerank.ts";
import { cancelResponse, createResponse, getResponse } from "./responses.ts";
import { speech } from "./speech.ts";
import { transcription } from "./transcription.ts";
import { videoGenerations, videoJob, videoPrices, videoQuote } from "./video.ts";
import { textLocalEdit, voiceClone } from "./voice.ts";

export const ENDPOINTS: readonly Endpoint[] = [
  chatCompletions,
  createResponse,
  getResponse,
  cancelResponse,
  imageGenerations,
  imageEdits,
  speech,
  voiceClone,
  textLocalEdit,
  transcription,
  embeddings,
  rerank,
  videoGenerations,
  videoJob,
  videoQuote,
  videoPrices,
  customInstances,
];
