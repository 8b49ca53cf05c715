/** `Idempotency-Key` through the pipeline: what identifies a call, who waits, and what a repeat is answered. */
import { afterEach, describe, expect, it, vi } from "vitest";
import type { Admission, AdmitRequest } from "../../src/core/account/hold.ts";
import { type EarlierCall, earlierRefusal } from "../../src/core/account/idempotency.ts";
import type { Endpoint } from "../../src/core/endpoints/endpoint.ts";
import { chatCompletions } from "../../src/core/endpoints/inference/chat.ts";
import { customInstances } from "../../src/core/endpoints/inference/custom.ts";
import { imageEdits, imageGenerations } from "../../src/core/endpoints/inference/images.ts";
import { createResponse } from "../../src/core/endpoints/inference/responses.ts";
import { videoGenerations } from "../../src/core/endpoints/inference/video.ts";
import { ENDPOINTS } from "../../src/core/endpoints/table.ts";
import { asId, type CallId } from "../../src/core/ids.ts";
import { aliasKey, type RoutingSnapshot } from "../../src/core/routing/routes.ts";
import { LONGEST_WAIT_MS } from "../../src/gateway/idempotency.ts";
import { serve } from "../../src/gateway/serve.ts";
import { ACCOUNT, type FakeOptions, fakeWorld, json, makeKey, ROUTING, ROW } from "../support/fake-ports.ts";

const BODY = { model: "chat", input: "tell me of a fox" };
const RESPONSE = {
  id: "resp_1",
  object: "response",
  status: "completed",
  output: [
    {
      id: "msg_1",
      type: "message",
      status: "completed",
      role: "assistant",
      content: [{ type: "output_text", text: "red", annotations: [] }],
    },
  ],
  usage: { input_tokens: 3, output_tokens: 1 },
};
const CREATED = {
  kind: "response",
  id: "resp_1",
  upstream: "u",
  targetModel: "second",
  model: "chat",
  totalTokens: 4,
} as const;
const earlier = (some: Partial<EarlierCall>): EarlierCall => ({
  callId: asId<CallId>("call-0"),
  state: "completed",
  status: 200,
  created: null,
  ...some,
});
const told = (call: EarlierCall): Admission & { ok: false } => ({
  ok: false,
  refusal: earlierRefusal(call),
  earlier: call,
});

const row = (model: string, kind: "image" | "video" | "custom") => [{ ...ROW, model, kind }];
const instance = { instanceId: 9, account: ACCOUNT, name: "mine", upstreams: ["u"], kind: "custom" as const };
const plain = { upstream: "u", priority: 0, weight: 1 };
const chatAlias = (alias: string) => ({
  [aliasKey(null, alias)]: { alias, account: null, targets: [{ ...plain, model: "first" }], retryOn: [] },
});
const ROUTES: RoutingSnapshot = {
  ...ROUTING,
  aliases: { ...chatAlias("chat"), ...chatAlias("chat2") },
  models: {
    ...ROUTING.models,
    image: row("image", "image").map((one) => ({ ...one, upstream: "u" })),
    video: row("video", "video").map((one) => ({ ...one, upstream: "u" })),
    "mine:9": row("mine:9", "custom"),
  },
  instances: { 9: { ...instance, customApiPath: "run" } },
};

interface Asked {
  readonly endpoint?: Endpoint;
  readonly body?: BodyInit | object;
  readonly headers?: Record<string, string>;
  readonly path?: string;
  readonly params?: Record<string, string>;
  readonly signal?: AbortSignal;
}

async function send(options: Partial<FakeOptions>, asked: Asked = {}) {
  const { endpoint = createResponse, body = BODY, headers = {}, path = "/", params = {}, signal } = asked;
  const world = fakeWorld({ script: () => json(RESPONSE), routing: ROUTES, ...options });
  const raw = body instanceof FormData || typeof body === "string" ? body : JSON.stringify(body);
  const request = new Request(`http://gateway.test${path}`, {
    method: "POST",
    headers: {
      authorization: `Bearer ${makeKey()}`,
      ...(!(raw instanceof FormData) && { "content-type": "application/json" }),
      "idempotency-key": "once",
      ...headers,
    },
    body: raw,
    ...(signal && { signal }),
  });
  const response = await serve(request, endpoint, params, world.ports);
  const text = await response.text();
  await world.idle();
  return { ...world, response, text, error: response.ok ? undefined : JSON.parse(text).error };
}

/** What a call says of itself to the account object. */
async function refOf(asked: Asked): Promise<AdmitRequest["idempotency"]> {
  const { admitted } = await send({ admit: () => ({ ok: false, refusal: { kind: "internal" } }) }, asked);
  return admitted[0]?.idempotency;
}

afterEach(() => void vi.useRealTimers());

describe("what identifies a call", () => {
  it("is said as HMACs, of everything that makes something and of nothing else", async () => {
    const ref = await refOf({});
    expect(ref).toEqual({
      keyHmac: expect.stringMatching(/^[0-9a-f]{64}$/),
      bodyHmac: expect.stringMatching(/^[0-9a-f]{64}$/),
    });
    expect(await refOf({ headers: { "idempotency-key": "twice" } })).toEqual({
      ...ref,
      keyHmac: expect.not.stringMatching(ref?.keyHmac ?? ""),
    });
    const chat = { endpoint: chatCompletions, body: { model: "chat", messages: [{ role: "user", content: "hi" }] } };
    expect(await refOf(chat)).toBeUndefined();
    expect(ENDPOINTS.filter(({ creates, retry }) => creates !== null && retry === "safe")).toEqual([]);
  });

  it.each<[string, Asked, Asked]>([
    ["another field", {}, { body: { ...BODY, input: "another" } }],
    ["another model", {}, { body: { ...BODY, model: "chat2" } }],
    ["another cap", {}, { body: { ...BODY, max_output_tokens: 20 } }],
    ["another user", { body: { ...BODY, user: "a" } }, { body: { ...BODY, user: "b" } }],
  ])("%s is another body", async (_, one, other) => {
    const bodyOf = async (asked: Asked) =>
      (await send({ admit: () => ({ ok: false, refusal: { kind: "internal" } }) }, asked)).admitted[0]?.idempotency
        ?.bodyHmac;
    expect(await bodyOf(one)).not.toBe(await bodyOf(other));
  });

  it("a form is the same under each boundary, and another where a file differs", async () => {
    const form = (content: string) => {
      const data = new FormData();
      data.set("model", "image");
      data.set("prompt", "a fox");
      data.set("image", new File([content], "fox.png", { type: "image/png" }));
      return data;
    };
    const [one, same, other] = await Promise.all(
      ["x", "x", "y"].map((content) => refOf({ endpoint: imageEdits, body: form(content) })),
    );
    expect(one).toBeDefined();
    expect(same).toEqual(one);
    expect(other?.bodyHmac).not.toBe(one?.bodyHmac);
  });

  it("bytes for a custom instance are known by path, type and content", async () => {
    const path = "/inference-instances/9/proxy/run";
    const custom = { endpoint: customInstances, path, params: { instance_id: "9", custom_api_path: "run" } };
    const one = await refOf({ ...custom, body: "abc" });
    expect(one).toBeDefined();
    expect(await refOf({ ...custom, body: "abc" })).toEqual(one);
    expect(await refOf({ ...custom, body: "abd" })).not.toEqual(one);
    expect(await refOf({ ...custom, body: "abc", headers: { "content-type": "text/plain" } })).not.toEqual(one);
  });

  it("a key that is too long is 400, before anything is held", async () => {
    const { response, error, admitted } = await send({}, { headers: { "idempotency-key": "k".repeat(256) } });
    expect([response.status, error.param, admitted.length]).toEqual([400, "idempotency-key", 0]);
  });
});

describe("a repeat of a call that was completed", () => {
  it("is read back by the id where it lives, charges nothing and makes nothing", async () => {
    const { response, text, sent, settled, released } = await send({
      admit: () => told(earlier({ created: CREATED })),
    });
    expect([response.status, JSON.parse(text)]).toEqual([200, RESPONSE]);
    expect(response.headers.get("idempotent-replayed")).toBe("true");
    expect(sent.map(({ target, request: { method, path } }) => [target.model, method, path])).toEqual([
      ["second", "GET", "/v1/responses/resp_1"],
    ]);
    expect([settled, released]).toEqual([[], []]);
  });

  it("is a stream where one was asked for", async () => {
    const asked = { body: { ...BODY, stream: true } };
    const { response, text } = await send({ admit: () => told(earlier({ created: CREATED })) }, asked);
    expect(response.headers.get("content-type")).toBe("text/event-stream");
    const events = text
      .split("\n\n")
      .filter(Boolean)
      .map((event) => event.slice("data: ".length));
    expect(events.at(-1)).toBe("[DONE]");
    const seen = events.slice(0, -1).map((event) => JSON.parse(event));
    expect(seen.map(({ type }) => type.replace("response.", ""))).toEqual([
      ...["created", "in_progress", "output_item.added", "content_part.added"],
      ...["output_text.delta", "output_text.done", "content_part.done", "output_item.done", "completed"],
    ]);
    expect(seen.map(({ sequence_number }) => sequence_number)).toEqual(seen.map((_, at) => at));
    expect(seen[0].response).toMatchObject({ id: "resp_1", status: "in_progress", output: [] });
    expect(seen[4].delta).toBe("red");
    expect(seen.at(-1).response).toEqual(RESPONSE);
  });

  it("is the acknowledgement of a video job without asking anybody", async () => {
    const created = { ...CREATED, kind: "video_job" as const, id: "job_1", model: "video" };
    const asked = { endpoint: videoGenerations, body: { model: "video", prompt: "a cat" } };
    const { response, text, sent } = await send({ inquire: () => told(earlier({ status: 202, created })) }, asked);
    expect([response.status, JSON.parse(text)]).toEqual([202, { id: "job_1", status: "processing", model: "video" }]);
    expect(sent).toEqual([]);
  });

  it("is 409, not to be repeated, where its answer is not kept", async () => {
    const asked = { endpoint: imageGenerations, body: { model: "image", prompt: "a fox" } };
    const { response, error, sent } = await send({ admit: () => told(earlier({})) }, asked);
    expect([response.status, response.headers.get("x-should-retry"), error.code]).toEqual([
      409,
      "false",
      "idempotency_error",
    ]);
    expect(error.message).toContain("completed");
    expect(sent).toEqual([]);
  });

  it("is the same 409 where the upstream no longer keeps what was made", async () => {
    const { response } = await send({ script: () => json({}, 404), admit: () => told(earlier({ created: CREATED })) });
    expect([response.status, response.headers.get("x-should-retry")]).toEqual([409, "false"]);
  });

  it("may be asked for again where the upstream is down", async () => {
    const { response } = await send({ script: () => json({}, 503), admit: () => told(earlier({ created: CREATED })) });
    expect([response.status, response.headers.get("x-should-retry")]).toEqual([503, null]);
  });
});

describe("a repeat of a call whose outcome nobody knows", () => {
  it.each([
    [504, 504],
    [499, 504],
    [0, 504],
    [502, 502],
  ])("that ended in %i is %i, not to be repeated, and never sent again", async (ended, status) => {
    const { response, sent } = await send({ admit: () => told(earlier({ state: "unknown", status: ended })) });
    expect([response.status, response.headers.get("x-should-retry")]).toEqual([status, "false"]);
    expect(sent).toEqual([]);
  });

  it("is answered as the first one was", async () => {
    const first = await send({ script: () => ({ kind: "lost" }) });
    const status = first.released[0]?.status ?? 0;
    const second = await send({ admit: () => told(earlier({ state: "unknown", status })) });
    expect(second.response.status).toBe(first.response.status);
    expect(second.error).toEqual(first.error);
  });
});

describe("a repeat of a call that still runs", () => {
  const running = () => told(earlier({ state: "running", status: 0 }));
  const grant = (request: AdmitRequest): Admission => ({
    ok: true,
    owned: [],
    rates: {},
    hold: {
      callId: request.callId,
      keyId: asId("key_1"),
      amountNanoUsd: 1,
      livesMs: 60_000,
      longestCallMs: 3_600_000,
      onDisconnect: "cancel",
    },
  });

  it("waits for it, and gets what it made", async () => {
    let asked = 0;
    const { response, text } = await send({
      admit: () => (asked++ < 2 ? running() : told(earlier({ created: CREATED }))),
    });
    expect([response.status, JSON.parse(text).id, asked]).toEqual([200, "resp_1", 3]);
  });

  it("is carried out in its place where that was not executed", async () => {
    let asked = 0;
    const { response, sent, settled } = await send({
      admit: (request) => (asked++ < 1 ? running() : grant(request)),
    });
    expect(response.status).toBe(200);
    expect(sent.map(({ request: { method } }) => method)).toEqual(["POST"]);
    expect(settled).toHaveLength(1);
  });

  it("is told after 30 s to come back: 409, worth a repeat", async () => {
    vi.useFakeTimers({ toFake: ["setTimeout", "Date"] });
    const outcome = send({ admit: running });
    let told = false;
    outcome.finally(() => (told = true));
    let waited = 0;
    for (; !told; waited += 500) {
      await new Promise((resolve) => setImmediate(resolve));
      await vi.advanceTimersByTimeAsync(500);
    }
    const { response, admitted } = await outcome;
    expect([response.status, response.headers.get("retry-after"), response.headers.get("x-should-retry")]).toEqual([
      409,
      "1",
      null,
    ]);
    expect(admitted.length).toBeLessThan(30);
    expect(waited).toBeGreaterThan(LONGEST_WAIT_MS);
  });

  it("is not waited for by a client that left", async () => {
    const leave = new AbortController();
    const { admitted } = await send(
      {
        admit: () => {
          leave.abort();
          return running();
        },
      },
      { signal: leave.signal },
    );
    expect(admitted).toHaveLength(1);
  });
});
