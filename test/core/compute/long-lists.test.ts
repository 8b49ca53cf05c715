import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { ListReader, shortened } from "../../../src/core/compute/long-lists.ts";

const MIB = 1024 * 1024;
const bytes = (text: string) => new TextEncoder().encode(text);

function read(text: string, cuts: readonly number[] = [], most = MIB): string | undefined {
  const reader = new ListReader(most, 100 * MIB);
  const whole = bytes(text);
  const ends = [...cuts.map((cut) => cut % (whole.length + 1)), whole.length].sort((a, b) => a - b);
  let from = 0;
  for (const end of ends) {
    reader.push(whole.subarray(from, end));
    from = end;
  }
  return reader.end();
}

/** Texts as odd as JSON allows, long ones too, and as JSON.stringify or with every character escaped. */
const text = fc.oneof(
  fc.string({ unit: "binary", maxLength: 12 }),
  fc
    .record({
      unit: fc.constantFrom("a", '"', "\\", "€", "😀", "\n", "\u2028"),
      times: fc.integer({ min: 3_990, max: 26_000 }),
    })
    .map(({ unit, times }) => unit.repeat(times)),
);
const thing = fc.record(
  {
    id: fc.nat(),
    name: text,
    status: fc.constantFrom("running", "terminated"),
    init_script: text,
    other: fc.oneof(text, fc.jsonValue({ maxDepth: 3 })),
  },
  { requiredKeys: ["id"] },
);
const escapeAll = (json: string) =>
  json.replace(/[^\n -~]/g, (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, "0")}`);

describe("a list", () => {
  it("of more bytes than may arrive is read no further, and so is what is no list", () => {
    const list = `[{"id":1}${" ".repeat(90)}]`;
    const reader = new ListReader(MIB, 100);
    expect([reader.push(bytes(list)), reader.end()]).toEqual([true, '[{"id":1}]']);
    const longer = new ListReader(MIB, 100);
    expect([longer.push(bytes(list.slice(0, 60))), longer.push(bytes(` ${list.slice(60)}`))]).toEqual([true, false]);
    expect(longer.end()).toBeUndefined();
    expect(new ListReader(MIB, 100).push(bytes('{"data":'))).toBe(false);
  });

  it("split anywhere, is what it is without its long texts", () => {
    fc.assert(
      fc.property(
        fc.array(fc.oneof({ weight: 5, arbitrary: thing }, { weight: 1, arbitrary: fc.jsonValue({ maxDepth: 1 }) }), {
          maxLength: 4,
        }),
        fc.array(fc.nat(), { maxLength: 6 }),
        fc.boolean(),
        fc.constantFrom(0, 2),
        (things, cuts, escaped, indent) => {
          const json = JSON.stringify(things, null, indent);
          const expected = (JSON.parse(json) as unknown[])
            .filter(
              (one): one is Record<string, unknown> => typeof one === "object" && one !== null && !Array.isArray(one),
            )
            .map(shortened);
          expect(read(` ${escaped ? escapeAll(json) : json}\n`, cuts)).toBe(`[${expected.join(",")}]`);
        },
      ),
      { numRuns: 60 },
    );
  });

  it("of machines with scripts of 100,000 characters keeps none of them", () => {
    const machine = { id: 1, name: "tg", status: "running", init_script: "€".repeat(100_000), startup_command: "x" };
    const many = `[${Array.from({ length: 40 }, () => JSON.stringify(machine)).join(",")}]`;
    expect(bytes(many).length).toBeGreaterThan(10 * MIB);
    expect(read(many)).toBe(
      `[${Array.from({ length: 40 }, () => '{"id":1,"name":"tg","status":"running"}').join(",")}]`,
    );
  });

  it("that is too long lacks what ended, the oldest first, and never what lives", () => {
    const one = (id: number, status: string) => JSON.stringify({ id, name: "n", status });
    const list = [one(3, "running"), one(1, "running"), one(5, "terminated"), one(2, "failed"), one(4, "stopped")];
    const all = `[${list.join(",")}]`;
    expect(read(all, [], 200)).toBe(all);
    expect(read(all, [], all.length - 2)).toBe(`[${[list[0], list[1], list[2], list[4]].join(",")}]`);
    expect(read(all, [], 85)).toBe(`[${[list[0], list[1]].join(",")}]`);
    expect(read(all, [], 60)).toBeUndefined();
  });

  it.each(["", "{}", "[", "[1,]", "[,1]", "[{}", "[{}]]", "[{}] x", "[{]", '["a', "null", "[1 2]", "[}", '[{"a":1}}'])(
    "is none: %s",
    (odd) => {
      expect(read(odd)).toBeUndefined();
    },
  );
  it("may be empty, and what is in it may be anything", () => {
    expect([read("[]"), read(" [ ] "), read('[1,"]",null,[{}],{"id":1}]')]).toEqual(["[]", "[]", '[{"id":1}]']);
  });
});
