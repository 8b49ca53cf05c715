import fc from "fast-check";
import { expect, test } from "vitest";
import { withMembers, withNumber, writtenLike } from "../../../src/core/formats/added-events.ts";
import { dataOf } from "../../../src/core/formats/sse.ts";

const bytes = (text: string) => new TextEncoder().encode(text);
const text = (event: Uint8Array | null) => event && new TextDecoder().decode(event);

test("members stand in front of those that were there, whose bytes stay", () => {
  const data = fc
    .dictionary(fc.string(), fc.jsonValue(), { minKeys: 1 })
    .map((value) => JSON.stringify(value, null, 1));
  const before = fc.constantFrom("", ": {comment}\n", "event: x\r\n", "id: {\r", "\uFEFF\n");
  fc.assert(
    fc.property(data, before, fc.constantFrom("\n", "\r\n", "\r"), (given, others, end) => {
      const lines = given.split("\n").map((line) => `data: ${line}${end}`);
      const event = bytes(`${others}${lines.join("")}${end}`);
      const got = withMembers(event, '"added":[1]');
      const value = JSON.parse(dataOf(got ?? event) as string);
      expect(value).toEqual({ added: [1], ...JSON.parse(given) });
      expect(text(got)?.replace('"added":[1],', "")).toBe(text(event));
    }),
  );
});

test("an event without an object gets none", () => {
  for (const event of ["", ": {}\n\n", "event: {\n\n", "data: [DONE]\n\n", "data: 7"]) {
    expect(withMembers(bytes(event), '"a":1')).toBeNull();
  }
});

test("added events are named where the one that they precede is", () => {
  const added = [{ type: "a", n: 1 }, { b: 2 }];
  expect(text(writtenLike(bytes("data: {}\n\n"), added))).toBe('data: {"type":"a","n":1}\n\ndata: {"b":2}\n\n');
  expect(text(writtenLike(bytes("id: 1\nevent: x\ndata: {}\n\n"), added))).toBe(
    'event: a\ndata: {"type":"a","n":1}\n\ndata: {"b":2}\n\n',
  );
});

test("a number takes the place of the event's own, and no other byte changes", () => {
  const moved = (event: string) => text(withNumber(bytes(event), 1_000));
  expect(moved('event: x\r\ndata: {"type":"t","sequence_number":7,"delta":"ü"}\r\n\r\n')).toBe(
    'event: x\r\ndata: {"type":"t","sequence_number":1000,"delta":"ü"}\r\n\r\n',
  );
  expect(moved('data:{"delta":"q \\"sequence_number\\":5","sequence_number":99999}\n\n')).toBe(
    'data:{"delta":"q \\"sequence_number\\":5","sequence_number":1000}\n\n',
  );
});

test("a number that is written in another way, or stands twice, is moved in the event's own member", () => {
  const others = ['{"sequence_number" : 3,"a":1}', '{"a":{"sequence_number":3},"sequence_number":3}'];
  for (const data of [...others, '{"sequence_\\u006eumber":3}', '{"sequence_number":-0}']) {
    const event = withNumber(bytes(`event: x\ndata: ${data}\n\n`), 8);
    expect(JSON.parse(dataOf(event) ?? "")).toEqual({ ...JSON.parse(data), sequence_number: 8 });
    expect(text(event)).toMatch(/^event: x\n/);
  }
});
