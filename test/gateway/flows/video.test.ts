import { describe, expect, it } from "vitest";
import type { Endpoint } from "../../../src/core/endpoints/endpoint.ts";
import { videoGenerations, videoJob, videoPrices, videoQuote } from "../../../src/core/endpoints/inference/video.ts";
import type { ModelRow } from "../../../src/core/pricing/prices.ts";
import type { NamedLimit } from "../../../src/core/refusal.ts";
import { aliasKey, type RoutingSnapshot } from "../../../src/core/routing/routes.ts";
import type { UpstreamAnswer } from "../../../src/gateway/ports.ts";
import { serve } from "../../../src/gateway/serve.ts";
import { answer, type FakeOptions, fakeWorld, json, makeKey, ROUTING, type Script } from "../../support/fake-ports.ts";

const ROW: ModelRow = {
  model: "video",
  kind: "video",
  fromMs: 0,
  costNanoUsd: { video_tokens_720p: 7_000_000_000, video_tokens_4k_reference: 5_400_000_000 },
  priceNanoUsd: {},
  free: false,
};
const target = (model: string, priority: number) => ({ upstream: "u", model, priority, weight: 1 });
const routingTo = (...models: string[]): RoutingSnapshot => ({
  ...ROUTING,
  aliases: {
    [aliasKey(null, "video")]: {
      alias: "video",
      account: null,
      targets: models.map((model, index) => target(model, index)),
      retryOn: [],
    },
  },
  models: { video: [ROW] },
});
const QUOTE = {
  pricing_tier: "the operator's",
  unit_price_per_1m_tokens: 99,
  estimated_tokens_min: 100_000,
  estimated_tokens_max: 120_000,
  estimated_cost_min_usd: 99,
  estimated_cost_max_usd: 99,
  currency: "USD",
  note: "the upstream's note",
};
const ACK = { id: "vid_1", status: "processing", model: "service-video", cost_usd: 99 };
const BODY = { model: "video", prompt: "a cat" };

/** Quotes as told, then answers submissions by the script. */
const quotedThen =
  (submission: Script, quote: () => UpstreamAnswer = () => json(QUOTE)): Script =>
  (call) =>
    call.request.path === "/v1/video/quote" ? quote() : submission(call);

async function ask(
  endpoint: Endpoint,
  options: FakeOptions,
  { body = BODY as unknown, params = {}, headers = {} as Record<string, string> } = {},
) {
  const world = fakeWorld({ routing: routingTo("first"), ...options });
  const request = new Request(`http://gateway.test${endpoint.path}`, {
    method: endpoint.method,
    headers: { authorization: `Bearer ${makeKey()}`, "content-type": "application/json", ...headers },
    ...(endpoint.method === "POST" && { body: JSON.stringify(body) }),
  });
  const response = await serve(request, endpoint, params, world.ports);
  const text = await response.text();
  await world.idle();
  return { ...world, response, body: text ? JSON.parse(text) : undefined };
}
const submit = (script: Script, options: Partial<FakeOptions> = {}, more: Parameters<typeof ask>[2] = {}) =>
  ask(videoGenerations, { script, ...options }, more);
const paths = (world: { sent: readonly { request: { path: string } }[] }) =>
  world.sent.map(({ request }) => request.path);
const never: Script = () => {
  throw new Error("no upstream call was expected");
};

describe("a submission", () => {
  it("is quoted, held for the quote's upper end, sent, put on the account's books, and then acknowledged", async () => {
    const said = await submit(
      quotedThen(() => json(ACK, 202)),
      {},
      { body: { ...BODY, duration: 20 } },
    );
    expect(said.response.status).toBe(202);
    expect(said.body).toEqual({ id: "vid_1", status: "processing", model: "service-video" });
    expect(paths(said)).toEqual(["/v1/video/quote", "/v1/video/generations"]);
    for (const { body } of said.sent) expect(body).toEqual({ ...BODY, model: "first", duration: 15 });
    expect(said.asked).toMatchObject([{ purpose: "submission", model: "video", unit: "video_tokens_720p" }]);
    expect(said.admitted).toMatchObject([
      { endpoint: "video.generations", job: true, bound: { fixed: { video_tokens_720p: 120_000 } } },
    ]);
    expect(said.begun).toEqual([
      {
        id: "vid_1",
        callId: "call-1",
        upstream: "u",
        targetModel: "first",
        region: "r1",
        unit: "video_tokens_720p",
        estimate: { minTokens: 100_000, maxTokens: 120_000 },
        costNanoUsd: 7_000_000_000,
      },
    ]);
    expect([said.settled, said.released]).toEqual([[], []]);
  });

  it("with a reference video is held at that rate", async () => {
    const body = { ...BODY, resolution: "4k", reference_video_url: "https://media.example/a.mp4" };
    const { admitted, begun } = await submit(
      quotedThen(() => json(ACK, 202)),
      {},
      { body },
    );
    expect(admitted[0]?.bound).toEqual({ fixed: { video_tokens_4k_reference: 120_000 } });
    expect(begun[0]).toMatchObject({ unit: "video_tokens_4k_reference", costNanoUsd: 5_400_000_000 });
  });

  it("that breaks a rule is refused in the video's error shape, before anything is asked, held or sent", async () => {
    const body = { ...BODY, reference_audio_url: "https://media.example/a.wav" };
    const said = await submit(never, {}, { body });
    expect(said.response.status).toBe(400);
    expect(said.body).toEqual({ error: expect.stringContaining("rule 5"), code: "invalid_request" });
    expect([said.asked, said.admitted, said.sent]).toEqual([[], [], []]);
  });

  it("of a key that may not is refused without an upstream call", async () => {
    const refusal = {
      kind: "named_limit",
      limit: videoGenerations.limits[0] as NamedLimit,
      retryAfterMs: 12_000,
    } as const;
    const said = await submit(never, { inquire: () => ({ ok: false, refusal }) });
    expect(said.response.status).toBe(429);
    expect(said.response.headers.get("retry-after")).toBe("12");
    expect(said.body).toEqual({ error: expect.any(String), code: "rate_limit_exceeded" });
    expect(said.admitted).toEqual([]);
  });

  it.each<[string, object]>([
    ["no figures", {}],
    ["negative", { ...QUOTE, estimated_tokens_min: -1 }],
    ["a fraction", { ...QUOTE, estimated_tokens_max: 120_000.5 }],
    ["text", { ...QUOTE, estimated_tokens_max: "120000" }],
    ["nothing at all", { ...QUOTE, estimated_tokens_min: 0, estimated_tokens_max: 0 }],
    ["the wrong way round", { ...QUOTE, estimated_tokens_min: 120_001 }],
    ["more than any video takes", { ...QUOTE, estimated_tokens_max: 100_000_001 }],
    ["an error under status 200", { error: "x", code: "internal_error" }],
  ])("whose quote is %s is refused with 502; nothing is held, nothing is submitted", async (_, quote) => {
    const said = await submit(quotedThen(never, () => json(quote)));
    expect(said.response.status).toBe(502);
    expect(said.body.code).toBe("upstream_error");
    expect([said.admitted, paths(said)]).toEqual([[], ["/v1/video/quote"]]);
  });

  it("whose quote is refused gets the words of the contract, with nothing held", async () => {
    const code = "reference_media_unreachable";
    const said = await submit(quotedThen(never, () => json({ error: "cannot fetch, says u.test", code }, 400)));
    expect(said.response.status).toBe(400);
    expect(said.body).toEqual({ error: "cannot fetch, says [removed]", code });
    expect(said.admitted).toEqual([]);
  });

  it("that could not be recorded is not acknowledged: 504, not to be repeated; its hold is left to end by itself", async () => {
    const begin = async () => {
      throw new Error("the object is gone");
    };
    const said = await submit(
      quotedThen(() => json(ACK, 202)),
      { begin },
    );
    expect(said.response.status).toBe(504);
    expect(said.response.headers.get("x-should-retry")).toBe("false");
    expect(JSON.stringify(said.body)).not.toContain("vid_1");
    expect(said.begun.length).toBeGreaterThan(1);
    expect([said.settled, said.released]).toEqual([[], []]);
  });

  it.each<[string, () => UpstreamAnswer]>([
    ["a lost connection", () => ({ kind: "lost" })],
    ["silence", () => ({ kind: "timeout" })],
    ["half an answer", () => answer(cut('{"id":"vid_'))],
    ["a 504 that says nothing more", () => json({}, 504)],
    ["a 524", () => json({}, 524)],
  ])("that ends in %s is sent once: 504, not to be repeated, the operator's loss", async (_, script) => {
    const said = await submit(quotedThen(script), { routing: routingTo("first", "second") });
    expect(said.response.status).toBe(504);
    expect(said.response.headers.get("x-should-retry")).toBe("false");
    expect(paths(said)).toEqual(["/v1/video/quote", "/v1/video/generations"]);
    expect(said.released).toMatchObject([{ lostTries: 1 }]);
  });

  it.each<[string, () => UpstreamAnswer]>([
    ["a refused connection", () => ({ kind: "refused" })],
    ["a 503 that says nothing more", () => json({}, 503)],
    ["capacity_exceeded", () => json({ error: "full", code: "capacity_exceeded" }, 429)],
  ])("goes from %s to the next target", async (_, first) => {
    const said = await submit(
      quotedThen(({ target }) => (target.model === "first" ? first() : json(ACK, 202))),
      { routing: routingTo("first", "second") },
    );
    expect(said.response.status).toBe(202);
    expect(said.begun).toMatchObject([{ targetModel: "second" }]);
  });
});

function cut(start: string): ReadableStream<Uint8Array> {
  return new ReadableStream({
    start(controller) {
      controller.enqueue(new TextEncoder().encode(start));
      setTimeout(() => controller.error(new Error("Network connection lost.")), 5);
    },
  });
}

describe("the contract's codes at submission", () => {
  const CODES: [code: string, upstream: number, status: number, retry: boolean][] = [
    ["invalid_request", 400, 400, false],
    ["reference_media_unreachable", 400, 400, false],
    ["reference_media_too_long", 400, 400, false],
    ...["input_text", "input_image", "input_video", "input_audio", "output_text", "output_image"].map(
      (kind): [string, number, number, boolean] => [`content_filtered.${kind}`, 400, 400, false],
    ),
    ["content_filtered.output_video", 400, 400, false],
    ["content_filtered.output_audio", 400, 400, false],
    ["content_filtered.input_hologram", 400, 400, false],
    ["capacity_exceeded", 429, 429, true],
    ["generation_timeout", 504, 504, true],
    ["internal_error", 502, 502, true],
    ["model_unavailable", 502, 502, false],
    ["model_unavailable", 503, 503, false],
    ["model_unavailable", 500, 503, false],
  ];

  it.each(CODES)(
    "%s (%i) is %i, worth a repeat: %s; nothing is charged or lost, and nobody else is asked",
    async (code, upstream, status, retry) => {
      const said = await submit(
        quotedThen(() => json({ error: "no", code }, upstream)),
        { routing: routingTo("first") },
      );
      expect(said.response.status).toBe(status);
      expect(said.body).toEqual({ error: "no", code });
      expect(said.response.headers.get("x-should-retry")).toBe(retry ? null : "false");
      expect(said.released).toMatchObject([{ lostTries: 0 }]);
      expect([said.begun, said.settled]).toEqual([[], []]);
    },
  );

  it("model_unavailable is final, whatever its status: the second target is not asked", async () => {
    for (const status of [500, 502, 503]) {
      const said = await submit(
        quotedThen(() => json({ error: "no", code: "model_unavailable" }, status)),
        { routing: routingTo("first", "second") },
      );
      expect(said.body.code).toBe("model_unavailable");
      expect(paths(said)).toHaveLength(2);
    }
  });

  it("capacity_exceeded of every target is the tenant's, with the wait that it names", async () => {
    const said = await submit(
      quotedThen(() => json({ error: "full", code: "capacity_exceeded" }, 429, { "retry-after": "9" })),
      { routing: routingTo("first", "second") },
    );
    expect([said.response.status, said.body.code, said.response.headers.get("retry-after")]).toEqual([
      429,
      "capacity_exceeded",
      "9",
    ]);
  });

  it("an upstream's 429 fails the submission that met it, and none after it", async () => {
    let full = true;
    const script = quotedThen(() => (full ? json({ error: "x", code: "rate_limit_exceeded" }, 429) : json(ACK, 202)));
    const world = fakeWorld({ routing: routingTo("first"), script });
    const once = () => {
      const headers = { authorization: `Bearer ${makeKey()}`, "content-type": "application/json" };
      const request = new Request("http://gateway.test/", { method: "POST", headers, body: JSON.stringify(BODY) });
      return serve(request, videoGenerations, {}, world.ports);
    };
    for (let time = 0; time < 5; time++) expect((await once()).status).toBe(503);
    full = false;
    for (let time = 0; time < 5; time++) expect((await once()).status).toBe(202);
    await world.idle();
  });

  it("the upstream's 401 is the operator's trouble: the tenant is told 503, and no word of it", async () => {
    const said = await submit(quotedThen(() => json({ error: "bad key sk-1", code: "invalid_request" }, 401)));
    expect(said.response.status).toBe(503);
    expect(said.body.code).toBe("no_healthy_upstream");
    expect(said.logged).toContainEqual(expect.objectContaining({ event: "upstream_refuses_operator" }));
  });
});

describe("what costs nothing", () => {
  const inquire: FakeOptions["inquire"] = () => ({
    ok: true,
    prices: { video_tokens_720p: 10_000_000_000, video_tokens_720p_reference: 6_450_000_000 },
    rates: { requests: { limit: 5, remaining: 4, resetMs: 1_000 } },
  });

  it("a quote has the upstream's tokens and the tenant's amounts; the upstream's are not shown", async () => {
    const said = await ask(videoQuote, { script: () => json(QUOTE), inquire });
    expect(said.response.status).toBe(200);
    expect(said.body).toEqual({
      pricing_tier: "720p",
      unit_price_per_1m_tokens: 10,
      estimated_tokens_min: 100_000,
      estimated_tokens_max: 120_000,
      estimated_cost_min_usd: 1,
      estimated_cost_max_usd: 1.2,
      currency: "USD",
      note: expect.any(String),
    });
    expect(said.body.note).not.toContain("upstream");
    expect(said.response.headers.get("x-ratelimit-remaining-requests")).toBe("4");
    expect(said.asked).toMatchObject([{ purpose: "quote", endpoint: "video.quote" }]);
    expect([said.admitted, said.settled, said.released]).toEqual([[], [], []]);
  });

  it("a quote over a limit, or of a rate without a price, is refused without an upstream call", async () => {
    const refusal = { kind: "model_not_priced", model: "video" } as const;
    const said = await ask(videoQuote, { script: never, inquire: () => ({ ok: false, refusal }) });
    expect([said.response.status, said.body.code]).toEqual([402, "model_not_priced"]);
  });

  it("the price list has the tenant's rates, and asks no upstream", async () => {
    const said = await ask(videoPrices, { script: never, inquire }, { params: { model: "video" } });
    expect(said.body).toEqual({
      model: "video",
      currency: "USD",
      rates: [
        { resolution: "720p", reference_video: false, usd_per_1m_tokens: 10 },
        { resolution: "720p", reference_video: true, usd_per_1m_tokens: 6.45 },
      ],
    });
    expect(said.asked).toMatchObject([{ purpose: "prices", unit: null }]);
  });

  it("the price list of a model that is none of video's is refused", async () => {
    const routing = { ...routingTo("first"), models: { video: [{ ...ROW, kind: "chat" as const }] } };
    const said = await ask(videoPrices, { script: never, routing }, { params: { model: "video" } });
    expect([said.response.status, said.body.code]).toEqual([400, "model_not_supported"]);
    const unknown = await ask(videoPrices, { script: never }, { params: { model: "nothing" } });
    expect([unknown.response.status, unknown.body.code]).toEqual([404, "model_not_found"]);
  });

  it("a poll is the account object's answer, as it gives it", async () => {
    const document = { id: "vid_1", status: "processing" };
    const job = { ok: true, document, region: "eu-west-1" } as const;
    const said = await ask(videoJob, { script: never, job }, { params: { id: "vid_1" } });
    expect([said.response.status, said.body]).toEqual([200, document]);
    expect(said.response.headers.get("x-service-region")).toBe("eu-west-1");
    const none = await ask(videoJob, { script: never }, { params: { id: "vid_2" } });
    expect([none.response.status, none.body]).toEqual([404, { error: expect.any(String), code: "not_found" }]);
  });
});

describe("a repeat", () => {
  const earlier = {
    callId: "call-0" as never,
    state: "completed",
    status: 202,
    created: {
      kind: "video_job",
      id: "vid_0",
      upstream: "u",
      targetModel: "first",
      model: "video",
      totalTokens: 0,
    },
  } as const;
  const refusal = { kind: "idempotency", why: "not_kept" } as const;

  it("of what was submitted gets that job, though the limit is reached, without a quote", async () => {
    const headers = { "idempotency-key": "k" };
    const said = await submit(never, { inquire: () => ({ ok: false, refusal, earlier }) }, { headers });
    expect([said.response.status, said.body]).toEqual([202, { id: "vid_0", status: "processing", model: "video" }]);
    expect(said.asked[0]?.idempotency).toMatchObject({ keyHmac: expect.stringMatching(/^[0-9a-f]{64}$/) });
    expect([said.admitted, said.sent]).toEqual([[], []]);
  });

  it("is named by the body where there is no key: a first one begins anew, an SDK's own repeat joins", async () => {
    const first = await submit(quotedThen(() => json(ACK, 202)));
    const again = await submit(
      quotedThen(() => json(ACK, 202)),
      {},
      { headers: { "x-stainless-retry-count": "1" } },
    );
    const zero = await submit(
      quotedThen(() => json(ACK, 202)),
      {},
      { headers: { "x-stainless-retry-count": "0" } },
    );
    const [a, b, c] = [first, again, zero].map(({ admitted }) => admitted[0]?.idempotency);
    expect([a?.implied, b?.implied, c?.implied]).toEqual(["first", "again", "first"]);
    expect(a?.keyHmac).toBe(b?.keyHmac);
    const other = await submit(
      quotedThen(() => json(ACK, 202)),
      {},
      { body: { ...BODY, prompt: "a dog" } },
    );
    expect(other.admitted[0]?.idempotency?.keyHmac).not.toBe(a?.keyHmac);
  });
});
