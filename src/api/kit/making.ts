/** How a call names what it makes: at random, or by its idempotency key, so that a repeat names it alike. */
import { newId } from "./new-id.ts";

export interface Making {
  /** An id for something new; one of each prefix. */
  id(prefix: string): string;
  /** Names this call for what has no id of its own; null without an idempotency key. */
  readonly ref: string | null;
}

export const anyNames: Making = { id: newId, ref: null };

export const namedBy = (made: string): Making => ({ id: (prefix) => prefix + made, ref: made });
