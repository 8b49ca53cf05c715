import { expect, test } from "vitest";
import { ChatFinish } from "../../../src/core/formats/chat-finish.ts";

const head = { id: "chatcmpl-1", object: "chat.completion.chunk", created: 7, model: "m" };
const said = (index: number, delta: object, finish_reason: string | null = null) => ({
  ...head,
  choices: [{ index, delta, finish_reason }],
});
/** What precedes `[DONE]`: index and reason of each choice that had none. */
function added(...chunks: Record<string, unknown>[]) {
  const finish = new ChatFinish(128, true);
  for (const chunk of chunks) finish.chunk(chunk);
  const before = (finish.end().before ?? []) as ReturnType<typeof said>[];
  expect(finish.end()).toEqual({ readFirst: false });
  for (const chunk of before) expect(chunk).toMatchObject(head);
  return before.map(({ choices }) => choices[0]);
}
const last = (index: number, finish_reason: string) => ({ index, delta: {}, logprobs: null, finish_reason });

test("a choice without a finish_reason gets one: stop, or tool_calls where calls were seen", () => {
  const call = { tool_calls: [{ index: 0, id: "call_1", function: { name: "f", arguments: "" } }] };
  expect(added(said(0, { role: "assistant" }), said(0, { content: "Hi" }))).toEqual([last(0, "stop")]);
  expect(added(said(0, { content: "Hi" }), said(0, call))).toEqual([last(0, "tool_calls")]);
  expect(added(said(0, { function_call: { name: "f" } }))).toEqual([last(0, "function_call")]);
  expect(added(said(1, call), said(0, { content: "Hi" }))).toEqual([last(0, "stop"), last(1, "tool_calls")]);
});

test("choices that finished, and streams without any, get nothing", () => {
  expect(added(said(0, { content: "Hi" }), said(0, {}, "length"))).toEqual([]);
  expect(added(said(0, {}, "stop"), said(0, { content: "late" }))).toEqual([]);
  expect(added(said(0, { content: "Hi" }), said(1, { content: "Ho" }), said(1, {}, "stop"))).toEqual([last(0, "stop")]);
  expect(added({ ...head, choices: [] }, { choices: "none" }, { choices: [null, { index: {} }] })).toEqual([]);
  expect(added()).toEqual([]);
});

test("a usage chunk waits only while a choice is open, and the last chunk has usage: null where others have it", () => {
  const finish = new ChatFinish(128, true);
  expect(finish.open).toBe(false);
  finish.chunk({ ...said(0, { content: "Hi" }), usage: null });
  expect(finish.open).toBe(true);
  expect(finish.end().before).toEqual([{ ...head, usage: null, choices: [last(0, "stop")] }]);
  const unasked = new ChatFinish(128, false);
  unasked.chunk({ ...said(0, { content: "Hi" }), usage: null });
  expect(unasked.end().before).toEqual([{ ...head, choices: [last(0, "stop")] }]);
});

test("no more choices are followed than a call may have", () => {
  const chunks = Array.from({ length: 1_000 }, (_, index) => said(index, { content: "x" }));
  expect(added(...chunks)).toHaveLength(128);
});
