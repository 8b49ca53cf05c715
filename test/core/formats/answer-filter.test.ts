import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  answerRules,
  CHAT_ANSWER,
  RESPONSE_ANSWER,
  withoutNullUsage,
  withUsageAnew,
} from "../../../src/core/endpoints/answer-names.ts";
import type { Endpoint } from "../../../src/core/endpoints/endpoint.ts";
import { chatCompletions } from "../../../src/core/endpoints/inference/chat.ts";
import { createResponse } from "../../../src/core/endpoints/inference/responses.ts";
import { AnswerFilter, type MemberRules } from "../../../src/core/formats/answer-filter.ts";
import { joinBytes } from "../../../src/core/formats/bytes.ts";
import { DEEPEST } from "../../../src/core/formats/json-scan.ts";
import { FIXTURES } from "../../support/fixtures.ts";
import { allowedMs } from "../../support/slowness.ts";

const encoder = new TextEncoder();
const decoder = new TextDecoder();
const everything: MemberRules = () => "pass";

/** The bytes in pieces of the given lengths, over and over. */
function split(bytes: Uint8Array, lengths: readonly number[]): Uint8Array[] {
  const pieces: Uint8Array[] = [];
  for (let at = 0, turn = 0; at < bytes.length; turn++) {
    const length = Math.max(1, lengths[turn % lengths.length] ?? 1);
    pieces.push(bytes.slice(at, at + length));
    at += length;
  }
  return pieces;
}

/** Of a stream that the fixture's call asks for. */
function streamReaderOf(endpoint: Endpoint) {
  const { body, ...raw } = FIXTURES[endpoint.id] ?? {};
  if (body?.kind !== "json") throw new Error("no JSON");
  const parsed = endpoint.parse({
    askedPath: "/",
    params: {},
    ...raw,
    body: { kind: "json", value: { ...(body.value as object), stream: true } },
  });
  if (!parsed.ok) throw new Error(JSON.stringify(parsed.refusal));
  const row = {
    model: "m",
    kind: "chat",
    fromMs: 0,
    costNanoUsd: {},
    priceNanoUsd: {},
    free: false,
    maxOutputTokens: 9,
  } as const;
  const measured = { sentBytes: 100, recordingMs: null };
  const reader = parsed.call.reader({ row, outputCap: 9, measured, earlierTokens: 0 });
  if (reader.kind !== "events") throw new Error("no stream");
  return reader;
}

function pass(text: string | Uint8Array, rules: MemberRules, lengths: readonly number[] = [1 << 20]) {
  const filter = new AnswerFilter(rules);
  const out: Uint8Array[] = [];
  for (const piece of split(typeof text === "string" ? encoder.encode(text) : text, lengths)) {
    const passed = filter.push(piece);
    if (!passed) return { filter, text: null };
    out.push(...passed);
  }
  return { filter, text: filter.whole ? decoder.decode(joinBytes(out)) : null };
}

const splits = fc.array(fc.integer({ min: 1, max: 9 }), { minLength: 1, maxLength: 5 });
const objects = fc.dictionary(fc.string({ unit: "grapheme", maxLength: 8 }), fc.jsonValue({ maxDepth: 4 }));
/** JSON as somebody else writes it: spaces, escapes for letters, numbers in any form. */
const written = fc.tuple(objects, fc.integer({ min: 0, max: 3 }), fc.boolean()).map(([value, spaces, escaped]) => {
  const text = JSON.stringify(value, null, spaces);
  if (!escaped) return text;
  return text.replace(/[a-z](?=[^"\\]*")/g, (letter, at: number) =>
    inText(text, at) ? `\\u00${letter.charCodeAt(0).toString(16)}` : letter,
  );
});

/** Whether a place lies between quotes, and not in an escape. */
function inText(text: string, place: number): boolean {
  let open = false;
  for (let at = 0; at <= place; at++) {
    if (open && text[at] === "\\") {
      if (place <= at + (text[at + 1] === "u" ? 5 : 1)) return false;
      at++;
    } else if (text[at] === '"') open = !open;
  }
  return open;
}

describe("an answer passes its filter", () => {
  it("byte for byte where nothing is taken out, however it arrives split", () => {
    fc.assert(
      fc.property(written, splits, (text, lengths) => {
        expect(pass(text, everything, lengths).text).toBe(text);
      }),
      { numRuns: 300 },
    );
  });

  it("without the members whose names are not allowed, the others as they were", () => {
    fc.assert(
      fc.property(written, splits, fc.integer({ min: 0, max: 6 }), (text, lengths, seed) => {
        const dropped = (name: string | null) => name === null || (name.length + seed) % 3 === 0;
        const passed = pass(text, (name) => (dropped(name) ? "drop" : "pass"), lengths).text;
        const kept = Object.entries(JSON.parse(text)).filter(([name]) => !/[^\0-\x7f]/.test(name) || !name.length);
        const parsed = JSON.parse(passed ?? "null") as Record<string, unknown>;
        for (const [name, value] of kept) {
          if (dropped(name)) expect(Object.hasOwn(parsed, name)).toBe(false);
          else expect(parsed[name]).toEqual(value);
        }
      }),
      { numRuns: 300 },
    );
  });

  it("and what is kept of it equals what JSON.parse finds", () => {
    const keep = { maxBytes: 10_000, rewrite: (raw: Uint8Array) => raw };
    fc.assert(
      fc.property(fc.dictionary(fc.stringMatching(/^[ -~]{0,10}$/), fc.jsonValue()), splits, (value, lengths) => {
        const { filter, text } = pass(JSON.stringify(value), () => keep, lengths);
        expect(text).toBe(JSON.stringify(value));
        expect({ ...filter.members }).toEqual(JSON.parse(JSON.stringify(value)));
      }),
      { numRuns: 200 },
    );
  });

  it("only while it is the beginning of a JSON object: no change of a byte makes it take what JSON.parse refuses", () => {
    const changes = fc.tuple(written, fc.nat(), fc.integer({ min: 0, max: 126 }), splits);
    fc.assert(
      fc.property(changes, ([text, place, byte, lengths]) => {
        const bytes = encoder.encode(text);
        bytes[place % bytes.length] = byte;
        let isObject = false;
        try {
          const value: unknown = JSON.parse(decoder.decode(bytes));
          isObject = typeof value === "object" && value !== null && !Array.isArray(value);
        } catch {
          // Refused.
        }
        expect(pass(bytes, everything, lengths).text !== null).toBe(isObject);
      }),
      { numRuns: 1_000 },
    );
  });

  it.each([
    "{}{}",
    '{"a":01}',
    '{"a":1.}',
    '{"a":.5}',
    '{"a":1e}',
    '{"a":+1}',
    '{"a":tru}',
    '{"a":"\\x"}',
    '{"a":"\n"}',
  ])("not as %s", (text) => expect(pass(text, everything).text).toBeNull());
  it.each(["[]", "1", '"a"', "null", "", "  ", '{"a":1', '{"a":1,}', "{,}", '{"a" 1}', '{"a":[1}}', "{a:1}"])(
    "not as %s",
    (text) => expect(pass(text, everything, [1]).text).toBeNull(),
  );

  it.each(['\ufeff{"a":1}', ' \n{"a":-0.5e+10, "b":[0,1E2]}\r\n', '{"":{}, "":[[]]}'])("as %s", (text) =>
    expect(pass(text, everything, [1]).text).toBe(text.replace("\ufeff", "")),
  );

  it("no deeper than its stack", () => {
    const nested = (depth: number) => `{"a":${"[".repeat(depth)}${"]".repeat(depth)}}`;
    expect(pass(nested(DEEPEST - 1), everything).text).not.toBeNull();
    expect(pass(nested(DEEPEST), everything).text).toBeNull();
    expect(pass(`{"a":${"[".repeat(1_000_000)}`, everything).text).toBeNull();
  });

  it("in time that grows with its bytes, whatever they are", () => {
    const rows = [
      `{"a":[${"{},".repeat(1_000_000)}0]}`,
      `{"a":"${"\\\\".repeat(1_500_000)}"}`,
      `{"a":1${"0".repeat(3e6)}}`,
    ];
    for (const text of rows) {
      const startedAt = performance.now();
      expect(pass(text, everything, [65_536]).text).toBe(text);
      expect(performance.now() - startedAt).toBeLessThan(allowedMs(1_500));
    }
  });
});

describe("what is known of an answer that was not kept", () => {
  const CHAT = answerRules(CHAT_ANSWER);

  it("are its usage and id, how many elements its arrays have, and how much text stands in each member", () => {
    const answer = {
      id: "c1",
      choices: [{ message: { content: "häh\n" } }, { message: { content: "" } }],
      usage: { prompt_tokens: 1, cost: 3 },
      error: null,
    };
    const { filter } = pass(JSON.stringify(answer), CHAT, [3]);
    expect({ ...filter.members }).toEqual({ ...answer, choices: [undefined, undefined] });
    expect(filter.textBytes("choices")).toBe(encoder.encode("häh\\").length);
  });

  it("tells members that have ended only, the last of one name", () => {
    const { filter } = pass('{"usage":{"a":1},"usage":{"a":2},"choices":[{"text":"abc', CHAT, [1]);
    expect({ ...filter.members }).toEqual({ usage: { a: 2 } });
    expect(filter.textBytes("choices")).toBe(3);
  });

  it("holds no more than it must of members that claim to be small", () => {
    const long = "x".repeat(100_000);
    const { filter, text } = pass(`{"usage":{"a":"${long}"},"id":"${long}","model":"m"}`, CHAT, [1000]);
    expect(text).toBe('{"model":"m"}');
    expect({ ...filter.members }).toEqual({ usage: {}, id: "", model: "" });
  });
});

describe("a tenant sees of an answer", () => {
  const shown = (answer: object | string, names: ReadonlySet<string>) =>
    pass(typeof answer === "string" ? answer : JSON.stringify(answer), answerRules(names), [7]).text;

  it("no name outside the list, in no spelling", () => {
    expect(
      shown({ provider: "p", id: "c", "Pro\u0076ider": 1, choices: [], cost: 0.1, x_account: "a" }, CHAT_ANSWER),
    ).toBe('{"id":"c","choices":[]}');
    expect(shown('{"c\\u006fst":1,"i\\u0064":"c","Usage":{"cost":1}}', CHAT_ANSWER)).toBe('{"i\\u0064":"c"}');
    expect(shown({ billing: { payer: "developer" }, id: "r", account_id: 4 }, RESPONSE_ANSWER)).toBe('{"id":"r"}');
  });

  it("usage by the list, exactly as it stood where nothing else was in it", () => {
    const clean =
      '{ "usage" : {"prompt_tokens": 1,\n"completion_tokens":2, "prompt_tokens_details": {"cached_tokens": 0}, "completion_tokens_details":null} }';
    expect(shown(clean, CHAT_ANSWER)).toBe(clean);
    expect(shown({ usage: null }, CHAT_ANSWER)).toBe('{"usage":null}');
    const foreign = {
      prompt_tokens: 1,
      cost: 0.25,
      is_byok: false,
      cost_details: { upstream_inference_cost: 1 },
      prompt_tokens_details: { cached_tokens: 1, provider: "p" },
      completion_tokens: "2 by provider",
      total_tokens: -1,
    };
    expect(JSON.parse(shown({ usage: foreign }, CHAT_ANSWER) ?? "")).toEqual({
      usage: { prompt_tokens: 1, prompt_tokens_details: { cached_tokens: 1 } },
    });
    expect(shown({ usage: "0.25 USD", id: "c" }, CHAT_ANSWER)).toBe('{"id":"c"}');
    expect(shown('{"usage":{"total_tokens":"0.25 USD","total_tokens":1}}', CHAT_ANSWER)).toBe(
      '{"usage":{"total_tokens":1}}',
    );
  });

  it("no error beside it", () => {
    expect(shown({ error: { message: "10.0.0.1" }, id: "c" }, CHAT_ANSWER)).toBe('{"id":"c"}');
    expect(shown({ error: null }, RESPONSE_ANSWER)).toBe('{"error":null}');
  });
});

describe("a frame with usage", () => {
  const usage = { prompt_tokens: 1, completion_tokens: 2 };

  it("passes as it is where nothing else stands in its usage", () => {
    expect(withUsageAnew(JSON.stringify({ provider: "p", usage }), null)).toBeNull();
    expect(withUsageAnew(JSON.stringify({ response: { usage, provider: "p" } }), "response")).toBeNull();
  });

  it.each<[string, Endpoint, (usage: unknown) => object, object]>([
    [
      "chat.completions",
      chatCompletions,
      (usage) => ({ choices: [{ delta: {} }], usage }),
      { choices: [{ delta: {} }] },
    ],
    [
      "responses",
      createResponse,
      (usage) => ({ type: "response.completed", response: { id: "r", usage } }),
      { type: "response.completed", response: { id: "r" } },
    ],
  ])("loses a usage that is no object: %s", (_, endpoint, frame, passed) => {
    for (const foreign of ["0.25 USD", [{ cost: 1 }], 0.25, true, []]) {
      const reader = streamReaderOf(endpoint);
      reader.event(JSON.stringify(frame(foreign)));
      expect(JSON.parse(reader.rewrittenUsage() ?? "0")).toEqual(passed);
    }
    const reader = streamReaderOf(endpoint);
    reader.event(JSON.stringify(frame(null)));
    expect(reader.rewrittenUsage()).toBeUndefined();
  });

  it("is written anew in its usage only, where something does", () => {
    const chat = '{"a":12345678901234567890, "usage":{"prompt_tokens":1,"cost":1} ,"b":"\\u0041"}';
    expect(withUsageAnew(chat, null)).toBe('{"a":12345678901234567890, "usage":{"prompt_tokens":1} ,"b":"\\u0041"}');
    const response = '{"type":"x","response":{"id":"r","usage":{"cost":1,"input_tokens":1},"z":1.0}, "n":1}';
    expect(withUsageAnew(response, "response")).toBe(
      '{"type":"x","response":{"id":"r","usage":{"input_tokens":1},"z":1.0}, "n":1}',
    );
  });
});

describe("a chunk whose usage is null, without it", () => {
  it.each([
    ['{"id":"c","choices":[],"usage":null}', '{"id":"c","choices":[]}'],
    ['{"id":"c" , "usage" :\n null,"obfuscation":"aZ"}', '{"id":"c" ,"obfuscation":"aZ"}'],
    ['{"usage":null,"id":"c"}', '{"id":"c"}'],
    ['{"usage":null}', "{}"],
    ['{"id":"c","usage":{"cost":1},"usage":null}', '{"id":"c"}'],
    ['{"id":"c","\\u0075sage":null}', '{"id":"c"}'],
    ['{"a":{"b":1,"usage":null},"us\\u0061ge":null}', '{"a":{"b":1,"usage":null}}'],
    ['{"a":{"b":1,"usage":null},"usage":null}', '{"a":{"b":1,"usage":null}}'],
    ['{"a":{"b":1,"usage":null},"b":[{"usage":7}],"usage":null}', '{"a":{"b":1,"usage":null},"b":[{"usage":7}]}'],
    ['{"a":"x,\\"usage\\":null","usage":null}', '{"a":"x,\\"usage\\":null"}'],
    [
      '{"a":",\\"usage\\":null","b":12345678901234567890,"usage":null}',
      '{"a":",\\"usage\\":null","b":12345678901234567890}',
    ],
  ])("%s", (chunk, without) => {
    expect(withoutNullUsage(chunk)).toBe(without);
  });

  it("has the same other members, wherever it stood", () => {
    const members = fc.dictionary(fc.string(), fc.jsonValue()).map((rest) => Object.entries(rest));
    fc.assert(
      fc.property(members, fc.nat(), fc.nat(4), (entries, place, space) => {
        const rest = entries.filter(([name]) => name !== "usage" && name !== "__proto__");
        const at = place % (rest.length + 1);
        const chunk = Object.fromEntries([...rest.slice(0, at), ["usage", null], ...rest.slice(at)]);
        const without = withoutNullUsage(JSON.stringify(chunk, null, space));
        expect(JSON.parse(without)).toStrictEqual(JSON.parse(JSON.stringify(Object.fromEntries(rest))));
      }),
    );
  });
});
