/** The contract as data: every endpoint that is forwarded, one entry each. */
import { chatCompletions } from "./chat.ts";
import type { Endpoint } from "./endpoint.ts";

export const ENDPOINTS: readonly Endpoint[] = [chatCompletions];
