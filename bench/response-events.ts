/**
 * The events of a streamed response in three manners: `whole` is all that OpenAI sends, `placed` the contract's three
 * events with numbers and places, `least` those three with nothing beside.
 */
import type { Manner } from "./scenario.ts";

const ID = "resp_bench";
const ITEM = { id: "msg_bench", type: "message", role: "assistant" };

/** `words`: of one delta. `frames`: how many deltas. */
export function responseEvents(manner: Manner, frames: number, words: string): object[] {
  const head = { id: ID, object: "response", created_at: 1_700_000_000, model: "bench-1" };
  const text = words.repeat(frames);
  const part = (said: string) => ({ type: "output_text", text: said, annotations: [] });
  const item = { ...ITEM, status: "completed", content: [part(text)] };
  const usage = { input_tokens: 25, output_tokens: frames, total_tokens: 25 + frames };
  const begun = { ...head, status: "in_progress", output: [] };
  const ended = { ...head, status: "completed", output: [item], usage };
  if (manner === "least") {
    const said = { type: "message", role: "assistant", content: [{ type: "output_text", text }] };
    const delta = { type: "response.output_text.delta", delta: words };
    return [
      { type: "response.created", response: { id: ID, status: "in_progress" } },
      ...Array.from({ length: frames }, () => delta),
      { type: "response.completed", response: { id: ID, status: "completed", output: [said], usage } },
    ];
  }
  let sequence_number = 0;
  const event = (type: string, data: object) => ({ type, sequence_number: sequence_number++, ...data });
  const at = { item_id: ITEM.id, output_index: 0, content_index: 0 };
  const whole = manner === "whole";
  return [
    event("response.created", { response: begun }),
    ...(whole
      ? [
          event("response.in_progress", { response: begun }),
          event("response.output_item.added", {
            output_index: 0,
            item: { ...ITEM, status: "in_progress", content: [] },
          }),
          event("response.content_part.added", { ...at, part: part("") }),
        ]
      : []),
    ...Array.from({ length: frames }, () => event("response.output_text.delta", { ...at, delta: words })),
    ...(whole
      ? [
          event("response.output_text.done", { ...at, text }),
          event("response.content_part.done", { ...at, part: part(text) }),
          event("response.output_item.done", { output_index: 0, item }),
        ]
      : []),
    event("response.completed", { response: ended }),
  ];
}
