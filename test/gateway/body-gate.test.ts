import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { BodyRoom, LARGE_BYTES, ROOM_BYTES } from "../../src/core/body-room.ts";
import { chatCompletions } from "../../src/core/endpoints/chat.ts";
import { free, readBody } from "../../src/gateway/body.ts";
import { serve } from "../../src/gateway/serve.ts";
import { type FakeOptions, fakeWorld, json, makeKey, type Script } from "../support/fake-ports.ts";

const COMPLETION = {
  choices: [{ index: 0, message: { role: "assistant", content: "hi" } }],
  usage: { prompt_tokens: 3, completion_tokens: 2 },
};
const messages = (characters: number) => [{ role: "user", content: "x".repeat(characters) }];

function post(characters: number, signal?: AbortSignal): Request {
  const body = JSON.stringify({ model: "chat", messages: messages(characters) });
  return new Request("http://gateway.test/v1/chat/completions", {
    method: "POST",
    headers: {
      authorization: `Bearer ${makeKey()}`,
      "content-type": "application/json",
      "content-length": String(body.length),
    },
    body,
    ...(signal && { signal }),
  });
}

/** A world whose upstream answers when told to. */
function gated(options: Partial<FakeOptions> = {}) {
  const gate = Promise.withResolvers<void>();
  const script: Script = async () => {
    await gate.promise;
    return json(COMPLETION);
  };
  const bodies = new BodyRoom();
  return { ...fakeWorld({ script, bodies, ...options }), bodies, open: gate.resolve };
}

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

describe("a large body", () => {
  it("is held until its call has ended, and then no more", async () => {
    const world = gated();
    const call = serve(post(2 * LARGE_BYTES), chatCompletions, {}, world.ports);
    await vi.advanceTimersByTimeAsync(15_000);
    expect(world.sent).toHaveLength(1);
    expect(world.bodies.heldBytes).toBeGreaterThan(2 * LARGE_BYTES);
    world.open();
    expect((await call).status).toBe(200);
    await world.idle();
    expect(world.bodies.heldBytes).toBe(0);
  });

  it("waits for the account's other one, and goes in when that has ended", async () => {
    const world = gated();
    const first = serve(post(2 * LARGE_BYTES), chatCompletions, {}, world.ports);
    await vi.advanceTimersByTimeAsync(100);
    const second = serve(post(2 * LARGE_BYTES), chatCompletions, {}, world.ports);
    await vi.advanceTimersByTimeAsync(4_000);
    expect(world.sent).toHaveLength(1);
    world.open();
    await vi.advanceTimersByTimeAsync(200);
    expect([(await first).status, (await second).status]).toEqual([200, 200]);
    await world.idle();
    expect(world.bodies.heldBytes).toBe(0);
  });

  it("is refused after 5 s with 503 and retry-after, before anything is held or sent; small ones pass meanwhile", async () => {
    const world = gated();
    const first = serve(post(2 * LARGE_BYTES), chatCompletions, {}, world.ports);
    await vi.advanceTimersByTimeAsync(100);
    const second = serve(post(2 * LARGE_BYTES), chatCompletions, {}, world.ports);
    const small = serve(post(1_000), chatCompletions, {}, world.ports);
    await vi.advanceTimersByTimeAsync(5_100);
    const refused = await second;
    expect([refused.status, refused.headers.get("retry-after")]).toEqual([503, "5"]);
    expect(await refused.json()).toMatchObject({ error: { code: "overloaded", type: "server_error", param: null } });
    expect(world.admitted).toHaveLength(2);
    world.open();
    expect([(await first).status, (await small).status]).toEqual([200, 200]);
  });

  it("is not waited for when its client has left", async () => {
    const world = gated();
    const first = serve(post(2 * LARGE_BYTES), chatCompletions, {}, world.ports);
    await vi.advanceTimersByTimeAsync(100);
    const client = new AbortController();
    const second = serve(post(2 * LARGE_BYTES, client.signal), chatCompletions, {}, world.ports);
    client.abort();
    await vi.advanceTimersByTimeAsync(100);
    expect((await second).status).toBe(503);
    world.open();
    await first;
  });

  it.each([
    ["is refused", { admit: async () => ({ ok: false, refusal: { kind: "not_your_instance" } }) as const }, 401],
    ["fails", { script: () => json({ error: {} }, 500) }, 502],
    ["crashes", { settle: () => Promise.reject(new Error("storage")) }, 200],
  ])("is let go where its call %s", async (_, options, status) => {
    const world = gated(options);
    world.open();
    expect((await serve(post(2 * LARGE_BYTES), chatCompletions, {}, world.ports)).status).toBe(status);
    await Promise.all([world.idle(), vi.advanceTimersByTimeAsync(30_000)]);
    expect(world.bodies.heldBytes).toBe(0);
  });
});

describe("reading a body", () => {
  const MAX = 4 * LARGE_BYTES;
  const streamed = (chunks: readonly number[]) =>
    new Request("http://gateway.test/", {
      method: "POST",
      body: new ReadableStream<Uint8Array>({
        start(controller) {
          for (const size of chunks) controller.enqueue(new Uint8Array(size).fill(7));
          controller.close();
        },
      }),
      duplex: "half",
    } as RequestInit);

  it("without a length asks once, for the most it may come to, when it turns out to be large", async () => {
    const asked: number[] = [];
    const bytes = await readBody(streamed([1000, LARGE_BYTES, 5]), MAX, async (count) => {
      if (count > LARGE_BYTES) asked.push(count);
      return true;
    });
    expect(asked).toEqual([MAX]);
    expect(Buffer.from(bytes as Uint8Array).equals(Buffer.alloc(LARGE_BYTES + 1005, 7))).toBe(true);
  });

  it("without a length and without room reads no further", async () => {
    const none = async (count: number) => count <= LARGE_BYTES;
    expect(await readBody(streamed([LARGE_BYTES, 5]), MAX, none)).toBe("busy");
    expect(await readBody(streamed([LARGE_BYTES]), MAX, none)).toHaveLength(LARGE_BYTES);
  });

  it("stands in memory once: with a length it is read into room of just that size", async () => {
    const body = new Uint8Array(3000).fill(7);
    const request = new Request("http://gateway.test/", {
      method: "POST",
      body,
      headers: { "content-length": "3000" },
    });
    const bytes = await readBody(request, MAX, async () => true);
    expect(bytes).toEqual(body);
    expect((bytes as Uint8Array).buffer.byteLength).toBe(3000);
  });

  it("large, with a length, is filled in place; one that ends early or goes on is broken", async () => {
    const sized = (bytes: number, claimed: number) =>
      new Request("http://gateway.test/", {
        method: "POST",
        body: new Uint8Array(bytes).fill(7),
        headers: { "content-length": String(claimed) },
      });
    const large = 2 * LARGE_BYTES;
    const read = (await readBody(sized(large, large), MAX, async () => true)) as Uint8Array;
    expect(Buffer.from(read).equals(Buffer.alloc(large, 7))).toBe(true);
    for (const claimed of [large - 1, large + 1]) {
      expect(await readBody(sized(large, claimed), MAX, async () => true)).toBe("broken");
    }
    free(read);
    expect(read).toHaveLength(0);
  });

  it("longer than it claims, or than it may be, is refused", async () => {
    const lying = streamed([10]);
    lying.headers.set("content-length", "5");
    expect(await readBody(lying, MAX, async () => true)).toBe("broken");
    expect(await readBody(streamed([MAX, 1]), MAX, async () => true)).toBe("too_large");
    expect(ROOM_BYTES).toBeGreaterThan(MAX);
  });
});
