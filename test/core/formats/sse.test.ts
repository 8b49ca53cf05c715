import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { dataOf, SseSplitter } from "../../../src/core/formats/sse.ts";

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
});
