import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { Admission } from "../../../src/core/account/hold.ts";
import { chatCompletions } from "../../../src/core/endpoints/inference/chat.ts";
import { ASK_FIRST_BYTES, UNPAID_BURST_BYTES, UNPAID_BYTES_PER_S } from "../../../src/core/uploads/unpaid-work.ts";
import { BodyRoom, LARGE_BYTES, MEDIUM_ROOM_BYTES, ROOM_BYTES } from "../../../src/core/uploads/upload-limiter.ts";
import { type BodyHolder, free, readBody, SMALL_BODIES, type Upload } from "../../../src/gateway/http/body-reader.ts";
import type { UpstreamAnswer } from "../../../src/gateway/ports.ts";
import { serve } from "../../../src/gateway/serve.ts";
import {
  ACCOUNT,
  type FakeOptions,
  fakeWorld,
  json,
  makeKey,
  type Script,
  scriptedStream,
} from "../../support/fake-ports.ts";

const COMPLETION = {
  choices: [{ index: 0, message: { role: "assistant", content: "hi" } }],
  usage: { prompt_tokens: 3, completion_tokens: 2 },
};
const messages = (characters: number) => [{ role: "user", content: "x".repeat(characters) }];

function post(characters: number, signal?: AbortSignal, stream?: true): Request {
  const body = JSON.stringify({ model: "chat", messages: messages(characters), stream });
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

beforeEach(() => void vi.useFakeTimers({ shouldAdvanceTime: true }));
afterEach(() => void vi.useRealTimers());

describe("bodies of almost a megabyte", () => {
  /** A body that names its length, and of which a little comes at a time. */
  const dripping = (bytes: number | null, client: AbortController, dripBytes = 8_000) => {
    let first = true;
    const body = new ReadableStream<Uint8Array>(
      {
        async pull(controller) {
          await new Promise((resume) => setTimeout(resume, 500));
          controller.enqueue(new Uint8Array(first ? 100_000 : dripBytes).fill(0x20));
          first = false;
        },
      },
      { highWaterMark: 0 },
    );
    const headers = { authorization: `Bearer ${makeKey()}`, "content-type": "application/json" };
    return new Request("http://gateway.test/v1/chat/completions", {
      method: "POST",
      headers: { ...headers, ...(bytes !== null && { "content-length": String(bytes) }) },
      body,
      signal: client.signal,
      duplex: "half",
    } as RequestInit);
  };

  it.each([
    ["that name their length", LARGE_BYTES],
    ["of unknown length", null],
  ])("%s drip: 8 MB of one account are inside, the next is 503 after 5 s, smaller ones pass", async (_, bytes) => {
    const world = gated();
    world.open();
    const client = new AbortController();
    const calls = Array.from({ length: 9 }, () => serve(dripping(bytes, client), chatCompletions, {}, world.ports));
    const statuses: number[] = [];
    for (const call of calls) void call.then(({ status }) => statuses.push(status));
    await vi.advanceTimersByTimeAsync(700);
    const held = () => world.ports.mediumBodies.heldBy(ACCOUNT);
    expect(held()).toBe(8 * LARGE_BYTES);
    const honest = Array.from({ length: 100 }, () => serve(post(60_000), chatCompletions, {}, world.ports));
    expect((await Promise.all(honest)).map(({ status }) => status)).toEqual(Array(100).fill(200));
    await vi.advanceTimersByTimeAsync(5_000);
    expect(statuses).toContain(503);
    await vi.advanceTimersByTimeAsync(700_000);
    expect(statuses).toHaveLength(9);
    expect(held()).toBe(0);
  });

  it("of unknown length that grows large takes a large body's place in its stead", async () => {
    const world = gated();
    const call = serve(dripping(null, new AbortController(), 200_000), chatCompletions, {}, world.ports);
    await vi.advanceTimersByTimeAsync(900);
    expect([world.ports.mediumBodies.heldBytes, world.bodies.heldBytes]).toEqual([LARGE_BYTES, 0]);
    await vi.advanceTimersByTimeAsync(3_000);
    expect(world.ports.mediumBodies.heldBytes).toBe(0);
    expect(world.bodies.heldBytes).toBeGreaterThan(LARGE_BYTES);
    await vi.advanceTimersByTimeAsync(120_000);
    expect((await call).status).toBe(413);
    expect(world.bodies.heldBytes).toBe(0);
  });

  it("are held until their call has ended", async () => {
    const world = gated();
    const call = serve(post(0.5 * LARGE_BYTES), chatCompletions, {}, world.ports);
    await vi.advanceTimersByTimeAsync(15_000);
    expect(world.ports.mediumBodies.heldBytes).toBeGreaterThan(0.5 * LARGE_BYTES);
    world.open();
    expect((await call).status).toBe(200);
    await world.idle();
    expect(world.ports.mediumBodies.heldBytes).toBe(0);
  });

  it("of a stream are given back once its answer passes and the upstream has taken them", async () => {
    const upstream = scriptedStream();
    const taken = Promise.withResolvers<void>();
    const script: Script = async () => ({ ...upstream.answer, bodyTaken: taken.promise }) as UpstreamAnswer;
    const world = fakeWorld({ script });
    const response = await serve(post(0.5 * LARGE_BYTES, undefined, true), chatCompletions, {}, world.ports);
    upstream.send('data: {"choices":[{"index":0,"delta":{"content":"one"}}]}\n\n');
    const reader = (response.body as ReadableStream<Uint8Array>).getReader();
    await reader.read();
    await vi.advanceTimersByTimeAsync(3_000);
    expect(world.ports.mediumBodies.heldBytes).toBeGreaterThan(0.5 * LARGE_BYTES);
    taken.resolve();
    await vi.advanceTimersByTimeAsync(1);
    expect(world.ports.mediumBodies.heldBytes).toBe(0);
    // The call goes on without its body, to its settlement.
    upstream.send('data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n');
    upstream.close();
    while (!(await reader.read()).done);
    await world.idle();
    expect(world.settled[0]?.reading).toMatchObject({ source: "own_count", usage: { output_tokens: 1 } });
    expect(world.settled[0]?.reading.usage.input_tokens).toBeGreaterThan(LARGE_BYTES / 8);
  });

  it("of 100 accounts at once: no more are inside than the room takes, smaller ones pass, the rest is 503", async () => {
    const mediumBodies = BodyRoom.forMedium();
    const world = gated({ mediumBodies });
    for (let account = 0; account < 100; account++) {
      const place = mediumBodies.queue(`${account}`, LARGE_BYTES, Date.now());
      mediumBodies.ask(place, Date.now());
    }
    expect(mediumBodies.heldBytes).toBe(MEDIUM_ROOM_BYTES);
    const late = serve(post(0.9 * LARGE_BYTES), chatCompletions, {}, world.ports);
    world.open();
    expect((await serve(post(60_000), chatCompletions, {}, world.ports)).status).toBe(200);
    await vi.advanceTimersByTimeAsync(5_100);
    const refused = await late;
    expect([refused.status, refused.headers.get("retry-after")]).toEqual([503, "5"]);
  });

  it("of a dead key are not read once a quarter of the room is taken", async () => {
    const world = gated({ authorize: async () => ({ ok: false, refusal: { kind: "bad_key", why: "revoked" } }) });
    const client = new AbortController();
    const calls = Array.from({ length: 3 }, () =>
      serve(dripping(LARGE_BYTES, client), chatCompletions, {}, world.ports),
    );
    expect((await (calls[2] as Promise<Response>)).status).toBe(401);
    expect(world.ports.mediumBodies.heldBy(ACCOUNT)).toBe(2 * LARGE_BYTES);
  });
});

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
  const BUSY = { kind: "busy", retryAfterMs: 1 } as const;
  const read = (request: Request, holder: Partial<BodyHolder> = {}) =>
    readBody(request, MAX, { ...SMALL_BODIES, ...holder }, Date.now);
  const kindOf = (upload: Upload) => (upload.ok ? "read" : upload.refusal.kind);
  const bytesOf = (upload: Upload) => (upload.ok ? upload.bytes : new Uint8Array());
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
    const roomFor = async (count: number) => {
      if (count > LARGE_BYTES) asked.push(count);
      return null;
    };
    const upload = await read(streamed([1000, LARGE_BYTES, 5]), { roomFor });
    expect(asked).toEqual([MAX]);
    expect(Buffer.from(bytesOf(upload)).equals(Buffer.alloc(LARGE_BYTES + 1005, 7))).toBe(true);
  });

  it("without a length and without room reads no further", async () => {
    const roomFor = async (count: number) => (count <= LARGE_BYTES ? null : BUSY);
    expect(kindOf(await read(streamed([LARGE_BYTES, 5]), { roomFor }))).toBe("busy");
    expect(bytesOf(await read(streamed([LARGE_BYTES]), { roomFor }))).toHaveLength(LARGE_BYTES);
  });

  it("stands in memory once: with a length it is read into room of just that size", async () => {
    const body = new Uint8Array(3000).fill(7);
    const request = new Request("http://gateway.test/", {
      method: "POST",
      body,
      headers: { "content-length": "3000" },
    });
    const bytes = bytesOf(await read(request));
    expect(bytes).toEqual(body);
    expect(bytes.buffer.byteLength).toBe(3000);
  });

  it("large, with a length, is filled in place; one that ends early or goes on is broken", async () => {
    const sized = (bytes: number, claimed: number) =>
      new Request("http://gateway.test/", {
        method: "POST",
        body: new Uint8Array(bytes).fill(7),
        headers: { "content-length": String(claimed) },
      });
    const large = 2 * LARGE_BYTES;
    let arrived = 0;
    const bytes = bytesOf(
      await read(sized(large, large), {
        arrived: (count) => {
          arrived += count;
        },
      }),
    );
    expect(Buffer.from(bytes).equals(Buffer.alloc(large, 7))).toBe(true);
    expect(arrived).toBe(large);
    for (const claimed of [large - 1, large + 1]) {
      expect(await read(sized(large, claimed))).toMatchObject({ refusal: { message: expect.stringMatching(/early/) } });
    }
    free(bytes);
    expect(bytes).toHaveLength(0);
  });

  it("longer than it claims, or than it may be, is refused", async () => {
    const lying = streamed([10]);
    lying.headers.set("content-length", "5");
    expect(kindOf(await read(lying))).toBe("invalid_request");
    expect(kindOf(await read(streamed([MAX, 1])))).toBe("too_large");
    const vast = streamed([1]);
    vast.headers.set("content-length", String(MAX + 1));
    expect(await read(vast)).toEqual({ ok: false, refusal: { kind: "too_large", limitBytes: MAX } });
    expect(ROOM_BYTES).toBeGreaterThan(MAX);
  });
});

/** A body whose bytes come one piece a second, never all of them. */
function dripping(perSecond: number, length: number | null) {
  let timer: ReturnType<typeof setInterval> | undefined;
  const seen = { cancelled: false };
  const body = new ReadableStream({
    type: "bytes",
    start(controller) {
      timer = setInterval(() => perSecond > 0 && controller.enqueue(new Uint8Array(perSecond)), 1_000);
    },
    cancel() {
      clearInterval(timer);
      seen.cancelled = true;
    },
  });
  const headers = {
    authorization: `Bearer ${makeKey()}`,
    "content-type": "application/json",
    ...(length !== null && { "content-length": String(length) }),
  };
  const init = { method: "POST", headers, body, duplex: "half" } as RequestInit;
  return { request: new Request("http://gateway.test/v1/chat/completions", init), seen };
}

describe("a slow body", () => {
  const MB = 1024 * 1024;
  it.each<[string, number, number | null]>([
    ["small, with a length", 1, 500],
    ["small, without one", 1, null],
    ["one that sends nothing", 0, 500],
    ["large", 1, 20 * MB],
    ["a little under 8 kB/s", 7_900, 20 * MB],
  ])("%s, is let go after its first 10 s with 400, and is read no further", async (_, perSecond, length) => {
    const world = gated();
    const { request, seen } = dripping(perSecond, length);
    let answered: Response | undefined;
    void serve(request, chatCompletions, {}, world.ports).then((response) => (answered = response));
    await vi.advanceTimersByTimeAsync(9_500);
    expect([answered, seen.cancelled]).toEqual([undefined, false]);
    await vi.advanceTimersByTimeAsync(2_500);
    expect(answered?.status).toBe(400);
    expect(answered?.headers.get("x-should-retry")).toBe("false");
    expect(await answered?.json()).toMatchObject({
      error: { message: expect.stringContaining("8000 bytes a second") },
    });
    expect(seen.cancelled).toBe(true);
    expect(world.bodies.heldBytes).toBe(0);
    expect(vi.getTimerCount()).toBe(0);
  });

  it("at 9 kB/s is read on, and let go after ten minutes all the same", async () => {
    const world = gated();
    const { request, seen } = dripping(9_000, 20 * MB);
    const call = serve(request, chatCompletions, {}, world.ports);
    await vi.advanceTimersByTimeAsync(595_000);
    expect(seen.cancelled).toBe(false);
    await vi.advanceTimersByTimeAsync(10_000);
    expect((await call).status).toBe(400);
  });

  it("that takes room for which another waits gives way after 2 s with 503, and the other goes in", async () => {
    const bodies = new BodyRoom();
    const other = bodies.queue("other", ROOM_BYTES - 21 * MB, 0);
    bodies.ask(other, Date.now());
    const staying = setInterval(() => bodies.stay(other, Date.now()), 1_000);
    bodies.isWhole(other);
    const world = gated({ bodies });
    const { request, seen } = dripping(100_000, 20 * MB);
    const slow = serve(request, chatCompletions, {}, world.ports);
    await vi.advanceTimersByTimeAsync(5_000);
    expect(seen.cancelled).toBe(false);
    const third = bodies.queue("third", 2 * MB, Date.now());
    expect(bodies.ask(third, Date.now())).toBe("wait");
    await vi.advanceTimersByTimeAsync(1_000);
    expect(bodies.ask(third, Date.now())).toBe("inside");
    const refused = await slow;
    expect([refused.status, refused.headers.get("retry-after")]).toEqual([503, "5"]);
    clearInterval(staying);
  });
});

describe("the key of a large body", () => {
  const DEAD = { kind: "bad_key", why: "revoked" } as const;

  it("is asked about first: a dead one takes no place, and nothing of its body is read", async () => {
    const world = gated({ authorize: async () => ({ ok: false, refusal: DEAD }) });
    const { request, seen } = dripping(1, 20 * LARGE_BYTES);
    const queued = vi.spyOn(world.bodies, "queue");
    const response = await serve(request, chatCompletions, {}, world.ports);
    expect([response.status, request.bodyUsed, seen.cancelled]).toEqual([401, false, false]);
    expect(queued).not.toHaveBeenCalled();
  });

  it("is asked about as well where the body has no length and turns out to be large", async () => {
    const world = gated({ authorize: async () => ({ ok: false, refusal: DEAD }) });
    const { request } = dripping(2 * LARGE_BYTES, null);
    const call = serve(request, chatCompletions, {}, world.ports);
    await vi.advanceTimersByTimeAsync(1_000);
    expect((await call).status).toBe(401);
    expect(world.bodies.heldBytes).toBe(0);
  });

  it("is not asked about for a small one", async () => {
    const authorize = vi.fn(async () => ({ ok: false, refusal: DEAD }) as const);
    const world = gated({ authorize });
    world.open();
    expect((await serve(post(1_000), chatCompletions, {}, world.ports)).status).toBe(200);
    expect(authorize).not.toHaveBeenCalled();
  });
});

describe("bodies whose calls are refused", () => {
  const refusing = (kind: "no_credit" | "admission_unavailable", authorize?: FakeOptions["authorize"]) => {
    const no_credit = { kind, neededNanoUsd: 1, availableNanoUsd: 0, heldNanoUsd: 0 };
    const world = gated({
      admit: async () => ({ ok: false, refusal: no_credit }) as Admission,
      ...(authorize && { authorize }),
    });
    const send = async (characters: number) => {
      const request = post(characters);
      const response = await serve(request, chatCompletions, {}, world.ports);
      return { status: response.status, read: request.bodyUsed, after: Number(response.headers.get("retry-after")) };
    };
    return { world, send };
  };
  const LARGE = 2 * LARGE_BYTES;

  it("are not read once the account's bucket is full, until it has drained", async () => {
    const { world, send } = refusing("no_credit");
    world.bodies.unpaid.add(ACCOUNT, UNPAID_BURST_BYTES - LARGE, Date.now());
    expect((await send(LARGE)).status).toBe(402);
    world.bodies.unpaid.add(ACCOUNT, 10 * UNPAID_BYTES_PER_S, Date.now());
    const refused = await send(LARGE);
    expect(refused).toMatchObject({ status: 429, read: false });
    expect(refused.after).toBeGreaterThanOrEqual(10);
    expect(await send(1_000)).toMatchObject({ status: 429, read: false });
    world.bodies.unpaid.add("another", 1, Date.now());
    expect(world.bodies.unpaid.waitMs("another", Date.now())).toBe(0);
    await vi.advanceTimersByTimeAsync(refused.after * 1_000);
    expect((await send(LARGE)).status).toBe(402);
  });

  it("may be small ones, four hundred a second, for as long as they like", async () => {
    const { send } = refusing("no_credit");
    for (let at = 0; at < 200; at++) {
      expect((await send(4_500)).status).toBe(402);
      await vi.advanceTimersByTimeAsync(2.5);
    }
  });

  it("cost nothing where the fault is ours, nor where the call was admitted", async () => {
    const { world: failing, send } = refusing("admission_unavailable");
    expect((await send(LARGE)).status).toBe(503);
    expect(failing.bodies.unpaid.accounts).toBe(0);
    const world = gated();
    world.open();
    expect((await serve(post(LARGE), chatCompletions, {}, world.ports)).status).toBe(200);
    await world.idle();
    expect(world.bodies.unpaid.accounts).toBe(0);
  });

  it("of a dead key fill no more than a part of its account's bucket", async () => {
    const dead = { ok: false, refusal: { kind: "bad_key", why: "revoked" } } as const;
    const { world, send } = refusing("no_credit", async () => dead);
    for (let at = 0; at < 30; at++) await send(900_000);
    expect(await send(900_000)).toMatchObject({ status: 401, read: false });
    expect(world.bodies.unpaid.owed(ACCOUNT, Date.now())).toBeLessThan(ASK_FIRST_BYTES + 1_000_000);
  });
});
