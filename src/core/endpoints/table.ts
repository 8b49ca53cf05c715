/** The table: every call of the inference API, one entry each. */

import type { Endpoint } from "./endpoint.ts";
import { chatCompletions } from "./inference/chat.ts";
import { customInstances } from "./inference/custom.ts";
import { embeddings } from "./inference/embeddings.ts";
import { imageEdits, imageGenerations } from "./inference/images.ts";
import { getModel, listModels } from "./inference/models.ts";
import { rerank } from "./inference/rerank.ts";
import { cancelResponse, createResponse, deleteResponse, getResponse, inputItems } from "./inference/responses.ts";
import { speech } from "./inference/speech.ts";
import { transcription } from "./inference/transcription.ts";
import { videoGenerations, videoJob, videoPrices, videoQuote } from "./inference/video.ts";
import { textLocalEdit, voiceClone } from "./inference/voice.ts";

export const ENDPOINTS: readonly Endpoint[] = [
  chatCompletions,
  createResponse,
  getResponse,
  cancelResponse,
  deleteResponse,
  inputItems,
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
  listModels,
  getModel,
];
