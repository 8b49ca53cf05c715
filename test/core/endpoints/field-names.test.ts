/** Names that an engine may read as another one, and fields that no tenant may send: over the whole endpoint table. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Endpoint } from "../../../src/core/endpoints/endpoint.ts";
import { chatCompletions } from "../../../src/core/endpoints/inference/chat.ts";
import { imageGenerations } from "../../../src/core/endpoints/inference/images.ts";
import { createResponse } from "../../../src/core/endpoints/inference/responses.ts";
import { namesIn, placesOf } from "../../../src/core/endpoints/inspection/places.ts";
import { REFUSED } from "../../../src/core/endpoints/inspection/refused.ts";
import { ENDPOINTS } from "../../../src/core/endpoints/table.ts";
import { judged, judgedForm } from "../../support/judged.ts";
import { allowedMs } from "../../support/slowness.ts";

const JSON_ROWS = ENDPOINTS.filter(({ body }) => body.kind === "json");
const FORM_ROWS = ENDPOINTS.filter(({ body }) => body.kind === "form");
const named = (rows: readonly Endpoint[]) => rows.map((row) => [row.id, row] as const);

const SET = ["model", "user", "safety_identifier", "prompt_cache_key"];
const knownOf = (endpoint: Endpoint): string[] =>
  endpoint.body.schema ? [...namesIn(placesOf(endpoint.body.schema)), ...SET] : [];
const isTwinless = (name: string): boolean => name === "__proto__";
const listedOf = (endpoint: Endpoint): string[] =>
  [...new Set([...knownOf(endpoint), ...REFUSED.keys()])].filter((name) => !isTwinless(name));

const camel = (name: string) => name.replace(/_(\w)/g, (_, letter: string) => letter.toUpperCase());
const FOLDINGS: Readonly<Record<string, (name: string) => string>> = {
  "upper case": (name) => name.toUpperCase(),
  "a capital": (name) => `${name.charAt(0).toUpperCase()}${name.slice(1)}`,
  "the last letter": (name) => `${name.slice(0, -1)}${name.slice(-1).toUpperCase()}`,
  camelCase: camel,
  PascalCase: (name) => camel(`_${name}`),
  "kebab-case": (name) => name.replaceAll("_", "-"),
  "dots for underscores": (name) => name.replaceAll("_", " "),
  "no underscores": (name) => name.replaceAll("_", ""),
  "the Kelvin sign": (name) => name.replace("k", "\u212a"),
  "the long s": (name) => name.replace("s", "\u017f"),
  "the dotless i": (name) => name.replace("i", "\u0131"),
  "the dotted I": (name) => name.replace("i", "\u0130"),
  "full width": (name) => name.replace(/[a-z]/g, (letter) => String.fromCharCode(letter.charCodeAt(0) + 0xfee0)),
  mathematical: (name) => name.replace(/[a-z]/, (letter) => String.fromCodePoint(letter.charCodeAt(0) - 97 + 0x1d41a)),
  "a space behind": (name) => `${name} `,
  "a zero-width space": (name) => `\u200b${name}`,
  "a null byte": (name) => `${name}\u0000`,
};
const rowsByFolding = (rows: readonly Endpoint[]) =>
  rows.flatMap((row) => Object.entries(FOLDINGS).map(([how, spell]) => [row.id, how, row, spell] as const));

describe("twins of known, taken and refused names", () => {
  it.each(rowsByFolding(JSON_ROWS))("%s refuses them by %s, at the top and below it", (_id, _how, endpoint, spell) => {
    const listed = new Set(listedOf(endpoint));
    const passed = [...listed].flatMap((name) => {
      const twin = spell(name);
      if (listed.has(twin)) return [];
      const at = [judged(endpoint, { [twin]: 1 }), judged(endpoint, { x: [{ y: { [twin]: null } }] })];
      return at[0] === twin && at[1] === `x[0].y.${twin}` ? [] : [[name, ...at]];
    });
    expect(passed).toEqual([]);
  });

  it.each(rowsByFolding(FORM_ROWS))(
    "%s refuses them by %s, whole and as a part of a name",
    (_id, _how, endpoint, spell) => {
      const listed = new Set(listedOf(endpoint));
      const passed = [...listed].flatMap((name) => {
        const twin = spell(name);
        if (listed.has(twin)) return [];
        const at = [judgedForm(endpoint, twin), judgedForm(endpoint, `x[${twin}]`)];
        const isRefused = [twin, `x[${twin}]`].every((asked, index) =>
          [asked, "no form"].includes(at[index] as string),
        );
        return isRefused ? [] : [[name, ...at]];
      });
      expect(passed).toEqual([]);
    },
  );

  it("are refused whatever the case, the width and what stands between the letters", () => {
    const spelt = (name: string) =>
      fc.tuple(...[...name].map((letter) => fc.constantFrom(...spellings(letter)))).map((letters) => letters.join(""));
    const anyTwin = fc
      .constantFrom(...JSON_ROWS)
      .chain((endpoint) =>
        fc.constantFrom(...listedOf(endpoint)).chain((name) => fc.tuple(fc.constant(endpoint), spelt(name))),
      );
    fc.assert(
      fc.property(anyTwin, fc.array(fc.constantFrom("list", "object"), { maxLength: 6 }), ([endpoint, twin], nest) => {
        fc.pre(!listedOf(endpoint).includes(twin));
        const nested = nest.reduce<unknown>((inner, how) => (how === "list" ? [inner] : { x: inner }), { [twin]: 1 });
        expect(judged(endpoint, nest.length > 0 ? { x: nested } : { [twin]: 1 })).toContain(twin);
        expect(judged(endpoint, { metadata: nested })).toBe("taken");
      }),
      { numRuns: 300 },
    );
  });

  it("two spellings of one name in a body are refused: an engine that folds would take the last", () => {
    expect(judged(chatCompletions, { Model: "other" })).toBe("Model");
    expect(judged(chatCompletions, { max_tokens: 1, MAX_TOKENS: 9 })).toBe("MAX_TOKENS");
    expect(judged(chatCompletions, { stream_options: { INCLUDE_USAGE: false } })).toBe("stream_options.INCLUDE_USAGE");
    expect(judged(chatCompletions, { messages: [{ role: "user", content: "x", Content: "y" }] })).toBe(
      "messages[0].Content",
    );
    const part = { type: "image_url", image_url: { url: "https://a.example/", URL: "https://b.example/" } };
    expect(judged(chatCompletions, { messages: [{ role: "user", content: [part] }] })).toBe(
      "messages[0].content[0].image_url.URL",
    );
    expect(judged(createResponse, { Previous_Response_Id: "resp_1" })).toBe("Previous_Response_Id");
  });

  it.each(named(FORM_ROWS))(
    "%s: a form's known field has one name, not one for each reader of brackets",
    (_, endpoint) => {
      for (const name of ["model[]", "model[0]", "model.x", "[model]", "model[x][y]", "prompt[]", "file[]", "n[]"]) {
        const base = name.replace(/[[\].].*/, "");
        if (base !== "" && !knownOf(endpoint).includes(base) && !REFUSED.has(base)) continue;
        expect([name, judgedForm(endpoint, name)]).toEqual([name, name]);
      }
      expect(judgedForm(endpoint, "timestamp_granularities[]", "word")).toBe("taken");
      expect(judgedForm(endpoint, "metadata[Model]")).toBe("taken");
      expect(judgedForm(endpoint, "metadata[__proto__]")).toBe("metadata[__proto__]");
    },
  );

  it("the refusal says what to write", () => {
    const parsed = chatCompletions.parse({
      askedPath: "/",
      params: {},
      body: { kind: "json", value: { MODEL: "m" } },
    });
    expect(parsed).toMatchObject({ ok: false, refusal: { message: "`MODEL` is not accepted: write `model`." } });
  });

  it("a name as long as a body does not come back in the error", () => {
    const long = "k".repeat(1_000_000);
    expect(judged(chatCompletions, { [long]: { best_of: 2 } })?.length).toBeLessThan(200);
  });
});

function spellings(letter: string): string[] {
  if (letter === "_") return ["_", "", "-", "__"];
  const wide = /[a-z]/.test(letter) ? [String.fromCharCode(letter.charCodeAt(0) + 0xfee0)] : [];
  const odd: Record<string, string[]> = { k: ["\u212a"], s: ["\u017f"], i: ["\u0130", "\u0131"] };
  return [letter, letter.toUpperCase(), `${letter}\u200d`, ...wide, ...(odd[letter] ?? [])];
}

describe("refused fields", () => {
  it.each(named(JSON_ROWS))(
    "%s refuses each below the top, and at the top what it does not document",
    (_, endpoint) => {
      const documented = new Set(knownOf(endpoint));
      for (const name of REFUSED.keys()) {
        const fields = JSON.parse(`{"${name}":"asked"}`) as object;
        if (name !== "speed" || !documented.has(name)) expect(judged(endpoint, { x: [fields] })).toBe(`x[0].${name}`);
        if (!documented.has(name)) expect(judged(endpoint, fields)).toBe(name);
      }
    },
  );

  it.each(named(FORM_ROWS))("%s refuses each as a field and as a part of one", (_, endpoint) => {
    const documented = new Set(knownOf(endpoint));
    for (const name of REFUSED.keys()) {
      expect(judgedForm(endpoint, `x[${name}]`)).toBe(`x[${name}]`);
      if (!documented.has(name)) expect(judgedForm(endpoint, name)).toBe(name);
    }
  });

  it.each<[Endpoint, object, string]>([
    [chatCompletions, { n_predict: 100_000 }, "n_predict"],
    [chatCompletions, { max_output_tokens: 100_000 }, "max_output_tokens"],
    [chatCompletions, { options: { num_predict: 100_000 } }, "options.num_predict"],
    [chatCompletions, { parameters: { max_tokens: 100_000 } }, "parameters.max_tokens"],
    [chatCompletions, { chat_template_kwargs: { chat_template: "{{ x }}" } }, "chat_template_kwargs.chat_template"],
    [chatCompletions, { service_tier: "priority" }, "service_tier"],
    [chatCompletions, { modalities: ["text", "audio"] }, "modalities"],
    [chatCompletions, { store: true }, "store"],
    [chatCompletions, { previous_response_id: "resp_1" }, "previous_response_id"],
    [chatCompletions, { aws_bedrock_runtime_endpoint: "https://mine.example" }, "aws_bedrock_runtime_endpoint"],
    [chatCompletions, { tools: [{ google_search: {} }] }, "tools[0].type"],
    [createResponse, { n: 2 }, "n"],
    [createResponse, { max_tokens: 100_000 }, "max_tokens"],
    [createResponse, { tools: { type: "web_search" } }, "tools"],
    [createResponse, { tools: ["web_search"] }, "tools[0]"],
    [createResponse, { tools: [{ type: "Web_Search" }] }, "tools[0].type"],
    [createResponse, { tools: [{ type: "function" }, {}] }, "tools[1].type"],
    [createResponse, { messages: [{ role: "user", content: "x" }] }, "messages"],
    ...["input_ids", "inputs", "prompt_embeds", "prompt"].flatMap((name): [Endpoint, object, string][] => [
      [chatCompletions, { [name]: [[1], [2]] }, name],
      [createResponse, { [name]: [[1], [2]] }, name],
    ]),
    ...["n_images", "numberOfImages", "sampleCount", "samples", "batch_count", "count", "max_images"].map(
      (name): [Endpoint, object, string] => [imageGenerations, { [name]: 4 }, name],
    ),
    [imageGenerations, { sequential_image_generation: "auto" }, "sequential_image_generation"],
    [imageGenerations, { loras: [{ path: "https://media.example/l" }] }, "loras"],
    [imageGenerations, { background: true }, "background"],
    [imageGenerations, { x: { background: "yes" } }, "x.background"],
  ])("%# $id: %j -> %s", (endpoint, fields, param) => {
    expect(judged(endpoint, fields)).toBe(param);
  });

  it.each<[Endpoint, object]>([
    [chatCompletions, { best_of: 1, n: 2, models: [], background: false, conversation: null, plugins: [] }],
    [chatCompletions, { service_tier: "auto", modalities: ["text"], store: false, tools: [], extra_body: {} }],
    [chatCompletions, { service_tier: "default", enable_search: false, priority: 0, prediction: null }],
    [
      chatCompletions,
      { reasoning: { effort: "low", max_tokens: 100 }, thinking: { type: "enabled", budget_tokens: 9 } },
    ],
    [chatCompletions, { chat_template_kwargs: { enable_thinking: false }, ignore_eos: true, min_tokens: 4, top_k: 5 }],
    [chatCompletions, { guided_choice: ["a", "b"], stop_token_ids: [1], cache_salt: "x", transforms: ["middle-out"] }],
    [createResponse, { store: true, n: 1, speed: 1, reasoning: { max_tokens: 5 }, include: [], truncation: "auto" }],
    [imageGenerations, { background: "transparent", count: 1, samples: 1, loras: [], batch_size: 1 }],
    [imageGenerations, { sequential_image_generation: "disabled" }],
    [chatCompletions, { prompt: "x" }],
  ])("what asks for nothing, or breaks nothing, passes: %# %j", (endpoint, fields) => {
    expect(judged(endpoint, fields)).toBe("taken");
  });
});

it("a body of as many names as one may have is judged in well under a second", () => {
  const names = Array.from({ length: 125_000 }, (_, at) => `k\u00e9y_${at}_url`);
  const body = Object.fromEntries(names.map((name) => [name, ""]));
  const before = process.cpuUsage();
  expect(judged(chatCompletions, { x: body })).toBe("taken");
  const { user, system } = process.cpuUsage(before);
  expect((user + system) / 1000).toBeLessThan(allowedMs(2_000));
});
