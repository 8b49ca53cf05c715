import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { formatUsd, MAX_NANO_USD, NANO_PER_USD, parseUsd, toUsd } from "../../../src/core/pricing/money.ts";

const nanoUsd = fc.integer({ min: -MAX_NANO_USD, max: MAX_NANO_USD });

it("an amount written as exact text reads back as itself", () => {
  fc.assert(
    fc.property(nanoUsd, (amount) => {
      expect(parseUsd(formatUsd(amount))).toEqual({ ok: true, nanoUsd: amount });
    }),
  );
});

/** Doubles tell nano-USD apart below 2^23 USD. */
const telling = fc.integer({ min: -(2 ** 23) * NANO_PER_USD, max: 2 ** 23 * NANO_PER_USD });

it("an amount given as a JSON number reads back as itself", () => {
  fc.assert(
    fc.property(telling, (amount) => {
      expect(parseUsd(JSON.parse(JSON.stringify(toUsd(amount))))).toEqual({ ok: true, nanoUsd: amount });
    }),
  );
});

it.each([
  ["12.50", 12_500_000_000],
  [12.5, 12_500_000_000],
  ["0.000000001", 1],
  [1e-9, 1],
  ["1e-9", 1],
  ["-0.5", -500_000_000],
  ["-0", 0],
  [0.3, 300_000_000],
  ["9000000", MAX_NANO_USD],
  ["1e2", 100_000_000_000],
  ["1E+2", 100_000_000_000],
  ["10000000000e-10", 1_000_000_000],
  ["1.0000000000", 1_000_000_000],
  ["-1.50000000000", -1_500_000_000],
  ["0e51", 0],
  ["0e-69", 0],
  ["  7 ", 7_000_000_000],
])("%s USD is %d nano-USD", (value, amount) => {
  expect(parseUsd(value)).toEqual({ ok: true, nanoUsd: amount });
});

describe("refused amounts", () => {
  it.each(["", ".", "1.", ".5", "1,5", "0x10", "NaN", "Infinity", "1 000", "--1", "$5", "1e400"])(
    "%s is no amount",
    (value) => {
      expect(parseUsd(value)).toMatchObject({ ok: false });
    },
  );
  it("each refusal says what an amount must be", () => {
    expect(parseUsd("12,5")).toEqual({ ok: false, reason: 'must be an amount in USD such as 12.5 or "12.50"' });
    expect(parseUsd("0e52")).toEqual({ ok: false, reason: "must have a smaller exponent" });
    expect(parseUsd("0e-70")).toEqual({ ok: false, reason: "must have a smaller exponent" });
    expect(parseUsd("9000001")).toEqual({ ok: false, reason: "must be at most 9000000 USD" });
    expect(parseUsd("1.23456789012")).toEqual({ ok: false, reason: "must have at most 9 decimals (nano-USD)" });
  });
  it("a tenth of a nano-USD is refused, not rounded", () => {
    expect(parseUsd("0.0000000001")).toEqual({ ok: false, reason: expect.stringContaining("9 decimals") });
  });
  it("more than 9 million USD is refused in either direction", () => {
    expect(parseUsd("9000000.000000001")).toMatchObject({ ok: false });
    expect(parseUsd(-9_000_001)).toMatchObject({ ok: false });
  });
});

it.each([
  [0, "0"],
  [1, "0.000000001"],
  [500_000_000, "0.5"],
  [-500_000_000, "-0.5"],
  [12_000_000_000, "12"],
  [100_000_000_100, "100.0000001"],
])("%d nano-USD are written as %s USD", (amount, text) => {
  expect(formatUsd(amount)).toBe(text);
});
