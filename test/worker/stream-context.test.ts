/**
 * Background work after an answer is limited to 30 s in production, and a request's context ends with its answer unless
 * the body handed out is a stream of the Worker's own: a native body is pumped without it. Local workerd enforces
 * neither, so what is tried here is the structure that production needs: the body is the readable end of our own pipe,
 * and what settles the call is over as soon as the body is. (A long stream: test/e2e/failure/region-down.test.ts.)
 */
import { env } from "cloudflare:workers";
import { afterAll, afterEach, beforeAll, expect, it, vi } from "vitest";
import worker from "../../src/index.ts";
import { done, settled } from "../support/worker/operator.ts";
import { allowedMs } from "../support/worker/slowness.ts";

/** Every pipe that the Worker makes. */
const pipes = new Set<unknown>();
class Watched extends IdentityTransformStream {
  constructor() {
    super();
    pipes.add(this.readable);
  }
}

const SETTLED_WITHIN_MS = 500;
const GIVEN_UP_AFTER_MS = 30_000;

let key: string;

beforeAll(async () => {
  vi.stubGlobal("IdentityTransformStream", Watched);
  await done("PUT", "/upstreams/streams", { base_url: "https://streams.test", api_key: "k" });
  const tokens = { input_tokens: { cost_usd: 1 }, output_tokens: { cost_usd: 1 } };
  await done("PUT", "/models/words", { kind: "chat", prices: tokens, max_output_tokens: 100, upstream: "streams" });
  await done("PUT", "/models/sounds", {
    kind: "speech",
    prices: { audio_seconds: { cost_usd: 0.01 } },
    upstream: "streams",
  });
  await done("POST", "/accounts", { id: "streams", name: "s", balance_usd: 10 });
  key = (await done("POST", "/accounts/streams/keys", { name: "k" })).key;
  await settled();
});
afterEach(() => vi.restoreAllMocks());
afterAll(async () => {
  vi.unstubAllGlobals();
  await settled();
});

const frame = (value: unknown) => `data: ${JSON.stringify(value)}\n\n`;
const word = (content: string) => frame({ id: "c", choices: [{ index: 0, delta: { content } }], usage: null });
const finish = frame({ id: "c", choices: [{ index: 0, delta: {}, finish_reason: "stop" }], usage: null });
const usage = finish + frame({ id: "c", choices: [], usage: { prompt_tokens: 3, completion_tokens: 2 } });
const WORDS = [word("a"), word("b"), word("c"), usage, "data: [DONE]\n\n"];
const response = (status: string) => ({ id: "resp_1", object: "response", status, output: [], model: "words" });
const RESPONSE = [
  frame({ type: "response.created", response: response("in_progress") }),
  frame({ type: "response.output_text.delta", delta: "a", item_id: "i", output_index: 0, content_index: 0 }),
  frame({
    type: "response.completed",
    response: { ...response("completed"), usage: { input_tokens: 3, output_tokens: 2, total_tokens: 5 } },
  }),
];
const MESSAGES = { model: "words", messages: [{ role: "user", content: "Hi" }], stream: true };
const SPEECH = { model: "sounds", voice: "v", input: "Hello", response_format: "mp3" };

const cases: [string, string, object, string, readonly string[]][] = [
  ["events, read one by one", "/v1/chat/completions", MESSAGES, "text/event-stream", WORDS],
  [
    "events on the runtime's own pipe",
    "/v1/chat/completions",
    { ...MESSAGES, stream_options: { include_usage: true } },
    "text/event-stream",
    WORDS,
  ],
  [
    "events of a response",
    "/v1/responses",
    { model: "words", input: "Hi", stream: true },
    "text/event-stream",
    RESPONSE,
  ],
  ["plain bytes", "/v1/audio/speech", SPEECH, "audio/mpeg", ["aa".repeat(500), "bb".repeat(500), "cc".repeat(500)]],
];

it.each(cases)(
  "%s: the body is our own pipe's, and the call is settled when it ends",
  async (_, path, body, type, parts) => {
    const upstream = new Response(streamOf(parts), { headers: { "content-type": type } });
    vi.spyOn(globalThis, "fetch").mockResolvedValue(upstream);
    const background: Promise<unknown>[] = [];
    const context = { waitUntil: (work: Promise<unknown>) => void background.push(work) } as ExecutionContext;
    const answer = await worker.fetch(
      new Request(`http://gateway.test${path}`, {
        method: "POST",
        headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
        body: JSON.stringify(body),
      }) as Request<unknown, IncomingRequestCfProperties>,
      env,
      context,
    );
    expect(answer.status).toBe(200);
    expect(pipes.has(answer.body)).toBe(true);
    expect(answer.body).not.toBe(upstream.body);

    expect(await openHolds()).toBe(1);
    const reader = (answer.body as ReadableStream<Uint8Array>).getReader();
    while (!(await reader.read()).done);
    const endedAtMs = Date.now();
    await vi.waitFor(async () => expect(await openHolds()).toBe(0), { timeout: GIVEN_UP_AFTER_MS, interval: 20 });
    const settledAtMs = Date.now();
    await Promise.all(background);
    const overAtMs = Date.now();
    expect(settledAtMs - endedAtMs).toBeLessThan(await allowedMs(SETTLED_WITHIN_MS));
    expect(overAtMs - endedAtMs).toBeLessThan(await allowedMs(2 * SETTLED_WITHIN_MS));
  },
);

const openHolds = async (): Promise<number> => (await done("GET", "/audit/streams")).open_holds;

const encoder = new TextEncoder();

/** One after the other, so that the runtime's pipe has the time to take over. */
function streamOf(parts: readonly string[]): ReadableStream<Uint8Array> {
  const left = [...parts];
  return new ReadableStream({
    type: "bytes",
    async pull(controller) {
      const part = left.shift();
      if (part !== undefined) {
        await scheduler.wait(30);
        controller.enqueue(encoder.encode(part));
        return;
      }
      controller.close();
      controller.byobRequest?.respond(0);
    },
  });
}
