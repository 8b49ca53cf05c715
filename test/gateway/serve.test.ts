import fc from "fast-check";
import { describe, expect, it, vi } from "vitest";
import type { Progress } from "../../src/core/account/hold.ts";
import { MAX_JSON_BYTES } from "../../src/core/endpoints/body.ts";
import { chatCompletions } from "../../src/core/endpoints/inference/chat.ts";
import type { CallId } from "../../src/core/ids.ts";
import { serve } from "../../src/gateway/serve.ts";
import {
  answer,
  type FakeOptions,
  fakeWorld,
  json,
  makeKey,
  ROUTING,
  type Script,
  scriptedStream,
} from "../support/fake-ports.ts";

const BODY = { model: "chat", messages: [{ role: "user", content: "hello" }] };
const COMPLETION = {
  id: "c1",
  object: "chat.completion",
  choices: [{ index: 0, message: { role: "assistant", content: "hi" }, finish_reason: "stop" }],
  usage: { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 },
};
const never: Script = () => {
  throw new Error("no upstream call was expected");
};

function request(body: unknown, headers: Record<string, string> = {}, signal?: AbortSignal): Request {
  return new Request("http://gateway.test/v1/chat/completions", {
    method: "POST",
    headers: { authorization: `Bearer ${makeKey()}`, "content-type": "application/json", ...headers },
    body: typeof body === "string" || body instanceof Uint8Array ? (body as BodyInit) : JSON.stringify(body),
    ...(signal && { signal }),
  });
}

async function call(options: FakeOptions, body: unknown = BODY, headers: Record<string, string> = {}) {
  const world = fakeWorld(options);
  const response = await serve(request(body, headers), chatCompletions, {}, world.ports);
  const text = await response.text();
  await world.idle();
  return { ...world, response, text, body: text.startsWith("{") ? JSON.parse(text) : undefined };
}

describe("a JSON call", () => {
  it("is admitted once, forwarded with the target's model and the admitted cap, relayed as it came and settled", async () => {
    const { response, text, admitted, sent, settled, released } = await call({ script: () => json(COMPLETION) });
    expect(response.status).toBe(200);
    expect(text).toBe(JSON.stringify(COMPLETION));
    expect(Object.fromEntries(response.headers)).toMatchObject({
      "x-request-id": "call-1",
      "x-service-request-id": "call-1",
      "x-service-region": "r1",
      "cache-control": "no-store",
      "x-ratelimit-limit-requests": "50",
      "x-ratelimit-remaining-requests": "49",
      "x-ratelimit-reset-requests": "2s",
    });
    expect(admitted).toHaveLength(1);
    expect(sent.map(({ body }) => body)).toEqual([{ ...BODY, model: "first:1", max_tokens: 1000 }]);
    expect(settled).toEqual([
      expect.objectContaining({
        callId: "call-1",
        outcome: "completed",
        status: 200,
        reading: { source: "exact", usage: { input_tokens: 3, output_tokens: 2 } },
        servedBy: { upstream: "u", model: "first:1", region: "r1" },
        costNanoUsd: 7,
      }),
    ]);
    expect(released).toEqual([]);
  });

  it("sends users' names as pseudonyms that differ between accounts only by key material", async () => {
    const { sent } = await call({ script: () => json(COMPLETION) }, { ...BODY, user: "alice" });
    expect(sent[0]?.body.user).toMatch(/^[0-9a-f]{64}$/);
  });

  it.each([
    ["an error under status 200", () => json({ error: { message: "x" } })],
    ["no JSON", () => answer("<html>", { headers: { "content-type": "application/json" } })],
    ["half a body", () => answer(brokenBody('{"choices":['), {})],
  ])("passes %s over and asks the next target", async (_, first) => {
    let calls = 0;
    const { response, settled } = await call({ script: () => (calls++ === 0 ? first() : json(COMPLETION)) });
    expect(response.status).toBe(200);
    expect(settled.map(({ servedBy }) => servedBy.model)).toEqual(["second:2"]);
  });
});

function brokenBody(start: string): ReadableStream<Uint8Array> {
  return new ReadableStream({
    start(controller) {
      controller.enqueue(new TextEncoder().encode(start));
      setTimeout(() => controller.error(new Error("Network connection lost.")), 5);
    },
  });
}

describe("failover", () => {
  it.each([
    ["503", () => json({}, 503)],
    ["429", () => json({}, 429)],
    ["a refused connection", () => ({ kind: "refused" }) as const],
    ["a lost connection", () => ({ kind: "lost" }) as const],
    ["a timeout", () => ({ kind: "timeout" }) as const],
  ])("goes from %s to the second target, and charges once", async (_, first) => {
    const { response, sent, settled, released } = await call({
      script: ({ target }) => (target.model === "first:1" ? first() : json(COMPLETION)),
    });
    expect(response.status).toBe(200);
    expect(sent.map(({ target }) => target.model)).toEqual(["first:1", "second:2"]);
    expect(settled).toHaveLength(1);
    expect(released).toEqual([]);
  });

  it("ends in 503 with the shortest wait an upstream named, and the hold released, when every target is down", async () => {
    const { response, body, settled, released } = await call({
      script: ({ target }) => json({}, 503, { "retry-after": target.model === "first:1" ? "7" : "30" }),
    });
    expect(response.status).toBe(503);
    expect(response.headers.get("retry-after")).toBe("7");
    expect(body.error.code).toBe("no_healthy_upstream");
    expect(settled).toEqual([]);
    expect(released).toEqual([expect.objectContaining({ status: 503, reason: "no_healthy_upstream", lostTries: 0 })]);
  });

  it.each([400, 404, 413, 422])(
    "passes the upstream's words of a %i, without its host, and asks nobody else",
    async (status) => {
      const { response, body, sent, released } = await call({
        script: () => json({ error: { message: "bad at u.test", param: "seed", code: "bad_seed" } }, status),
      });
      expect(response.status).toBe(status);
      expect(body.error).toEqual({
        message: "bad at [removed]",
        type: "invalid_request_error",
        param: "seed",
        code: "bad_seed",
      });
      expect(sent).toHaveLength(1);
      expect(released).toHaveLength(1);
    },
  );

  it.each([401, 402, 403])("hides an upstream's %i, which is the operator's problem, behind 503", async (status) => {
    const { response, text, logged } = await call({
      script: () => json({ error: { message: "key sk-upstream" } }, status),
    });
    expect(response.status).toBe(503);
    expect(text).not.toContain("sk-upstream");
    expect(logged).toContainEqual(expect.objectContaining({ event: "upstream_refuses_operator", status }));
  });

  it("says 500 of an upstream in its own words, as 502, and releases the hold as possibly executed", async () => {
    const { response, text, sent, released } = await call({
      script: () => json({ error: { message: "secret" } }, 500),
    });
    expect(response.status).toBe(502);
    expect(text).not.toContain("secret");
    expect(sent).toHaveLength(1);
    expect(released).toEqual([expect.objectContaining({ lostTries: 1 })]);
  });

  it("says a redirect is no answer and follows it nowhere", async () => {
    const { response, text } = await call({
      script: () => answer(null, { status: 302, headers: { location: "http://evil.test" } }),
    });
    expect(response.status).toBe(502);
    expect(text + JSON.stringify([...response.headers])).not.toContain("evil");
  });
});

describe("who may call", () => {
  const good = makeKey();
  const wrongTag = `${good.slice(0, -1)}${good.endsWith("a") ? "b" : "a"}`;

  it.each([
    ["no key", { authorization: "" }, "No API key"],
    ["another scheme", { authorization: "Basic abc" }, "a scheme other than Bearer"],
    ["a key without a scheme", { authorization: good }, "no `Bearer` before the key"],
    ["an empty key beside a good one", { authorization: "Bearer ", "x-api-key": good }, "no key in it"],
    ["a byte order mark before the key", { authorization: `Bearer \u00ef\u00bb\u00bf${good}` }, "byte order mark"],
    ["quotes around the key", { authorization: `Bearer "${good}"` }, "quotes"],
    ["a malformed key", { authorization: "Bearer sk-other" }, "malformed"],
    ["a wrong tag", { authorization: `Bearer ${wrongTag}` }, "not known"],
    ["an unknown key", { authorization: `Bearer ${makeKey(2)}` }, "not known"],
    ["two keys that differ", { "x-api-key": makeKey(2) }, "Two different"],
  ])("%s is 401 in OpenAI's shape, before the body is read", async (_, headers, words) => {
    const world = fakeWorld({ script: never });
    const asked = request("{broken", headers as Record<string, string>);
    if ("authorization" in headers && headers.authorization === "") asked.headers.delete("authorization");
    const response = await serve(asked, chatCompletions, {}, world.ports);
    expect(response.status).toBe(401);
    expect(await response.json()).toEqual({
      error: {
        message: expect.stringContaining(words),
        type: "invalid_request_error",
        param: null,
        code: "invalid_api_key",
      },
    });
    expect(asked.bodyUsed).toBe(false);
    expect(world.admitted).toEqual([]);
  });

  it.each(["x-api-key", "api-key"])("the key is taken from %s too, and twice the same key is one", async (header) => {
    const options = { script: () => json(COMPLETION) };
    expect((await call(options, BODY, { [header]: good })).response.status).toBe(200);
    const world = fakeWorld(options);
    const asked = request(BODY);
    asked.headers.delete("authorization");
    asked.headers.set(header, good);
    expect((await serve(asked, chatCompletions, {}, world.ports)).status).toBe(200);
  });

  it("a key without its tag's pepper costs no look-up", async () => {
    const world = fakeWorld({ script: never });
    const find = vi.spyOn(world.ports.directory, "findCaller");
    await serve(request(BODY, { authorization: `Bearer ${wrongTag}` }), chatCompletions, {}, world.ports);
    expect(find).not.toHaveBeenCalled();
  });

  it("an outage of the directory is 503, never 401", async () => {
    const world = fakeWorld({ script: never });
    vi.spyOn(world.ports.directory, "findCaller").mockRejectedValue(new Error("down"));
    expect((await serve(request(BODY), chatCompletions, {}, world.ports)).status).toBe(503);
  });
});

describe("what is refused before anything is held or sent", () => {
  it.each<[string, unknown, Record<string, string>, number, string | null]>([
    ["broken JSON", '{"model":', {}, 400, null],
    ["an empty body", "", {}, 400, null],
    ["a JSON text", '"x"', {}, 400, null],
    ["a missing field", { model: "chat" }, {}, 400, "messages"],
    ["a wrong content type", BODY, { "content-type": "text/plain" }, 400, null],
    ["an unknown model", { ...BODY, model: "nope" }, {}, 404, "model"],
    ["an instance of nobody", { ...BODY, model: "x:1" }, {}, 401, "model"],
    ["a body over the limit", new Uint8Array(MAX_JSON_BYTES + 1).fill(0x20), {}, 413, null],
  ])("%s", async (_, body, headers, status, param) => {
    const { response, body: error, admitted } = await call({ script: never }, body, headers);
    expect(response.status).toBe(status);
    expect(error.error).toMatchObject({ message: expect.any(String), param });
    expect(admitted).toEqual([]);
  });

  it("a model without a price is 402", async () => {
    const routing = { ...ROUTING, models: {} };
    expect((await call({ script: never, routing })).response.status).toBe(402);
  });

  it("a model of another kind is 400", async () => {
    const row = ROUTING.models.chat?.[0];
    if (!row) throw new Error("the fixture has a row");
    const routing = { ...ROUTING, models: { chat: [{ ...row, kind: "embedding" as const }] } };
    const { response, body } = await call({ script: never, routing });
    expect([response.status, body.error.param]).toEqual([400, "model"]);
  });

  it("what the account object refuses, in its words, with the limits' headers", async () => {
    const { response, body, sent } = await call({
      script: never,
      admit: () => ({
        ok: false,
        refusal: { kind: "rate_limit", level: "key", limit: "rpm_limit", allowed: 5, retryAfterMs: 1200 },
        rates: { requests: { limit: 5, remaining: 0, resetMs: 366_000 } },
      }),
    });
    expect(response.status).toBe(429);
    expect(response.headers.get("retry-after")).toBe("2");
    expect(response.headers.get("x-ratelimit-reset-requests")).toBe("6m6s");
    expect(body.error.code).toBe("rate_limit_exceeded");
    expect(sent).toEqual([]);
  });

  it("an account object that cannot be asked: 503, and no upstream call", async () => {
    const { response, sent } = await call({ script: never, admit: () => Promise.reject(new Error("down")) });
    expect(response.status).toBe(503);
    expect(sent).toEqual([]);
  });
});

const frame = (value: unknown) => `data: ${JSON.stringify(value)}\n\n`;
const delta = (content: string) => frame({ id: "c1", choices: [{ index: 0, delta: { content } }], usage: null });
const STOP = frame({ id: "c1", choices: [{ index: 0, delta: {}, finish_reason: "stop" }], usage: null });
const USAGE = STOP + frame({ id: "c1", choices: [], usage: { prompt_tokens: 3, completion_tokens: 2 } });
const DONE = "data: [DONE]\n\n";
const STREAM = { ...BODY, stream: true };
/** What passes where usage was not asked for. */
const unasked = (text: string) => text.replaceAll(',"usage":null', "");
const ASKED = { ...STREAM, stream_options: { include_usage: true } };

async function open(
  options: Partial<FakeOptions> = {},
  body: object = STREAM,
  limits?: { idleMs: number; totalMs: number },
) {
  const upstream = scriptedStream(limits);
  const world = fakeWorld({ script: () => upstream.answer, ...options });
  const leave = new AbortController();
  const response = await serve(request(body, {}, leave.signal), chatCompletions, {}, world.ports);
  const reader = (response.body as ReadableStream<Uint8Array>).getReader();
  const read = async () => new TextDecoder().decode((await reader.read()).value);
  const readAll = async () => {
    const chunks: Uint8Array[] = [];
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return Buffer.concat(chunks).toString();
      chunks.push(value);
    }
  };
  return { upstream, world, response, reader, read, readAll, leave };
}

describe("a stream", () => {
  it("hands each frame on before the next one is sent", async () => {
    const { upstream, read } = await open();
    for (const word of ["a", "b", "c"]) {
      upstream.send(delta(word));
      expect(await read()).toBe(unasked(delta(word)));
    }
  });

  it("leaves out the usage that only the gateway asked for, and settles by it", async () => {
    const { upstream, readAll, world, response } = await open();
    for (const part of [delta("a"), USAGE, DONE]) upstream.send(part);
    upstream.close();
    expect(await readAll()).toBe(unasked(delta("a") + STOP) + DONE);
    await world.idle();
    const health = world.ports.upstreams.health.of({ upstream: "u", model: "first:1" });
    expect([health.usageKnown, health.wholeKnown]).toEqual([true, true]);
    expect(response.headers.get("content-type")).toBe("text/event-stream");
    expect(response.headers.get("cache-control")).toBe("no-store, no-transform");
    expect(world.settled).toEqual([
      expect.objectContaining({
        outcome: "completed",
        reading: { source: "exact", usage: { input_tokens: 3, output_tokens: 2 } },
      }),
    ]);
  });

  it("without `usage: null` passes byte for byte to a caller who did not ask for usage", async () => {
    const words = `: ping\r\n\r\nid: 1\r\ndata:${JSON.stringify({ id: "c1", choices: [] })}\r\n\r\n${unasked(delta("a"))}`;
    const { upstream, readAll } = await open();
    upstream.send(words + unasked(STOP) + DONE);
    upstream.close();
    expect(await readAll()).toBe(words + unasked(STOP) + DONE);
  });

  it("is settled at its last event, not when the upstream closes the connection", async () => {
    const { upstream, read, world } = await open({}, ASKED);
    upstream.send(delta("a") + USAGE + DONE);
    await read();
    await vi.waitFor(() => expect(world.settled).toHaveLength(1), { timeout: 20_000 });
    upstream.close();
  });

  it.each([
    ["asked for usage", ASKED, delta("ü€😀") + USAGE + DONE, delta("ü€😀") + USAGE + DONE],
    [
      "did not",
      STREAM,
      `: ping\r\n\r\n${delta("ü€😀")}${USAGE}${DONE}`,
      `: ping\r\n\r\n${unasked(delta("ü€😀") + STOP)}${DONE}`,
    ],
  ])("gives a caller who %s the same bytes for any split of the upstream's", async (_, body, whole, expected) => {
    const bytes = new TextEncoder().encode(whole);
    await fc.assert(
      fc.asyncProperty(fc.array(fc.nat(bytes.length), { maxLength: 20 }), async (points) => {
        const cuts = [...new Set(points)].sort((a, b) => a - b);
        const { upstream, readAll } = await open({}, body);
        for (const [index, from] of [0, ...cuts].entries())
          upstream.send(bytes.slice(from, cuts[index] ?? bytes.length));
        upstream.close();
        expect(await readAll()).toBe(expected);
      }),
      { numRuns: 40 },
    );
  });

  it("without a blank line behind its last event is whole all the same", async () => {
    const { upstream, readAll, world } = await open();
    upstream.send(`${delta("a")}data: [DONE]`);
    upstream.close();
    expect(await readAll()).toContain("[DONE]");
    await world.idle();
    expect(world.settled[0]?.outcome).toBe("completed");
  });

  it.each<[string, (upstream: ReturnType<typeof scriptedStream>) => void]>([
    ["cut", (upstream) => upstream.cut()],
    ["closed without [DONE]", (upstream) => upstream.close()],
    ["garbled", (upstream) => upstream.send("data: {no json\n\n")],
    ["ended by an error event", (upstream) => upstream.send(frame({ error: { message: "secret of the upstream" } }))],
    [
      "closed in the middle of an event",
      (upstream) => {
        upstream.send('data: {"choices":[');
        upstream.close();
      },
    ],
    ["silent for too long", () => undefined],
  ])(
    "that is %s ends with an error event and an aborted body, and what was delivered is charged",
    async (_, breakIt) => {
      const { upstream, read, reader, world } = await open({}, STREAM, { idleMs: 60, totalMs: 60_000 });
      upstream.send(delta("a"));
      expect(await read()).toBe(unasked(delta("a")));
      breakIt(upstream);
      const error = await read();
      expect(JSON.parse(error.trim().replace(/^data: /, ""))).toMatchObject({ error: { code: "upstream_error" } });
      expect(error).not.toContain("secret");
      await expect(reader.read()).rejects.toThrow();
      await world.idle();
      expect(world.settled).toEqual([
        expect.objectContaining({
          outcome: "stream_broken",
          reading: { source: "own_count", usage: { input_tokens: 16, output_tokens: 1 } },
        }),
      ]);
      expect(world.sent).toHaveLength(1);
    },
  );

  it("is not begun on a 200 that is no stream: the next target is asked", async () => {
    const upstream = scriptedStream();
    const {
      world,
      upstream: _,
      readAll,
    } = await open({
      script: ({ target }) => (target.model === "first:1" ? json({ error: {} }) : upstream.answer),
    });
    upstream.send(DONE);
    upstream.close();
    await readAll();
    expect(world.sent).toHaveLength(2);
  });
});

describe("a client that leaves", () => {
  it.each(["signal", "body"])(
    "a stream (%s): the upstream is closed at once and what was relayed is charged, once",
    async (way) => {
      const { upstream, read, reader, world, leave } = await open();
      upstream.send(delta("a"));
      await read();
      if (way === "signal") leave.abort();
      else await reader.cancel();
      await world.idle();
      expect(upstream.cancelled).toBe(true);
      expect(world.settled).toEqual([
        expect.objectContaining({ outcome: "client_gone", reading: expect.objectContaining({ source: "own_count" }) }),
      ]);
      expect(world.settled[0]?.reading.usage.input_tokens).toBe(16);
    },
  );

  it("a stream of an account that drains is read to its end for the exact usage", async () => {
    const { upstream, read, reader, world } = await open({ onDisconnect: "drain" });
    upstream.send(delta("a"));
    await read();
    await reader.cancel();
    upstream.send(delta("b") + USAGE + DONE);
    upstream.close();
    await world.idle();
    expect(world.settled).toEqual([
      expect.objectContaining({
        outcome: "client_gone",
        reading: { source: "exact", usage: { input_tokens: 3, output_tokens: 2 } },
      }),
    ]);
  });

  it("once everything was said: the stream is read on for its usage, not for its end", async () => {
    const { upstream, read, reader, world } = await open();
    const said = frame({ id: "c1", choices: [{ index: 0, delta: {}, finish_reason: "stop" }] });
    upstream.send(delta("a") + said);
    await read();
    await reader.cancel();
    await new Promise((resolve) => setTimeout(resolve, 60));
    expect([upstream.cancelled, world.settled]).toEqual([false, []]);
    upstream.send(USAGE + DONE);
    await world.idle();
    expect(upstream.cancelled).toBe(true);
    expect(world.settled).toEqual([
      expect.objectContaining({
        outcome: "client_gone",
        reading: { source: "exact", usage: { input_tokens: 3, output_tokens: 2 } },
      }),
    ]);
  });

  it("without leaving, by taking nothing for as long as an upstream may be silent: what was passed on is charged", async () => {
    const { upstream, read, reader, world } = await open({}, STREAM, { idleMs: 80, totalMs: 60_000 });
    upstream.send(delta("a"));
    await read();
    const pausedAtMs = Date.now();
    upstream.send(delta("b"));
    upstream.send(delta("c"));
    await world.idle();
    expect(Date.now() - pausedAtMs).toBeGreaterThanOrEqual(75);
    expect(upstream.cancelled).toBe(true);
    expect(world.settled).toEqual([
      expect.objectContaining({
        outcome: "client_gone",
        reading: { source: "own_count", usage: { input_tokens: 16, output_tokens: expect.any(Number) } },
      }),
    ]);
    await expect(reader.read().then(() => reader.read())).rejects.toThrow();
  });

  it("before the first byte of a stream is charged for the input", async () => {
    const leave = new AbortController();
    const world = fakeWorld({
      script: ({ request: { signal } }) =>
        new Promise((resolve) => {
          signal.addEventListener("abort", () => resolve({ kind: "lost" }));
          leave.abort();
        }),
    });
    await serve(request(STREAM, {}, leave.signal), chatCompletions, {}, world.ports);
    await world.idle();
    expect(world.sent).toHaveLength(1);
    expect(world.settled).toEqual([
      expect.objectContaining({
        outcome: "client_gone",
        status: 499,
        reading: { source: "own_count", usage: { input_tokens: 16, output_tokens: 0 } },
      }),
    ]);
  });

  it("a JSON call is finished and charged exactly", async () => {
    const leave = new AbortController();
    const world = fakeWorld({
      script: async () => {
        leave.abort();
        await new Promise((resolve) => setTimeout(resolve, 20));
        return json(COMPLETION);
      },
    });
    await serve(request(BODY, {}, leave.signal), chatCompletions, {}, world.ports);
    await world.idle();
    expect(world.settled).toEqual([
      expect.objectContaining({ outcome: "client_gone", reading: expect.objectContaining({ source: "exact" }) }),
    ]);
  });
});

describe("a hold", () => {
  it("is renewed while its call runs", async () => {
    const renew = vi.fn(async (_callId: CallId, _progress: Progress | null) => true);
    const { upstream, readAll, world } = await open({ holdLifeMs: 200, renew });
    setTimeout(() => {
      upstream.send(DONE);
      upstream.close();
    }, 350);
    await readAll();
    await world.idle();
    const renewals = renew.mock.calls.length;
    expect(renewals).toBeGreaterThanOrEqual(2);
    await new Promise((resolve) => setTimeout(resolve, 250));
    expect(renew.mock.calls.length).toBe(renewals);
  });

  it("that has ended ends its stream: nothing runs that nobody pays for", async () => {
    const { upstream, read, world } = await open({ holdLifeMs: 200, renew: async () => false });
    upstream.send(delta("a"));
    await read();
    expect(await read()).toContain("upstream_error");
    await world.idle();
    expect(upstream.cancelled).toBe(true);
  });

  it("is renewed with what was read so far, input included", async () => {
    const renew = vi.fn(async (_callId: CallId, _progress: Progress | null) => true);
    const upstream = scriptedStream();
    const script: Script = async () => {
      await new Promise((resolve) => setTimeout(resolve, 150));
      return upstream.answer;
    };
    const { read, readAll } = await open({ holdLifeMs: 200, renew, script });
    expect(renew.mock.calls[0]?.[1]).toBeNull();
    upstream.send(delta("four"));
    await read();
    const before = renew.mock.calls.length;
    // A busy machine may renew late.
    await vi.waitFor(() => expect(renew.mock.calls.length).toBeGreaterThan(before), { timeout: 10_000 });
    expect(renew.mock.calls.at(-1)).toEqual([
      "call-1",
      {
        reading: { source: "own_count", usage: { input_tokens: 16, output_tokens: 1 } },
        servedBy: { upstream: "u", model: "first:1", region: "r1" },
        costNanoUsd: 18,
      },
    ]);
    upstream.send(DONE);
    upstream.close();
    await readAll();
  });

  it("that may not last any longer ends its stream in time, and what was delivered is charged", async () => {
    const { upstream, read, reader, world } = await open({ longestCallMs: 150 });
    upstream.send(delta("a"));
    await read();
    expect(await read()).toContain("upstream_error");
    await expect(reader.read()).rejects.toThrow();
    await world.idle();
    expect(upstream.cancelled).toBe(true);
    expect(world.settled).toEqual([
      expect.objectContaining({
        outcome: "stream_broken",
        reading: { source: "own_count", usage: { input_tokens: 16, output_tokens: 1 } },
      }),
    ]);
  });

  it.each([
    ["may not last any longer", { longestCallMs: 100 }],
    ["has ended", { holdLifeMs: 200, renew: async () => false }],
  ])("that %s ends a call that is not streamed: 504, no second target, the try is lost", async (_, options) => {
    const silent: Script = ({ request: { signal } }) =>
      new Promise((resolve) => signal.addEventListener("abort", () => resolve({ kind: "lost" })));
    const { response, sent, settled, released } = await call({ script: silent, ...options });
    expect([response.status, sent.length, settled]).toEqual([504, 1, []]);
    expect(released).toEqual([expect.objectContaining({ reason: "upstream_timeout", lostTries: 1 })]);
  });

  it("is not renewed once its call is being settled, however long its client takes over the rest", async () => {
    const renew = vi.fn(async () => false);
    const { upstream, read, readAll, world } = await open({ holdLifeMs: 200, renew }, ASKED);
    upstream.send(delta("a") + USAGE + DONE);
    await read();
    await vi.waitFor(() => expect(world.settled).toHaveLength(1), { timeout: 20_000 });
    await new Promise((resolve) => setTimeout(resolve, 300));
    upstream.close();
    expect([await readAll(), renew.mock.calls.length]).toEqual(["", 0]);
  });

  it("is settled again when the first word was lost", async () => {
    let words = 0;
    const { settled } = await call({
      script: () => json(COMPLETION),
      settle: async () => {
        if (words++ === 0) throw new Error("lost");
        return { state: "settled", chargedNanoUsd: 7 };
      },
    });
    expect(settled).toHaveLength(2);
  });

  it("is released when something of ours breaks", async () => {
    const { response, released } = await call({ script: never });
    expect(response.status).toBe(500);
    expect(released).toEqual([expect.objectContaining({ reason: "internal" })]);
  });
});

describe("the log", () => {
  const lines = (logged: readonly { event: string }[]) => logged.filter(({ event }) => event.startsWith("call"));

  it("has one line for a call that was served, with ids and numbers only", async () => {
    const { logged } = await call({ script: () => json(COMPLETION) });
    expect(lines(logged)).toEqual([
      {
        event: "call",
        call: "call-1",
        account: "acme",
        key: "key_1",
        endpoint: "chat.completions",
        model: "chat",
        status: 200,
        outcome: "completed",
        reason: null,
        upstream: "u",
        target_model: "first:1",
        region: "r1",
        latency_ms: expect.any(Number),
      },
    ]);
  });

  it("has one line for a call that failed, and one for a call that was refused", async () => {
    const failed = await call({ script: () => json({}, 503) });
    expect(lines(failed.logged)).toEqual([
      expect.objectContaining({ event: "call", status: 503, outcome: "failed", reason: "no_healthy_upstream" }),
    ]);
    const refused = await call({ script: never }, { ...BODY, temperature: 9 });
    expect(lines(refused.logged)).toEqual([
      expect.objectContaining({ event: "call_refused", account: "acme", status: 400, reason: "invalid_request" }),
    ]);
  });
});
