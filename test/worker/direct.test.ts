/**
 * What is done on a shorter way gives what the longer one gives: calls around the router, bodies read at once, streams
 * read in batches.
 */
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { ENDPOINTS } from "../../src/core/endpoints/table.ts";
import { readerOf } from "../../src/gateway/http/at-once.ts";
import { readBody, SMALL_BODIES } from "../../src/gateway/http/body-reader.ts";
import { readChunks } from "../../src/gateway/http/upstream-body.ts";
import { type BatchedSource, batchedSource } from "../../src/gateway/stream/batched-source.ts";
import { after } from "../../src/gateway/timer.ts";
import { done, settled } from "../support/worker/operator.ts";
import { ask, keyOf } from "../support/worker/tenant.ts";

const POSTS = ENDPOINTS.filter(({ method, path }) => method === "POST" && !path.includes("{")).map(({ path }) => path);
const CHAT = { model: "direct", messages: [{ role: "user", content: "hello" }] };
const COMPLETION = {
  id: "c",
  object: "chat.completion",
  choices: [{ index: 0, message: { role: "assistant", content: "Hi." }, finish_reason: "stop" }],
  usage: { prompt_tokens: 5, completion_tokens: 2, total_tokens: 7 },
};
let key = "";

beforeAll(async () => {
  await done("PUT", "/upstreams/direct", { base_url: "https://direct.example", api_key: "k" });
  const unit = { cost_usd: 1, price_usd: 2 };
  await done("PUT", "/models/direct", {
    kind: "chat",
    prices: { input_tokens: unit, output_tokens: unit },
    max_output_tokens: 16,
    upstream: "direct",
  });
  await done("POST", "/accounts", { id: "direct", name: "Direct", balance_usd: 100, rpm_limit: 1_000 });
  key = (await keyOf("direct")).key;
  vi.spyOn(console, "log").mockImplementation(() => undefined);
  vi.spyOn(globalThis, "fetch").mockImplementation(async () => Response.json(COMPLETION));
});
afterAll(async () => {
  vi.restoreAllMocks();
  await settled();
});

/** What a client sees, but for what differs from call to call. */
async function seen(text: string, path: string, init: RequestInit) {
  const answer = await ask(text, "POST", path, init);
  const ids = ["x-request-id", "x-service-request-id", "x-ratelimit-remaining-requests", "x-ratelimit-reset-requests"];
  const headers = [...answer.headers].map(([name, value]) => [name, ids.includes(name) ? "" : value]);
  return { status: answer.status, headers: headers.sort(), text: answer.text };
}

const JSON_TYPE = { "content-type": "application/json" };
const SENT: [what: string, text: () => string, init: RequestInit][] = [
  ["a good chat", () => key, { headers: JSON_TYPE, body: JSON.stringify(CHAT) }],
  ["a body that fits no row", () => key, { headers: JSON_TYPE, body: "[]" }],
  ["no body", () => key, {}],
  ["a page's request", () => key, { headers: { ...JSON_TYPE, origin: "https://page.example" }, body: "{}" }],
  ["a key that is none", () => "sk-tg-nothing", { headers: JSON_TYPE, body: JSON.stringify(CHAT) }],
  ["another tag", () => `${key.slice(0, -1)}${key.endsWith("a") ? "b" : "a"}`, { headers: JSON_TYPE, body: "{}" }],
];

describe("a call around the router answers as one through it", () => {
  it.each(SENT)("%s", async (_, text, init) => {
    for (const path of POSTS) {
      // An empty query means nothing, but only the router knows that.
      expect(await seen(text(), path, init), path).toEqual(await seen(text(), `${path}?`, init));
    }
  });

  it("also where our own code fails", async () => {
    const broken = vi.spyOn(crypto, "randomUUID").mockImplementationOnce(() => {
      throw new Error("no id");
    });
    const init = { headers: JSON_TYPE, body: JSON.stringify(CHAT) };
    const direct = await seen(key, "/v1/chat/completions", init);
    broken.mockImplementationOnce(() => {
      throw new Error("no id");
    });
    expect(direct).toEqual(await seen(key, "/v1/chat/completions?", init));
    expect(direct.status).toBe(500);
    broken.mockRestore();
  });

  it("a key that was served a moment ago is known by all of its text, not by a part of it", async () => {
    const init = { headers: JSON_TYPE, body: JSON.stringify(CHAT) };
    expect((await seen(key, "/v1/chat/completions", init)).status).toBe(200);
    const changed = `${key.slice(0, 20)}${key[20] === "x" ? "y" : "x"}${key.slice(21)}`;
    for (const other of [key.slice(0, -1), `${key}a`, key.toUpperCase(), changed]) {
      expect((await seen(other, "/v1/chat/completions", init)).status, other).toBe(401);
    }
  });
});

/** Reads in pieces: the runtime cannot fill a buffer from a stream of a script's own chunks. */
const inPieces = (bytes: Uint8Array<ArrayBuffer>) =>
  new ReadableStream<Uint8Array>({
    start(controller) {
      for (let at = 0; at < bytes.length; at += 1_000) controller.enqueue(bytes.slice(at, at + 1_000));
      controller.close();
    },
  });
const SIZES = [0, 1, 2_001, 65_536, 70_001];
const CLAIMS = (size: number) => [size, size - 1, size + 1, 0, 65_536, 1e9, Number.NaN, -3, 2.5];
const some = (size: number) => new Uint8Array(size).map((_, at) => at % 251);
const bytesOf = async (stream: ReadableStream<Uint8Array>, claimed: number | null) => {
  const reader = readerOf(stream, claimed);
  const pieces: number[] = [];
  for (;;) {
    const { done, value } = await reader.read();
    if (done || !value) return pieces;
    pieces.push(...value);
  }
};

describe("a body that is read at once", () => {
  it("has the same bytes, whatever it claims its length to be", async () => {
    for (const size of SIZES.slice(0, 3)) {
      for (const claimed of [null, ...CLAIMS(size)]) {
        const stream = new Response(some(size)).body as ReadableStream<Uint8Array>;
        expect(await bytesOf(stream, claimed), `${size} claimed as ${claimed}`).toEqual([...some(size)]);
      }
    }
  });

  it("is taken or refused as one that is read in pieces", async () => {
    const upload = async (body: BodyInit, claimed: number) => {
      const headers = { "content-length": String(claimed) };
      const request = new Request("http://gateway.test/", { method: "POST", headers, body });
      const read = await readBody(request, 70_000, SMALL_BODIES, () => Date.now());
      return read.ok ? { ok: true, text: String.fromCharCode(...read.bytes.subarray(0, 66_000)) } : read;
    };
    for (const size of SIZES.filter((bytes) => bytes > 0)) {
      for (const claimed of CLAIMS(size)) {
        const atOnce = await upload(some(size), claimed);
        expect(atOnce, `${size} claimed as ${claimed}`).toEqual(await upload(inPieces(some(size)), claimed));
      }
    }
  });

  it("that never ends is let go by its clock, with the refusal of a slow one", async () => {
    const { readable, writable } = new FixedLengthStream(20);
    void writable.getWriter().write(some(10));
    let atMs = 0;
    const headers = { "content-length": "20" };
    const request = new Request("http://gateway.test/", { method: "POST", headers, body: readable });
    const read = readBody(request, 100, SMALL_BODIES, () => (atMs += 6_000));
    expect(await read).toMatchObject({ ok: false, refusal: { message: expect.stringContaining("too slowly") } });
  });

  it("of an upstream ends, breaks off and is cancelled as one in pieces", async () => {
    const answer = (body: BodyInit, length: number) => ({
      kind: "answer" as const,
      response: new Response(body, { headers: { "content-length": String(length) } }),
      region: null,
      idleMs: 60_000,
      totalMs: 60_000,
      atOnce: true,
    });
    const ports = { now: () => Date.now(), after };
    const read = async (from: ReturnType<typeof answer>, signal = new AbortController().signal) => {
      const got: number[] = [];
      const take = (chunk: Uint8Array) => {
        got.push(...chunk);
        return "more" as const;
      };
      const end = await readChunks(from, take, signal, ports);
      return { end, got };
    };
    for (const length of [300, 299, 301, 0]) {
      expect(await read(answer(some(300), length))).toEqual({ end: "ended", got: [...some(300)] });
    }
    const broken = new FixedLengthStream(20);
    const writer = broken.writable.getWriter();
    void writer.write(some(10)).then(
      () => writer.abort(new Error("gone")),
      () => undefined,
    );
    expect((await read(answer(broken.readable, 20))).end).toBe("lost");
    const silent = new FixedLengthStream(20);
    const left = new AbortController();
    setTimeout(() => left.abort(), 20);
    expect((await read(answer(silent.readable, 20), left.signal)).end).toBe("lost");
  });
});

describe("a stream that is read in batches", () => {
  const pause = (ms: number) => new Promise((resume) => setTimeout(resume, ms));
  const upstream = () => {
    const { readable, writable } = new IdentityTransformStream();
    const source = batchedSource(readable, () => Date.now());
    if (!source) throw new Error("the runtime cannot");
    const writer = writable.getWriter();
    writer.closed.catch(() => undefined);
    return { source, writer };
  };
  const all = async (source: BatchedSource, onPiece = async () => {}) => {
    const got: number[] = [];
    let reads = 0;
    try {
      for (;;) {
        const { done, value } = await source.read();
        if (done || !value) return { got, reads, broken: false };
        reads++;
        got.push(...value);
        await onPiece();
      }
    } catch {
      return { got, reads, broken: true };
    }
  };

  it("gives the same bytes in the same order", async () => {
    for (const [pieces, size] of [
      [400, 200],
      [20, 30_000],
      [3, 10],
      [60, 3_000],
    ] as const) {
      const { source, writer } = upstream();
      const reading = all(source);
      for (let at = 0; at < pieces; at++) await writer.write(some(size).map((byte) => byte ^ at));
      await writer.close();
      const { got, broken } = await reading;
      expect(broken).toBe(false);
      expect(got.length).toBe(pieces * size);
      expect(got.every((byte, at) => byte === (((at % size) % 251) ^ Math.floor(at / size)) % 256)).toBe(true);
      expect(source.batched).toBe(pieces > 3);
    }
  });

  it("is read piece by piece while they come slowly, and a piece that comes alone is given alone", async () => {
    const { source, writer } = upstream();
    const first = all(source);
    for (let at = 0; at < 6; at++) {
      await writer.write(some(10));
      await pause(20);
    }
    expect(source.batched).toBe(false);
    for (let at = 0; at < 10; at++) await writer.write(some(10));
    await pause(30);
    expect(source.batched).toBe(true);
    for (let at = 0; at < 3; at++) {
      await writer.write(some(10));
      await pause(30);
    }
    await writer.close();
    // Six by themselves, at least one with the others, three by themselves.
    const { got, reads } = await first;
    expect(got.length).toBe(190);
    expect(reads).toBeGreaterThanOrEqual(10);
  });

  it("gives all that came before its upstream broke off", async () => {
    for (const pieces of [2, 50]) {
      const { source, writer } = upstream();
      const reading = all(source);
      for (let at = 0; at < pieces; at++) await writer.write(some(100));
      await writer.abort(new Error("gone"));
      const { got, broken } = await reading;
      expect(broken).toBe(true);
      expect(got.length).toBe(pieces * 100);
    }
  });
});

it("the runtime can read at once", () => {
  expect("readAtLeast" in ReadableStreamBYOBReader.prototype).toBe(true);
});
