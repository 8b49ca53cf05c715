/** All endpoints of the service. */
import { speech } from "./audio/speech.ts";
import { transcriptions } from "./audio/transcriptions.ts";
import { textLocalEdit, voiceClone } from "./audio/voice.ts";
import { chatCompletions } from "./chat/chat.ts";
import { customProxy } from "./custom/proxy.ts";
import type { Endpoint } from "./endpoint.ts";
import { imageEdits, imageGenerations } from "./images/images.ts";
import { getModel, listModels } from "./models.ts";
import { cancelResponse, createResponse, deleteResponse, getResponse, inputItems } from "./responses/responses.ts";
import { embeddings } from "./retrieval/embeddings.ts";
import { rerank } from "./retrieval/rerank.ts";
import { videoGenerations, videoJob, videoPricing, videoQuote } from "./video/video.ts";

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
  transcriptions,
  embeddings,
  rerank,
  videoGenerations,
  videoJob,
  videoQuote,
  videoPricing,
  customProxy,
  listModels,
  getModel,
];
