/** Bodies that come as gzip: expanded within the same limits, and never much further than was read. */
import { gzipSync } from "node:zlib";
import { describe, expect, it, vi } from "vitest";
import { toHttp } from "../../../src/core/http-refusal.ts";
import { type BodyHolder, readBody, SMALL_BODIES } from "../../../src/gateway/http/body-reader.ts";
import { encodingOf } from "../../../src/gateway/http/expand.ts";

const MAX = 2_000_000;
const encoder = new TextEncoder();

function read(body: BodyInit | Uint8Array, encoding: string, holder: Partial<BodyHolder> = {}) {
  const request = new Request("http://gateway.test/", {
    method: "POST",
    headers: { "content-encoding": encoding },
    body: body as BodyInit,
    ...({ duplex: "half" } as object),
  });
  return readBody(request, MAX, { ...SMALL_BODIES, ...holder }, Date.now);
}

const noise = (bytes: number) =>
  Uint8Array.from({ length: bytes }, (_, at) => (Math.imul(at, 2_654_435_761) >>> 13) & 0xff);

describe("a gzip body", () => {
  it.each([["gzip"], ["GZIP"], ["x-gzip"], [" gzip "]])("as %j is expanded", async (encoding) => {
    const text = JSON.stringify({ text: "é".repeat(5_000), more: Array(500).fill(1) });
    const came = vi.fn();
    const zipped = gzipSync(text);
    const upload = await read(zipped, encoding, { arrived: came });
    expect(upload.ok && new TextDecoder().decode(upload.bytes)).toBe(text);
    // Its pace is that of what comes over the wire.
    expect(came.mock.calls.reduce((sum, [bytes]) => sum + bytes, 0)).toBe(zipped.length);
  });

  it("of any size up to the limit is the same bytes", async () => {
    for (const bytes of [noise(0), noise(1), noise(70_000), noise(1_200_000), new Uint8Array(MAX)]) {
      const upload = await read(gzipSync(bytes), "gzip");
      expect(upload.ok && Buffer.compare(upload.bytes, bytes)).toBe(0);
    }
  });

  it("a byte over the limit is 413, and what was expanded for nothing is told", async () => {
    const wasted = vi.fn();
    const upload = await read(gzipSync(new Uint8Array(MAX + 1)), "gzip", { wasted });
    expect(upload).toMatchObject({ ok: false, refusal: { kind: "too_large", limitBytes: MAX } });
    expect(wasted).toHaveBeenCalledOnce();
    expect(wasted.mock.calls[0]?.[0]).toBeGreaterThan(MAX / 2);
  });

  it("that is a bomb is expanded no further than the limit, and asks for room as it grows", async () => {
    const wasted = vi.fn();
    const room = vi.fn(async () => null);
    const bomb = gzipSync(new Uint8Array(200_000_000));
    const upload = await read(bomb, "gzip", { wasted, roomFor: room });
    expect(upload).toMatchObject({ ok: false, refusal: { kind: "too_large" } });
    expect(wasted.mock.calls[0]?.[0]).toBeLessThan(MAX + 1_000_000);
    expect(room.mock.calls.map(([bytes]: unknown[]) => bytes)).toEqual([0, 1024 * 1024, MAX]);
  });

  it("finds no room where none is: nothing more is expanded", async () => {
    const full = { kind: "busy", retryAfterMs: 5 } as const;
    const upload = await read(gzipSync(new Uint8Array(MAX)), "gzip", {
      roomFor: async (bytes) => (bytes > 100_000 ? full : null),
    });
    expect(upload).toEqual({ ok: false, refusal: full });
  });

  const good = gzipSync("x".repeat(10_000));
  it.each<[string, Uint8Array]>([
    ["is none", encoder.encode('{"model":"m"}')],
    ["ends early", good.subarray(0, -9)],
    ["has more behind it", Buffer.concat([good, encoder.encode("more")])],
    ["was changed on the way", Buffer.concat([good.subarray(0, -8), Buffer.alloc(8)])],
    ["is empty", new Uint8Array()],
  ])("that %s is 400 and says so", async (_, bytes) => {
    const upload = await read(bytes, "gzip");
    expect(upload).toMatchObject({ ok: false, refusal: { message: expect.stringMatching(/is not valid gzip/) } });
  });

  it("whose sender leaves ends early", async () => {
    const broken = new ReadableStream({
      pull(controller) {
        controller.enqueue(good.subarray(0, 20));
        controller.error(new Error("gone"));
      },
    });
    expect(await read(broken, "gzip")).toMatchObject({ ok: false, refusal: { kind: "invalid_request" } });
  });
});

it.each(["br", "zstd", "deflate", "gzip, gzip", "nonsense"])("%s is 415 with what to send", (encoding) => {
  const found = encodingOf(new Headers({ "content-encoding": encoding }));
  expect(!found.ok && toHttp(found.refusal)).toMatchObject({
    status: 415,
    message: expect.stringMatching(/Content-Encoding: gzip/),
    shouldRetry: false,
  });
});

it.each([{}, { "content-encoding": "" }, { "content-encoding": "Identity" }])("%j is read as it is", (headers) => {
  expect(encodingOf(new Headers(headers as Record<string, string>))).toEqual({ ok: true, gzip: false });
});
