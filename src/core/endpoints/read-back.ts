/**
 * Rebuilds the answer of a call that created something, from its id (docs/design.md, section 5, `Idempotency-Key`).
 */
import { asObject } from "../formats/json-fields.ts";
import type { Owned } from "../owned.ts";

/** The contract's acknowledgement of a video job. Its content is known without a call. */
export const acknowledgement = ({ id, model }: Owned): string => JSON.stringify({ id, status: "processing", model });

const event = (data: unknown): string => `data: ${typeof data === "string" ? data : JSON.stringify(data)}\n\n`;

/** A response that was read back, as the event stream that the client asked for. Each text comes in one event. */
export function responseEvents(response: Record<string, unknown>): string {
  const { output: _, usage: __, ...begun } = response;
  return [
    event({ type: "response.created", response: { ...begun, status: "in_progress", output: [] } }),
    ...textsOf(response.output).map((delta) => event({ type: "response.output_text.delta", delta })),
    event({ type: response.status === "incomplete" ? "response.incomplete" : "response.completed", response }),
    event("[DONE]"),
  ].join("");
}

function textsOf(output: unknown): string[] {
  if (!Array.isArray(output)) return [];
  return output.flatMap((item: unknown) => {
    const content = asObject(item)?.content;
    if (!Array.isArray(content)) return [];
    return content.flatMap((part: unknown) => {
      const text = asObject(part)?.text;
      return typeof text === "string" && text !== "" ? [text] : [];
    });
  });
}
