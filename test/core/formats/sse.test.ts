import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { dataOf, SseSplitter, withData } from "../../../src/core/formats/sse.ts";

const encode = (text: string) => new TextEncoder().encode(text);
const decode = (parts: readonly Uint8Array[]) => new TextDecoder().decode(Buffer.concat(parts));

/** Cuts bytes at the given points. */
function cut(bytes: Uint8Array, points: readonly number[]): Uint8Array[] {
  const sorted = [...new Set(points.map((point) => point % (bytes.length + 1)))].sort((a, b) => a - b);
  return [0, ...sorted].map((from, index) => bytes.subarray(from, sorted[index] ?? bytes.length));
}

const STREAMS = {
  LF: 'data: {"a":"ü€😀"}\n\n: comment\n\nevent: x\ndata: 1\ndata: 2\n\ndata: [DONE]\n\n',
  CRLF: 'data: {"a":"ü€😀"}\r\n\r\nevent: x\r\ndata: 1\r\ndata: 2\r\n\r\ndata: [DONE]\r\n\r\n',
  CR: "data: 1\r\rdata: 2\r\rdata: [DONE]\r\r",
};

describe("cutting a stream into events", () => {
  it.each(Object.entries(STREAMS))("gives the same events and bytes for any split (%s)", (_, text) => {
    const whole = new SseSplitter().push(encode(text)).map((event) => decode([event]));
    fc.assert(
      fc.property(fc.array(fc.nat(text.length * 4)), (points) => {
        const splitter = new SseSplitter();
        const events = cut(encode(text), points).flatMap((chunk) => splitter.push(chunk));
        expect(events.map((event) => decode([event]))).toEqual(whole);
        expect(decode(events)).toBe(text);
        expect(splitter.open).toBe(false);
      }),
    );
  });

  it("gives an event as soon as its blank line is there", () => {
    for (const [style, text] of Object.entries(STREAMS)) {
      const splitter = new SseSplitter();
      const end =
        text.indexOf(style === "CRLF" ? "\r\n\r\n" : style === "LF" ? "\n\n" : "\r\r") + (style === "CRLF" ? 4 : 2);
      expect(splitter.push(encode(text.slice(0, end)))).toHaveLength(1);
    }
  });

  it("keeps what has no end yet, whatever reuses the chunk's buffer", () => {
    const splitter = new SseSplitter();
    const chunk = encode("data: half");
    splitter.push(chunk);
    chunk.fill(0);
    expect(decode([splitter.rest()])).toBe("data: half");
  });

  it("reads the data of an event, joined over its lines, and none from a comment", () => {
    expect(dataOf(encode("data: 1\n\n"))).toBe("1");
    expect(dataOf(encode("data:1\r\ndata:  2\r\n\r\n"))).toBe("1\n 2");
    expect(dataOf(encode(": ping\n\n"))).toBeUndefined();
    expect(dataOf(encode("event: x\n\n"))).toBeUndefined();
  });

  it.each([
    ["a line feed alone", "\n"],
    ["a carriage return alone", "\r"],
    ["a CR line after one with LF", "data: 1\n\r"],
    ["CR lines after one with CRLF", "event: x\r\ndata: 1\r\r"],
  ])("ends an event at its blank line whatever ends the lines: %s", (_, text) => {
    expect(new SseSplitter().push(encode(text)).map((event) => decode([event]))).toEqual([text]);
  });

  it("is open while an event has begun and not ended", () => {
    const splitter = new SseSplitter();
    expect(splitter.open).toBe(false);
    splitter.push(encode("data: half"));
    expect(splitter.open).toBe(true);
    splitter.push(encode("\n\n"));
    expect(splitter.open).toBe(false);
  });

  it("copies no event that comes in one piece", () => {
    const chunk = encode("data: 1\n\ndata: 2\n\n");
    expect(new SseSplitter().push(chunk).map(({ buffer }) => buffer === chunk.buffer)).toEqual([true, true]);
  });

  it("takes 8 MiB without an end for an event, and not a byte more", () => {
    const splitter = new SseSplitter();
    splitter.push(new Uint8Array(8 * 1024 * 1024).fill(0x61));
    expect(splitter.overlong).toBe(false);
    splitter.push(encode("a"));
    expect(splitter.overlong).toBe(true);
  });
});

describe("an event with other data", () => {
  const anew = (event: string, data: string) => decode([withData(encode(event), data)]);

  it("has the new data where the old was, and its other lines in their order", () => {
    expect(anew("event: x\ndata: 1\nid: 7\ndata: 2\n: note\n\n", "new")).toBe("event: x\ndata: new\nid: 7\n: note\n\n");
    expect(anew("data:1\r\nevent: of data:\r\n\r\n", "new")).toBe("data: new\nevent: of data:\n\n");
  });

  it("has data of several lines on as many", () => {
    const event = anew("data: 1\n\n", "a\nb\r\nc\rd");
    expect(event).toBe("data: a\ndata: b\ndata: c\ndata: d\n\n");
    expect(dataOf(encode(event))).toBe("a\nb\nc\nd");
  });
});
