/**
 * The archive's form and rules: what is written is read again, damage is noticed, and no line is in two hours or none.
 */
import { gzipSync } from "node:zlib";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { timedCallId, timeIn } from "../../../src/core/account/call-time.ts";
import { callPartLine, readCallLine } from "../../../src/core/archive/call-line.ts";
import { closesAtMs, fitting, foldsAtMs, hourOfNext, type LastPart } from "../../../src/core/archive/cut.ts";
import { type LedgerLine, ledgerPartLine, readLedgerLine } from "../../../src/core/archive/ledger-line.ts";
import {
  BLOCK_LINES,
  blockOf,
  blockRange,
  type Footer,
  footerText,
  HOUR_MS,
  hashOf,
  hourOf,
  linesOf,
  PART_LINES,
  partName,
  readFooter,
  valuesIn,
} from "../../../src/core/archive/part.ts";

const amount = fc.maxSafeInteger();
const maybe = <T>(arbitrary: fc.Arbitrary<T>) => fc.option(arbitrary, { nil: null });
const line: fc.Arbitrary<LedgerLine> = fc.record({
  id: fc.integer({ min: 1 }),
  kind: fc.constantFrom("top_up", "refund", "correction", "charge"),
  amountNanoUsd: amount,
  balanceNanoUsd: amount,
  atMs: amount,
  callId: maybe(fc.string()),
  model: maybe(fc.string({ unit: "binary" })),
  keyId: maybe(fc.string()),
  teamId: maybe(fc.string()),
  reference: maybe(fc.string({ unit: "binary" })),
  countsAtMs: maybe(amount),
});

describe("lines", () => {
  it("of a ledger are read as they were written, each on one line", () => {
    fc.assert(
      fc.property(fc.array(line, { maxLength: 20 }), (lines) => {
        const text = lines.map((each) => `${ledgerPartLine(each).text}\n`).join("");
        expect(valuesIn(text)?.map(readLedgerLine)).toEqual(lines);
      }),
    );
  });

  it("of calls are read as they were written, but for what is null or zero", () => {
    const value = fc.oneof(fc.string(), fc.maxSafeInteger(), fc.constant(null));
    fc.assert(
      fc.property(fc.dictionary(fc.string(), value), fc.dictionary(fc.string(), value), (some, detail) => {
        const row = { ...some, event_id: "e", ended_ms: 1, detail: JSON.stringify(detail) };
        const read = readCallLine(JSON.parse(callPartLine(row).text));
        expect(read).toEqual(Object.fromEntries(Object.entries(row).filter(([, each]) => each !== null && each !== 0)));
      }),
    );
  });

  it("that are damaged or a lie are refused, never thrown and never half read", () => {
    for (const text of ["{", '{"id":1}', '{"a":1}\n{', "\n", "{}\n\n", "nonsense\n"]) {
      expect(valuesIn(text)?.map(readLedgerLine) ?? [undefined]).toContain(undefined);
    }
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        const read = readLedgerLine(value);
        if (read) expect(Number.isSafeInteger(read.id) && Number.isSafeInteger(read.amountNanoUsd)).toBe(true);
        readCallLine(value);
      }),
    );
    expect(readLedgerLine({ id: 1.5, kind: "charge", nano_usd: 1, balance_nano_usd: 1, at_ms: 1 })).toBeUndefined();
    expect(readLedgerLine({ id: 1, kind: "gift", nano_usd: 1, balance_nano_usd: 1, at_ms: 1 })).toBeUndefined();
    expect(readCallLine({ event_id: "e", ended_ms: 1, price_nano_usd: 2 ** 60 })).toBeUndefined();
    expect(readCallLine([])).toBeUndefined();
  });

  it("have no note, whatever an entry has", () => {
    const noted = { ...fc.sample(line, 1)[0]!, note: "for Alice", user: "bob" };
    expect(ledgerPartLine(noted).text).not.toMatch(/Alice|bob|note|user/);
  });
});

const footerOf = (callIds: readonly string[]): Footer => ({
  version: 1,
  series: "ledger",
  account: 7,
  hour_ms: 0,
  n: 1,
  lines: callIds.length,
  nano_usd: 0,
  blocks: Array.from({ length: Math.ceil(callIds.length / BLOCK_LINES) }, (_, index) => 10 + index),
  calls: callIds.map(hashOf),
});

describe("a part", () => {
  it("is named by series, account, hour and number", () => {
    const place = { series: "calls", account: 7, hourMs: Date.UTC(2026, 10, 22, 14), n: 12 } as const;
    expect(partName(place)).toBe("calls/7/2026-11-22T14-12.jsonl.gz");
  });

  it("finds each of its calls by its footer, and a late event by its call's id", () => {
    fc.assert(
      fc.property(fc.array(fc.uuid(), { minLength: 1, maxLength: 50 }), (ids) => {
        const footer = readFooter(footerText(footerOf(ids)));
        if (!footer) throw new Error("not read");
        for (const [at, id] of ids.entries()) {
          expect(linesOf(footer, id)).toContain(at);
          expect(linesOf(footer, `${id}.late`)).toContain(at);
        }
      }),
    );
  });

  it("has blocks one after the other, without a gap", () => {
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 1, max: 1_000 }), { minLength: 1 }), (blocks) => {
        let end = 0;
        for (const at of blocks.keys()) {
          const range = blockRange(blocks, at)!;
          expect(range.offset).toBe(end);
          end += range.length;
        }
        expect(blockRange(blocks, blocks.length)).toBeUndefined();
      }),
    );
    expect([0, 999, 1_000, 49_999].map(blockOf)).toEqual([0, 0, 1, 49]);
  });

  it("has a footer that is refused where it contradicts itself, or is huge", () => {
    const footer = footerOf(["a", "b"]);
    for (const wrong of [
      { ...footer, lines: 3 },
      { ...footer, blocks: [1, 2] },
      { ...footer, version: 2 },
      { ...footer, lines: PART_LINES + 1, calls: Array.from({ length: PART_LINES + 1 }, () => 0) },
      { ...footer, calls: [-1, 2] },
      { ...footer, blocks: [-5] },
    ]) {
      expect(readFooter(footerText(wrong as Footer)), JSON.stringify(wrong).slice(0, 99)).toBeUndefined();
    }
    expect(readFooter("{}")).toBeUndefined();
    expect(readFooter("")).toBeUndefined();
  });

  it("of the most lines has a footer of less than 350 kB", () => {
    const ids = Array.from({ length: PART_LINES }, (_, index) => timedCallId(crypto.randomUUID(), index));
    expect(gzipSync(footerText(footerOf(ids))).length).toBeLessThan(350_000);
  });
});

/** Cuts times into parts as the account object does; `now` is later than all of them. */
function cutAll(times: readonly number[], most = PART_LINES) {
  const parts: { hourMs: number; lines: readonly number[]; more: boolean }[] = [];
  let last: LastPart | null = null;
  for (let from = 0; from < times.length; ) {
    const hourMs: number = hourOfNext(last, times[from] ?? 0);
    const count: number = Math.min(most, fitting(hourMs, 0, times.slice(from)));
    const next = times[from + count];
    const more = next !== undefined && hourOf(next) <= hourMs;
    parts.push({ hourMs, lines: times.slice(from, from + count), more });
    last = { hourMs, more };
    from += count;
  }
  return parts;
}

describe("the cut", () => {
  const times = fc.array(fc.integer({ min: 0, max: 6 * HOUR_MS }), { maxLength: 60 });

  it("puts each line into one part, in order, whatever the clock did", () => {
    fc.assert(
      fc.property(times, fc.integer({ min: 1, max: 9 }), (booked, most) => {
        const parts = cutAll(booked, most);
        expect(parts.flatMap(({ lines }) => lines)).toEqual(booked);
        for (const part of parts) expect(part.lines.length).toBeGreaterThan(0);
      }),
    );
  });

  it("gives hours that never fall, and a closed one nothing more", () => {
    fc.assert(
      fc.property(times, fc.integer({ min: 1, max: 9 }), (booked, most) => {
        const parts = cutAll(booked, most);
        for (const [at, part] of parts.entries()) {
          const before = parts[at - 1];
          if (before) expect(part.hourMs).toBeGreaterThanOrEqual(before.hourMs + (before.more ? 0 : HOUR_MS));
          for (const ms of part.lines) expect(hourOf(ms)).toBeLessThanOrEqual(part.hourMs);
        }
      }),
    );
  });

  it("is by the hour of booking where the clock runs forward", () => {
    fc.assert(
      fc.property(times, (booked) => {
        for (const { hourMs, lines } of cutAll(booked.toSorted((a, b) => a - b))) {
          for (const ms of lines) expect(hourOf(ms)).toBe(hourMs);
        }
      }),
    );
  });

  it("closes an hour at its end", () => {
    expect(closesAtMs(null, 10)).toBe(HOUR_MS);
    expect(closesAtMs({ hourMs: 0, more: false }, 10)).toBe(2 * HOUR_MS);
    expect(closesAtMs({ hourMs: 0, more: true }, 10)).toBe(HOUR_MS);
  });
});

describe("charges are folded", () => {
  const limits = { ms: 35 * 24 * HOUR_MS, bytes: 1_500_000_000 };
  it("after the days of detail, and sooner where they are many, but never before 26 hours", () => {
    expect(foldsAtMs(0, 1_000, limits)).toBe(HOUR_MS + limits.ms);
    expect(foldsAtMs(0, 12_400_000, limits)).toBe(27 * HOUR_MS);
    expect(foldsAtMs(0, 10, { ms: 1, bytes: 0 })).toBe(27 * HOUR_MS);
  });
});

describe("call ids", () => {
  it("begin with their time, keep the form of a UUID, and sort by time", () => {
    fc.assert(
      fc.property(fc.uuid({ version: 4 }), fc.integer({ min: 0, max: 2 ** 47 }), (uuid, ms) => {
        const id = timedCallId(uuid, ms);
        expect(id).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
        expect(timeIn(id)).toBe(ms);
        expect(timeIn(`${id}.late`)).toBe(ms);
        expect(timedCallId(uuid, ms + 1) > id).toBe(true);
        expect(id.slice(15)).toBe(uuid.slice(15));
      }),
    );
    expect(timeIn(crypto.randomUUID())).toBeUndefined();
    expect(timeIn("cmp-7-12-3")).toBeUndefined();
  });
});
