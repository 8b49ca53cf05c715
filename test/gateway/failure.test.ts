/** The failure contract through the pipeline: whom a call reaches, what its client is told, how its hold ends. */
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { Endpoint } from "../../src/core/endpoints/endpoint.ts";
import { chatCompletions } from "../../src/core/endpoints/inference/chat.ts";
import { imageGenerations } from "../../src/core/endpoints/inference/images.ts";
import { aliasKey, type RoutingSnapshot, type Target } from "../../src/core/routing/routes.ts";
import type { UpstreamAnswer } from "../../src/gateway/ports.ts";
import { serve } from "../../src/gateway/serve.ts";
import {
  ACCOUNT,
  type FakeOptions,
  type FakeWorld,
  fakeWorld,
  json,
  makeKey,
  ROUTING,
  ROW,
  type Script,
} from "../support/fake-ports.ts";

const CHAT = { model: "chat", messages: [{ role: "user", content: "hello" }] };
const COMPLETION = {
  choices: [{ index: 0, message: { role: "assistant", content: "hi" } }],
  usage: { prompt_tokens: 3, completion_tokens: 2 },
};
const IMAGE = { model: "image", prompt: "a fox" };
const PICTURE = { created: 1, data: [{ b64_json: "AA==" }] };

const target = (model: string, priority = 0): Target => ({ upstream: "u", model, priority, weight: 1 });
const alias = (name: string, targets: Target[], retryOn: (500 | 502)[] = []) => ({
  [aliasKey(null, name)]: { alias: name, account: null, targets, retryOn },
});
const IMAGE_ROW = { ...ROW, model: "image", kind: "image" as const, costNanoUsd: { images: 5 } };
const routed = (aliases: RoutingSnapshot["aliases"]): RoutingSnapshot => ({
  ...ROUTING,
  aliases: { ...ROUTING.aliases, ...alias("image", [target("i:1"), target("i:2", 1)]), ...aliases },
  models: { ...ROUTING.models, image: [IMAGE_ROW] },
});
const ALONE = routed(alias("chat", [target("only:1")]));

const worldOf = (script: Script, options: Partial<FakeOptions> = {}): FakeWorld =>
  fakeWorld({ script, routing: routed({}), ...options });

const requestOf = (body: object, signal?: AbortSignal): Request =>
  new Request("http://gateway.test/", {
    method: "POST",
    headers: { authorization: `Bearer ${makeKey()}`, "content-type": "application/json" },
    body: JSON.stringify(body),
    ...(signal && { signal }),
  });

async function call(world: FakeWorld, body: object = CHAT, endpoint: Endpoint = chatCompletions, signal?: AbortSignal) {
  const sentBefore = world.sent.length;
  const response = await serve(requestOf(body, signal), endpoint, {}, world.ports);
  const text = await response.text();
  await world.idle();
  const asked = world.sent.slice(sentBefore).map((sent) => sent.target.model);
  return { response, asked, error: response.ok ? undefined : JSON.parse(text).error };
}
const image = (world: FakeWorld) => call(world, IMAGE, imageGenerations);

let nowMs = 0;
beforeEach(() => {
  vi.useFakeTimers({ toFake: ["Date"] });
  nowMs = Date.now();
});
afterEach(() => void vi.useRealTimers());
const pass = (ms: number) => {
  nowMs += ms;
  vi.setSystemTime(nowMs);
};

describe("health", () => {
  it("is one isolate's and all its calls': a target that was lost three times is left alone until its probe", async () => {
    let down = true;
    const world = worldOf(({ target: { model } }) =>
      down && model === "first:1" ? { kind: "lost" } : json(COMPLETION),
    );
    for (let time = 0; time < 3; time++) expect((await call(world)).asked).toEqual(["first:1", "second:2"]);
    expect((await call(world)).asked).toEqual(["second:2"]);
    down = false;
    pass(10_000);
    expect((await call(world)).asked).toEqual(["first:1"]);
    expect((await call(world)).asked).toEqual(["first:1"]);
  });

  it("of an only target that is down: a fifth of the calls reach it, the rest are told when to come back", async () => {
    const world = worldOf(() => json({}, 503), { routing: ALONE });
    for (let time = 0; time < 10; time++) await call(world);
    const { response, asked, error } = await call(world);
    expect(asked).toEqual([]);
    expect([response.status, error.code]).toEqual([503, "no_healthy_upstream"]);
    expect(["1", "2"]).toContain(response.headers.get("retry-after"));
    expect(Number(response.headers.get("retry-after-ms"))).toBeGreaterThanOrEqual(1_000);
    expect(Number(response.headers.get("retry-after-ms"))).toBeLessThan(2_000);
    expect(response.headers.get("x-should-retry")).toBeNull();
    expect(world.released).toHaveLength(11);
    expect(world.released.at(-1)).toMatchObject({ lostTries: 0, servedBy: null });
  });

  it("a probe whose client left is no verdict: the next call probes", async () => {
    const leave = new AbortController();
    let mode: "lost" | "leave" | "well" = "lost";
    const world = worldOf(({ target: { model } }): UpstreamAnswer => {
      if (model !== "first:1" || mode === "well") return json(COMPLETION);
      if (mode === "leave") leave.abort();
      return { kind: "lost" };
    });
    for (let time = 0; time < 3; time++) await call(world);
    pass(10_000);
    mode = "leave";
    await call(world, { ...CHAT, stream: true }, chatCompletions, leave.signal);
    mode = "well";
    expect((await call(world)).asked).toEqual(["first:1"]);
  });
});

describe("retries", () => {
  it("an only target that says 503 is asked again, and its answer is charged once", async () => {
    let calls = 0;
    const world = worldOf(() => (calls++ === 0 ? json({}, 503) : json(COMPLETION)), { routing: ALONE });
    const { response, asked } = await call(world);
    expect(response.status).toBe(200);
    expect(asked).toEqual(["only:1", "only:1"]);
    expect([world.settled.length, world.released.length]).toEqual([1, 0]);
  });

  it("not where it asks for more than 5 s: its wait is passed on", async () => {
    const world = worldOf(() => json({}, 503, { "retry-after": "6" }), { routing: ALONE });
    const { response, asked } = await call(world);
    expect(asked).toHaveLength(1);
    expect(response.headers.get("retry-after")).toBe("6");
  });

  it("429 from every target is 503 with the wait, also where none was named", async () => {
    const world = worldOf(() => json({}, 429));
    const { response, asked } = await call(world);
    expect(asked).toEqual(["first:1", "second:2"]);
    expect([response.status, response.headers.get("retry-after")]).toEqual([503, "10"]);
  });

  it("500 goes on only where the alias says so", async () => {
    const script: Script = ({ target: { model } }) => (model === "a:1" ? json({}, 500) : json(COMPLETION));
    const targets = [target("a:1"), target("b:2", 1)];
    expect((await call(worldOf(script, { routing: routed(alias("chat", targets)) }))).response.status).toBe(502);
    const allowed = worldOf(script, { routing: routed(alias("chat", targets, [500])) });
    expect((await call(allowed)).response.status).toBe(200);
  });

  it("the upstreams of an instance are served in turn, and fail over to each other", async () => {
    const upstream = ROUTING.upstreams.u;
    if (!upstream) throw new Error("the fixture has an upstream");
    const instance = {
      instanceId: 9,
      account: ACCOUNT,
      name: "m",
      upstreams: ["u", "v"],
      kind: "chat",
      customApiPath: null,
    };
    const routing: RoutingSnapshot = {
      ...ROUTING,
      upstreams: { u: upstream, v: { ...upstream, id: "v" } },
      instances: { 9: { ...instance, kind: "chat" } },
      models: { "m:9": [{ ...ROW, model: "m:9" }] },
    };
    let down = "";
    const world = worldOf(({ target: one }) => (one.upstream === down ? json({}, 503) : json(COMPLETION)), { routing });
    const ask = async () => {
      await call(world, { ...CHAT, model: "m:9" });
      return world.sent
        .splice(0)
        .map((sent) => sent.target.upstream)
        .join(" ");
    };
    expect([await ask(), await ask(), await ask(), await ask()]).toEqual(["u", "v", "u", "v"]);
    down = "v";
    expect([await ask(), await ask()]).toEqual(["u", "v u"]);
  });
});

describe("tries before the one that counts", () => {
  const lost: UpstreamAnswer = { kind: "lost" };
  const answersOf = (first: () => UpstreamAnswer, second: () => UpstreamAnswer) =>
    worldOf(({ target: { model } }) => (model === "first:1" ? first() : second()));

  it("are told one by one with the charge, and how the one that served was called", async () => {
    const world = answersOf(
      () => json({}, 503),
      () => json(COMPLETION),
    );
    await call(world);
    const [trace] = world.settled.map((settled) => settled.trace);
    expect(trace).toEqual({
      stream: false,
      country: null,
      costs: ROW.costNanoUsd,
      tries: [
        { upstream: "u", model: "first:1", result: "status_503", ms: expect.any(Number) },
        { upstream: "u", model: "second:2", result: "answered", ms: expect.any(Number) },
      ],
    });
  });

  it("are told with a release too", async () => {
    const world = answersOf(
      () => ({ kind: "refused" }),
      () => lost,
    );
    await call(world);
    expect(world.released.map(({ trace }) => trace?.tries.map(({ result }) => result))).toEqual([["refused", "lost"]]);
  });

  it.each<[string, () => UpstreamAnswer, number]>([
    ["lost", () => lost, 1],
    ["silent", () => ({ kind: "timeout" }), 1],
    ["no answer at all", () => json({ error: {} }), 1],
    ["refused", () => ({ kind: "refused" }), 0],
    ["a 503", () => json({}, 503), 0],
  ])(
    "%s, and the second target serves: what the first may have done is told with the charge",
    async (_, fault, lostTries) => {
      const world = answersOf(fault, () => json(COMPLETION));
      expect((await call(world)).response.status).toBe(200);
      expect(world.settled).toEqual([expect.objectContaining({ outcome: "completed", lostTries })]);
    },
  );

  it.each<[string, () => UpstreamAnswer, number]>([
    ["lost too", () => lost, 2],
    ["a 503", () => json({}, 503), 1],
    ["a refusal of the request", () => json({ error: { message: "no" } }, 400), 1],
  ])("lost, and the second target %s: each that may have been executed is told", async (_, fault, lostTries) => {
    const world = answersOf(() => lost, fault);
    await call(world);
    expect(world.released).toEqual([expect.objectContaining({ lostTries })]);
  });

  it("lost, and the client leaves while the second is at work: that one is charged, the first is lost", async () => {
    const leave = new AbortController();
    const world = answersOf(
      () => lost,
      () => {
        leave.abort();
        return lost;
      },
    );
    await call(world, { ...CHAT, stream: true }, chatCompletions, leave.signal);
    expect(world.settled).toEqual([expect.objectContaining({ outcome: "client_gone", lostTries: 1 })]);
  });
});

describe("an outcome that nobody knows", () => {
  it.each<[string, () => UpstreamAnswer, number]>([
    ["a lost connection", () => ({ kind: "lost" }), 504],
    ["a port that is closed since", () => ({ kind: "unreachable" }), 504],
    ["silence", () => ({ kind: "timeout" }), 504],
    ["520", () => json({}, 520), 504],
    ["524", () => json({}, 524), 504],
    ["504", () => json({}, 504), 504],
    ["500", () => json({}, 500), 502],
    ["an error under status 200", () => json({ error: {} }), 502],
  ])("%s of what may have made something: no second target, and nobody is to repeat it", async (_, fault, status) => {
    const world = worldOf(fault);
    const { response, asked } = await image(world);
    expect(asked).toEqual(["i:1"]);
    expect([response.status, response.headers.get("x-should-retry")]).toEqual([status, "false"]);
    expect(world.released).toEqual([expect.objectContaining({ lostTries: 1 })]);
  });

  it.each<[string, () => UpstreamAnswer]>([
    ["a refused connection", () => ({ kind: "refused" })],
    ...[503, 429, 521, 523, 525, 526, 530].map((code): [string, () => UpstreamAnswer] => [
      String(code),
      () => json({}, code),
    ]),
  ])("%s is none: the next target, for what makes something too", async (_, fault) => {
    const world = worldOf(({ target: { model } }) => (model === "i:1" ? fault() : json(PICTURE)));
    const { response, asked } = await image(world);
    expect([response.status, asked]).toEqual([200, ["i:1", "i:2"]]);
  });

  it("is avoided with care: a target that did not answer lately must not get the whole call before its connection stands", async () => {
    const world = worldOf(() => json(PICTURE));
    await image(world);
    await image(world);
    pass(10_000);
    await image(world);
    expect(world.sent.map(({ request }) => request.careful)).toEqual([true, false, true]);
  });

  it("chat takes that care only with a target that was out of reach", async () => {
    const world = worldOf(({ target: { model } }) => (model === "first:1" ? { kind: "lost" } : json(COMPLETION)));
    await call(world);
    await call(world);
    expect(world.sent.map(({ request }) => request.careful)).toEqual([false, false, true, false]);
  });
});

describe("a defect of ours", () => {
  it.each<[string, Endpoint, object, number, string | null]>([
    ["chat", chatCompletions, CHAT, 500, null],
    ["what makes something", imageGenerations, IMAGE, 504, "false"],
  ])(
    "in a call of %s ends its hold, and nobody repeats what may have been made",
    async (_, endpoint, body, status, again) => {
      const world = worldOf(() => {
        throw new Error("a defect");
      });
      const { response } = await call(world, body, endpoint);
      expect([response.status, response.headers.get("x-should-retry")]).toEqual([status, again]);
      expect(world.released).toEqual([expect.objectContaining({ reason: "internal", status, lostTries: 1 })]);
    },
  );
});

describe("whose fault it is", () => {
  it.each([402, 404])("%i of the owner's own instance passes, and is not the operator's business", async (status) => {
    const instance = { instanceId: 9, account: ACCOUNT, name: "m", upstreams: ["u"], customApiPath: null };
    const routing: RoutingSnapshot = {
      ...ROUTING,
      instances: { 9: { ...instance, kind: "chat" } },
      models: { "m:9": [{ ...ROW, model: "m:9" }] },
    };
    const world = worldOf(() => json({ error: { message: "stopped at u.test" } }, status), { routing });
    const { response, error } = await call(world, { ...CHAT, model: "m:9" });
    // A 402 speaks of the operator's balance there: its words are ours.
    const words = status === 404 ? "stopped at [removed]" : expect.stringContaining("no credit at the service");
    expect([response.status, error.message]).toEqual([status, words]);
    expect(world.logged.map(({ event }) => event)).not.toContain("upstream_refuses_operator");
  });

  it.each([400, 401, 404, 413, 422])("%i costs a target nothing: no strike, no budget", async (status) => {
    const world = worldOf(() => json({ error: { message: "no" } }, status), { routing: ALONE });
    for (let time = 0; time < 8; time++) expect((await call(world)).asked).toEqual(["only:1"]);
  });
});

describe("an answer that is not streamed", () => {
  const answerTimeout: UpstreamAnswer = { kind: "answer_timeout" };
  const stalled = (): UpstreamAnswer => ({
    kind: "answer",
    response: new Response(new ReadableStream({ start: (body) => body.enqueue(new TextEncoder().encode("{")) })),
    bodyTaken: Promise.resolve(),
    region: null,
    idleMs: 60_000,
    totalMs: 40,
  });

  it.each<[string, () => UpstreamAnswer, Endpoint, object]>([
    ["nothing of it came", () => answerTimeout, chatCompletions, CHAT],
    ["it fell silent", stalled, chatCompletions, CHAT],
    ["nothing of what makes something came", () => answerTimeout, imageGenerations, IMAGE],
  ])("and is not there in time (%s): 504, no second target, the try is lost", async (_, fault, endpoint, body) => {
    const world = worldOf(fault);
    vi.useRealTimers();
    const { response, asked } = await call(world, body, endpoint);
    expect([response.status, response.headers.get("x-should-retry"), asked.length]).toEqual([504, "false", 1]);
    expect(world.released).toEqual([expect.objectContaining({ lostTries: 1, status: 504 })]);
    expect(world.settled).toEqual([]);
  });

  it("has the time limit of whole answers; a stream that of its first byte", async () => {
    const world = worldOf(() => answerTimeout);
    await call(world);
    await call(world, { ...CHAT, stream: true });
    await call(world, IMAGE, imageGenerations);
    expect(world.sent.map(({ request }) => request.patience)).toEqual(["whole", "stream", "whole"]);
  });
});

describe("a client that has left", () => {
  it("before anything was sent: no upstream call, and nothing is charged", async () => {
    const leave = new AbortController();
    leave.abort();
    for (const stream of [true, false]) {
      const world = worldOf(() => json(COMPLETION));
      await call(world, { ...CHAT, stream }, chatCompletions, leave.signal);
      expect([world.sent.length, world.settled.length]).toEqual([0, 0]);
      expect(world.released).toEqual([
        expect.objectContaining({ lostTries: 0, reason: "client_gone", status: 499, servedBy: null }),
      ]);
    }
  });

  it("while its admission is asked: the hold is released, by work that the platform does not tear down", async () => {
    const leave = new AbortController();
    const background: Promise<unknown>[] = [];
    const world = worldOf(() => json(COMPLETION));
    const { ports } = world;
    const account: typeof ports.account = (number) => ({
      ...ports.account(number),
      admit: async (request) => {
        await new Promise((resolve) => setTimeout(resolve, 5));
        leave.abort();
        background.push(world.idle());
        return ports.account(number).admit(request);
      },
    });
    void serve(requestOf(CHAT, leave.signal), chatCompletions, {}, { ...ports, account });
    await vi.waitFor(() => expect(background).toHaveLength(1), { timeout: 20_000 });
    // Of a call whose client has left, only what was registered by then goes on for sure.
    await background[0];
    expect([world.admitted.length, world.released.length, world.sent.length]).toEqual([1, 1, 0]);
    await world.idle();
    expect(world.released).toEqual([expect.objectContaining({ lostTries: 0, reason: "client_gone" })]);
  });

  it("between two targets: the second is not asked, and what was not executed costs nothing", async () => {
    const leave = new AbortController();
    const world = worldOf(() => {
      leave.abort();
      return json({}, 503);
    });
    const { asked } = await call(world, CHAT, chatCompletions, leave.signal);
    expect(asked).toEqual(["first:1"]);
    expect(world.settled).toEqual([]);
    expect(world.released).toEqual([expect.objectContaining({ lostTries: 0, reason: "client_gone" })]);
  });

  it("while a connection was being refused: nothing was executed, so nothing is charged", async () => {
    const leave = new AbortController();
    const world = worldOf(() => {
      leave.abort();
      return { kind: "refused" };
    });
    await call(world, { ...CHAT, stream: true }, chatCompletions, leave.signal);
    expect([world.settled.length, world.released.length]).toEqual([0, 1]);
  });

  it("of a JSON call: its upstream is read on for 25 s and no longer, and its input is charged", async () => {
    vi.useFakeTimers({ toFake: ["Date", "setTimeout", "clearTimeout"] });
    const leave = new AbortController();
    const world = worldOf(({ request: { signal } }) => {
      leave.abort();
      return new Promise((resolve) => signal.addEventListener("abort", () => resolve({ kind: "lost" })));
    });
    const ended = call(world, CHAT, chatCompletions, leave.signal);
    await vi.waitFor(() => expect(world.sent).toHaveLength(1), { timeout: 20_000 });
    await vi.advanceTimersByTimeAsync(24_900);
    expect(world.settled).toEqual([]);
    await vi.advanceTimersByTimeAsync(200);
    await ended;
    expect(world.settled).toEqual([expect.objectContaining({ outcome: "client_gone", status: 499 })]);
    expect(world.settled[0]?.reading.usage.input_tokens).toBeGreaterThan(0);
    expect(world.sent).toHaveLength(1);
  });

  it("with what may have been executed: charged for its input at least", async () => {
    const leave = new AbortController();
    const world = worldOf(() => {
      leave.abort();
      return { kind: "lost" };
    });
    await call(world, { ...CHAT, stream: true }, chatCompletions, leave.signal);
    expect(world.settled[0]?.reading.usage.input_tokens).toBeGreaterThan(0);
  });
});
