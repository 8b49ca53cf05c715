/** The contract as data: every endpoint that is forwarded, one entry each. */
import { chatCompletions } from "./chat.ts";
import { customInstances } from "./custom.ts";
import { embeddings } from "./embeddings.ts";
import type { Endpoint } from "./endpoint.ts";
import { imageEdits, imageGenerations } from "./images.ts";
import { rerank } from "./rerank.ts";
import { cancelResponse, createResponse, getResponse } from "./responses.ts";

export const ENDPOINTS: readonly Endpoint[] = [
  chatCompletions,
  createResponse,
  getResponse,
  cancelResponse,
  imageGenerations,
  imageEdits,
  embeddings,
  rerank,
  customInstances,
];
