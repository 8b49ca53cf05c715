/**
 * Rebuilds the answer of a call that created something, from its id (docs/design.md, section 5, `Idempotency-Key`).
 */
import type { Added } from "../formats/added-events.ts";
import { parseObject } from "../formats/json-fields.ts";
import { ResponseEvents } from "../formats/response-events.ts";
import type { Owned } from "../owned.ts";

/** The contract's acknowledgement of a video job. Its content is known without a call. */
export const acknowledgement = ({ id, model }: Owned): string => JSON.stringify({ id, status: "processing", model });

const event = (data: unknown): string => `data: ${typeof data === "string" ? data : JSON.stringify(data)}\n\n`;

/** A response that was read back, as the event stream that the client asked for. Each text is one event. */
export function responseEvents(response: Record<string, unknown>): string {
  const type = response.status === "incomplete" ? "response.incomplete" : "response.completed";
  const added = new ResponseEvents(null).next({ type, response });
  const last = added?.data === undefined ? { ...lastOf(added), type, response } : parseObject(added.data);
  return [...(added?.before ?? []), last, "[DONE]"].map(event).join("");
}

const lastOf = (added: Added | undefined) => parseObject(`{${added?.members ?? ""}}`);
