/** The reader for parts that were taken out of the bucket. */
import { gzipSync } from "node:zlib";
import { expect, it } from "vitest";
import { readPart } from "../../../client/archive.ts";
import { BLOCK_LINES, footerText, hashOf } from "../../../src/core/archive/part.ts";

function part(
  lines: readonly { readonly id: number; readonly nano_usd: number; readonly call: string }[],
  sum?: number,
) {
  const blocks: Buffer[] = [];
  for (let at = 0; at < lines.length; at += BLOCK_LINES) {
    const some = lines.slice(at, at + BLOCK_LINES);
    blocks.push(gzipSync(some.map((line) => `${JSON.stringify(line)}\n`).join("")));
  }
  const footer = footerText({
    version: 1,
    series: "ledger",
    account: 7,
    hour_ms: 0,
    n: 1,
    lines: lines.length,
    nano_usd: sum ?? lines.reduce((total, { nano_usd }) => total + nano_usd, 0),
    blocks: blocks.map(({ length }) => length),
    calls: lines.map(({ call }) => hashOf(call)),
  });
  return Buffer.concat([...blocks, gzipSync(footer)]);
}
const LINES = Array.from({ length: 2_345 }, (_, index) => ({ id: index + 1, nano_usd: 0 - index, call: `c-${index}` }));

it("gives all lines of all blocks, and the footer", () => {
  const { footer, lines } = readPart(part(LINES));
  expect(lines).toEqual(LINES);
  expect(footer).toMatchObject({ series: "ledger", account: 7, lines: 2_345 });
  expect(footer.blocks).toHaveLength(3);
});

it("refuses what is damaged, cut off, or not what its footer says", () => {
  const whole = part(LINES);
  expect(() => readPart(whole.subarray(0, whole.length - 5))).toThrow();
  expect(() => readPart(whole.subarray(0, whole.length / 2))).toThrow();
  expect(() => readPart(part(LINES, 1))).toThrow("footer");
  expect(() => readPart(Buffer.concat([whole, gzipSync("{}\n")]))).toThrow();
  expect(() => readPart(gzipSync("hello\n"))).toThrow("no part");
  const flipped = Buffer.from(whole);
  flipped[50] = (flipped[50] ?? 0) ^ 0xff;
  expect(() => readPart(flipped)).toThrow();
});
