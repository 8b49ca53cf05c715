import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { PauseSigns } from "../../../src/gateway/stream/pause-signs.ts";

const IDLE_MS = 60_000;
const PIECE = 16 * 1024;

/** Reads a tee's branch as the relay does, in a world of virtual time; gives when the client counts as paused. */
function run(world: { read(nowMs: number): { bytes: number; tookMs: number } }, forMs: number, restMs = () => 300) {
  const signs = new PauseSigns(IDLE_MS);
  let nowMs = 0;
  let readBytes = 0;
  while (nowMs < forMs) {
    const { bytes, tookMs } = world.read(nowMs);
    readBytes += bytes;
    nowMs += tookMs;
    const rest = signs.add(bytes, bytes === PIECE, tookMs, nowMs);
    if (signs.paused(nowMs)) return { atMs: nowMs, readBytes };
    if (rest !== null) nowMs += Math.max(rest, restMs());
  }
  return { atMs: null, readBytes };
}

/** The client takes all that comes: a read gets what came since the last, or waits for the next piece. */
function taking(pieces: readonly { gapMs: number; bytes: number }[]) {
  let at = 0;
  let dueMs = pieces[0]?.gapMs ?? 0;
  let left = 0;
  const take = () => {
    left += pieces[at % pieces.length]?.bytes ?? 0;
    at++;
    dueMs += pieces[at % pieces.length]?.gapMs ?? 0;
  };
  return {
    read(nowMs: number) {
      while (dueMs <= nowMs) take();
      const tookMs = left > 0 ? 0 : dueMs - nowMs;
      if (left === 0) take();
      const bytes = Math.min(left, PIECE);
      left -= bytes;
      return { bytes, tookMs };
    },
  };
}

describe("a client that has stopped, of an upstream that has more at hand", () => {
  it.each([1, 200, 2_000, 15_000])("is known as such after idleMs, with pieces of %i bytes", (bytes) => {
    const { atMs, readBytes } = run({ read: () => ({ bytes, tookMs: 0 }) }, 2 * IDLE_MS);
    expect(atMs).toBeGreaterThanOrEqual(IDLE_MS);
    expect(atMs).toBeLessThan(IDLE_MS + 5_000);
    // It waits in memory.
    expect(readBytes).toBeLessThan(9_000_000);
  });

  it("in pieces of different sizes, some of them large", () => {
    const size = fc.oneof({ weight: 20, arbitrary: fc.integer({ min: 150, max: 400 }) }, fc.constant(5_000));
    fc.assert(
      fc.property(fc.array(size, { minLength: 200, maxLength: 300 }), (sizes) => {
        let at = 0;
        const { atMs } = run({ read: () => ({ bytes: sizes[at++ % sizes.length] ?? 1, tookMs: 0 }) }, 4 * IDLE_MS);
        expect(atMs).toBeGreaterThanOrEqual(IDLE_MS);
      }),
    );
  });
});

it("a client that takes what comes is never taken for one that has stopped", () => {
  const piece = fc.record({
    gapMs: fc.oneof(fc.constant(0), fc.integer({ min: 0, max: 30 }), fc.integer({ min: 100, max: 2_000 })),
    bytes: fc.integer({ min: 1, max: 20_000 }),
  });
  const stream = fc.array(piece, { minLength: 1, maxLength: 60 }).filter((all) => all.some(({ gapMs }) => gapMs > 0));
  fc.assert(
    fc.property(stream, fc.array(fc.integer({ min: 200, max: 300 }), { minLength: 7, maxLength: 20 }), (all, rests) => {
      let at = 0;
      const restMs = () => rests[at++ % rests.length] ?? 300;
      expect(run(taking(all), 4 * IDLE_MS, restMs).atMs).toBeNull();
    }),
    { numRuns: 300 },
  );
});

it("an upstream that has nothing more at hand gives no sign, whatever its client does", () => {
  expect(run({ read: () => ({ bytes: 200, tookMs: 20 }) }, 4 * IDLE_MS).atMs).toBeNull();
});
