import { expect, it } from "vitest";
import { createResponse } from "../../../src/core/endpoints/inference/responses.ts";
import { ROW } from "../../support/fake-ports.ts";

it("a response has said everything once its last open item is done, until another begins", () => {
  const value = { model: "m", input: "hi", stream: true };
  const parsed = createResponse.parse({ askedPath: "", params: {}, body: { kind: "json", value } });
  if (!parsed.ok) throw new Error("the fixture is valid");
  const reader = parsed.call.reader({
    row: ROW,
    outputCap: 100,
    earlierTokens: 0,
    measured: { sentBytes: 1, recordingMs: null },
  });
  if (reader.kind !== "events") throw new Error("expected an event reader");
  const after = (type: string) => {
    reader.event(JSON.stringify({ type }));
    return reader.awaitsUsage?.();
  };
  expect(after("response.created")).toBe(false);
  expect(after("response.output_item.added")).toBe(false);
  expect(after("response.output_text.done")).toBe(false);
  expect(after("response.output_item.done")).toBe(true);
  expect(after("response.output_item.added")).toBe(false);
  expect(after("response.output_item.added")).toBe(false);
  expect(after("response.output_item.done")).toBe(false);
  expect(after("response.output_item.done")).toBe(true);
});
