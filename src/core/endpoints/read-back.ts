/**
 * What a create answered, made again from what its id still says (docs/design.md, section 5, `Idempotency-Key`).
 */
import { asObject } from "../formats/json-fields.ts";
import type { Owned } from "../owned.ts";

/** The acknowledgement of a video job, as the contract has it: what it says is known without asking anybody. */
export const acknowledgement = ({ id, model }: Owned): string => JSON.stringify({ id, status: "processing", model });

const event = (data: unknown): string => `data: ${typeof data === "string" ? data : JSON.stringify(data)}\n\n`;

/** A response that was read back, as the stream that its client had asked for: the contract's events, each text at once. */
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
