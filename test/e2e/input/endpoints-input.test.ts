/**
 * What each endpoint takes and refuses, at the documented limits and one beyond: refusals are told in OpenAI's shape,
 * name the field, hold nothing and never reach the service.
 */
import { afterEach, beforeAll, describe, expect, test } from "vitest";
import { wav } from "../../support/audio.ts";
import { IN_FULL } from "../../support/in-full.ts";
import {
  type Asked,
  ask,
  askUntilTold,
  callIdOf,
  callOf,
  ENDPOINT_NAMES,
  FORM_CALLS,
  instanceFor,
  JSON_CALLS,
  type Names,
  serviceFor,
  useOf,
} from "../../support/service.ts";
import type { ErrorBody, Tenant } from "../../support/tenant.ts";
import { world } from "../../support/world.ts";

const { operator } = world();
let tenant: Tenant;
let names: Names;

beforeAll(async () => {
  tenant = await operator.tenant({ balance_usd: 20 });
  names = await serviceFor(operator, tenant);
});
afterEach(async () => {
  expect(await tenant.audit()).toMatchObject({ ok: true, open_holds: 0, held_usd: 0 });
});

const call = (endpoint: string, fields: Record<string, unknown> = {}): Asked =>
  callOf(endpoint, names[useOf(endpoint)], fields);

const heard = (response: Response): Promise<unknown[]> => operator.sandbox.callsOf(callIdOf(response));

async function expectRefused(asked: Asked, status: number, code: string, param?: string | null): Promise<string> {
  const response = await askUntilTold(tenant, asked);
  const { error } = (await response.json()) as ErrorBody;
  expect([response.status, error?.code, error?.message]).toEqual([status, code, expect.any(String)]);
  expect(Object.keys(error).sort()).toEqual(["code", "message", "param", "type"]);
  if (param !== undefined) expect(error.param).toBe(param);
  expect(await heard(response)).toEqual([]);
  return error.message;
}

async function expectTaken(asked: Asked): Promise<void> {
  const response = await ask(tenant, asked);
  const text = await response.text();
  expect([response.status, response.ok || text]).toEqual([200, true]);
}

describe("limits, at them and one beyond", () => {
  const texts = (count: number) => Array.from({ length: count }, (_, at) => `document ${at}`);
  const within: [string, Record<string, unknown>][] = [
    ["speech", { input: "x".repeat(4_000) }],
    ["speech", { input: "🎈".repeat(4_000) }],
    ["speech", { speed: 0.5 }],
    ["speech", { speed: 2 }],
    ["rerank", { documents: texts(1_000) }],
    ["rerank", { documents: ["one"], top_n: 1 }],
    ["images", { prompt: "x".repeat(1_000), n: 1 }],
    // "About 1000 characters" is the service's to judge.
    ["images", { prompt: "x".repeat(1_001) }],
    ["embeddings", { input: texts(256) }],
    ["responses", { temperature: 2, top_p: 1, max_output_tokens: 1 }],
    ["chat", { temperature: 0, presence_penalty: -2, frequency_penalty: 2, max_tokens: 1 }],
    ["transcription", { language: "" }],
    ["transcription", { language: "de", temperature: "0", prompt: "names" }],
    ...["512x512", "768x768", "1024x1024", "1024x768", "768x1024"].map((size): [string, Record<string, unknown>] => [
      "images",
      { size },
    ]),
  ];
  test.each(within)("%s takes %.60j", async (endpoint, fields) => expectTaken(call(endpoint, fields)));

  const beyond: [string, Record<string, unknown>, string][] = [
    ["speech", { input: "x".repeat(4_001) }, "input"],
    ["speech", { input: "🎈".repeat(4_001) }, "input"],
    ["speech", { input: "" }, "input"],
    ["speech", { speed: 0.49 }, "speed"],
    ["speech", { speed: 2.01 }, "speed"],
    ["speech", { response_format: "flac" }, "response_format"],
    ["speech", { voice: undefined }, "voice"],
    ["rerank", { documents: texts(1_001) }, "documents"],
    ["rerank", { documents: [] }, "documents"],
    ["rerank", { top_n: 0 }, "top_n"],
    ["images", { n: 2 }, "n"],
    ["images", { size: "640x480" }, "size"],
    ["images", { response_format: "png" }, "response_format"],
    ["embeddings", { input: [] }, "input"],
    ["embeddings", { encoding_format: "hex" }, "encoding_format"],
    ["responses", { temperature: 2.1 }, "temperature"],
    ["responses", { input: undefined }, "input"],
    ["transcription", { response_format: "xml" }, "response_format"],
    ["transcription", { language: "english" }, "language"],
    ["transcription", { temperature: "warm" }, "temperature"],
    ["transcription", { file: "no file" }, "file"],
    ["edits", { image: "no file" }, "image"],
    ["clone", { reference_audio: "no file" }, "reference_audio"],
    ["clone", { input: "" }, "input"],
    ["localEdit", { edited_text: "" }, "edited_text"],
  ];
  test.each(beyond)("%s refuses %.60j", async (endpoint, fields, param) => {
    await expectRefused(call(endpoint, fields), 400, "invalid_request_error", param);
  });

  test("thirty minutes of sound are heard, a second more is refused; what is no sound is, too", async () => {
    const minutes = (ms: number) => wav({ ms, rate: 8_000, bits: 8 });
    await expectTaken(call("transcription", { file: minutes(30 * 60_000) }));
    const message = await expectRefused(
      call("transcription", { file: minutes(30 * 60_000 + 1_000) }),
      400,
      "invalid_request_error",
      "file",
    );
    expect(message).toContain("30 minutes");
    for (const bytes of [new Uint8Array(5_000).fill(65), new Uint8Array([0x25, 0x50, 0x44, 0x46])]) {
      await expectRefused(call("transcription", { file: bytes }), 400, "invalid_request_error", "file");
    }
  });
});

describe("each documented status, with its shape", () => {
  let poor: Tenant;
  let poorNames: Names;
  let boundKey: string;
  let unpriced: string;
  beforeAll(async () => {
    poor = await operator.tenant({ balance_usd: 0 });
    poorNames = await serviceFor(operator, poor);
    boundKey = (await operator.key(tenant.account, { models: ["other-*"] })).key;
    unpriced = await operator.alias(tenant, [{ upstream: "sandbox", model: "never-priced" }]);
  });

  test.each(ENDPOINT_NAMES)(
    "%s: 401 for a bad key, 402 without balance or price, 403, 404, 400 for another kind",
    async (endpoint) => {
      const use = useOf(endpoint);
      const noKey = { headers: { authorization: "Bearer sk-tg-wrong" } };
      const { path, init } = call(endpoint);
      const headers = { ...(init.headers as Record<string, string>), ...noKey.headers };
      await expectRefused({ path, init: { ...init, headers } }, 401, "invalid_api_key");

      await expectRefused(callOf(endpoint, "no-such-model"), 404, "model_not_found", "model");
      await expectRefused(callOf(endpoint, unpriced), 402, "model_not_priced", "model");
      const another = names[use === "chat" ? "speech" : "chat"];
      await expectRefused(callOf(endpoint, another), 400, "model_not_supported", "model");

      const boundHeaders = { ...(init.headers as Record<string, string>), authorization: `Bearer ${boundKey}` };
      await expectRefused({ path, init: { ...init, headers: boundHeaders } }, 403, "model_not_allowed", "model");

      const refused = await poor.fetch(path, callOf(endpoint, poorNames[use]).init);
      expect([refused.status, ((await refused.json()) as ErrorBody).error.code]).toEqual([402, "insufficient_quota"]);
      expect(refused.headers.get("x-should-retry")).toBe("false");
      expect(await heard(refused)).toEqual([]);
    },
  );

  test("an instance of another kind, and instances where none are served", async () => {
    const { model } = await instanceFor(operator, tenant, "chat");
    for (const endpoint of ENDPOINT_NAMES.filter((name) => name !== "chat")) {
      await expectRefused(callOf(endpoint, model), 400, "model_not_supported", "model");
    }
  });
});

/** docs/design.md, section 4; each with a value that asks for something. */
const REFUSED: Record<string, unknown> = {
  best_of: 2,
  web_search_options: {},
  models: ["llama-70b"],
  api_base: "https://elsewhere.example",
  base_url: "https://elsewhere.example",
  api_key: "sk-mine",
  extra_headers: { "x-a": "b" },
  background: true,
  conversation: "conv_1",
  file_id: "file_1",
};

describe("fields that would break a bound or leave the house", () => {
  const places: Record<string, (field: string, value: unknown) => Record<string, unknown>> = {
    "at the top": (field, value) => ({ [field]: value }),
    "one level down": (field, value) => ({ x: { [field]: value } }),
    "in a list, far down": (field, value) => ({ x: { a: [{ b: [[{ c: { [field]: value } }]] }] } }),
  };
  /** In short, endpoints share the fields: each field at each place once. test/core has all of them at each row. */
  const fieldsOf = (endpoints: string[], endpoint: string) =>
    Object.entries(REFUSED).filter((_, at) => IN_FULL || at % endpoints.length === endpoints.indexOf(endpoint));
  const bodies = Object.keys(JSON_CALLS);
  const json = bodies.flatMap((endpoint) => Object.keys(places).map((place) => [endpoint, place] as const));
  test.each(json)("%s refuses each %s", async (endpoint, place) => {
    for (const [field, value] of fieldsOf(bodies, endpoint)) {
      const asked = call(endpoint, places[place]?.(field, value));
      const message = await expectRefused(asked, 400, "invalid_request_error");
      expect(message).toContain(field);
    }
  });

  test.each(Object.keys(JSON_CALLS))(
    "%s refuses hosted tools, stored prompts and other spellings of keys",
    async (endpoint) => {
      await expectRefused(
        call(endpoint, { tools: [{ type: "web_search" }] }),
        400,
        "invalid_request_error",
        "tools[0].type",
      );
      await expectRefused(call(endpoint, { prompt: { id: "pmpt_1" } }), 400, "invalid_request_error", "prompt.id");
      const { path, init } = call(endpoint, { x: 1 });
      const escaped = String(init.body).replace('"x":1', '"\\u0061pi_key":"sk-mine"');
      await expectRefused({ path, init: { ...init, body: escaped } }, 400, "invalid_request_error", "api_key");
    },
  );

  const spellings = [
    (field: string) => field,
    (field: string) => `extra[${field}]`,
    (field: string) => `a.b[0].${field}`,
  ];
  const forms = Object.keys(FORM_CALLS);
  test.each(forms)("%s refuses each as a form's field, alone and as a part of a name", async (endpoint) => {
    for (const [field, value] of fieldsOf(forms, endpoint)) {
      for (const spell of spellings) {
        const fields = { [spell(field)]: typeof value === "string" ? value : JSON.stringify(value) };
        await expectRefused(call(endpoint, fields), 400, "invalid_request_error", spell(field));
      }
    }
  });

  test("other unknown fields pass", async () => {
    for (const endpoint of [...Object.keys(JSON_CALLS), ...Object.keys(FORM_CALLS)]) {
      await expectTaken(call(endpoint, { unknown_field: "x", another: "1" }));
    }
  });
});

describe("what the OpenAI API has and this service has not is a local 404 that says what is served", () => {
  test.each([
    ["GET", "/v1/files"],
    ["POST", "/v1/files"],
    ["DELETE", "/v1/files/file-1"],
    ["POST", "/v1/uploads"],
    ["POST", "/v1/batches"],
    ["GET", "/v1/batches/batch_1"],
    ["POST", "/v1/assistants"],
    ["POST", "/v1/threads"],
    ["POST", "/v1/threads/runs"],
    ["POST", "/v1/vector_stores"],
    ["POST", "/v1/moderations"],
    ["POST", "/v1/completions"],
    ["POST", "/v1/fine_tuning/jobs"],
    ["POST", "/v1/audio/translations"],
    ["POST", "/v1/images/variations"],
    ["GET", "/v1/chat/completions"],
    ["GET", "/v1/chat/completions/chatcmpl-1"],
    ["GET", "/v1/responses"],
    ["POST", "/v1/conversations"],
    ["DELETE", "/v1/models/llama-7b"],
    ["GET", "/v1/realtime"],
    ["GET", "/inference-instances"],
    ["GET", "/_sandbox/executions"],
    ["GET", "/regions/us-east-1/v1/models"],
  ])("%s %s", async (method, path) => {
    const message = await expectRefused({ path, init: { method } }, 404, "not_found", null);
    expect(message).toContain(`${method} ${path} is not served here`);
    expect(message).toMatch(/GET \/openapi\.json lists what is\.$/);
  });
});
