/** The endpoints that the service has. */
import { chatCompletions } from "./chat/chat.ts";
import type { Endpoint } from "./endpoint.ts";
import { getModel, listModels } from "./models.ts";

export const ENDPOINTS: readonly Endpoint[] = [chatCompletions, listModels, getModel];
