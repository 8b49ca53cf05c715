import { expect, it } from "vitest";
import { dueLists, type ListedKind, type Watch } from "../../../src/core/compute/listing.ts";

const KINDS: readonly ListedKind[] = ["instance", "cluster", "drive", "filesystem"];

it.each([1, 2, 3, 4])(
  "%i kinds in transition share the 24 list calls of a minute, and none waits for another",
  (count) => {
    const watches = KINDS.slice(0, count).map(
      (kind): Watch => ({ account: 1, kind, tags: ["t"], inTransition: ["t"] }),
    );
    const listed = new Map<ListedKind, number>();
    const times: { kind: ListedKind; atMs: number }[] = [];
    for (let nowMs = 60_000; nowMs < 180_000; nowMs += 100) {
      for (const { kind, atMs } of dueLists(watches, listed)) {
        if (atMs > nowMs) continue;
        listed.set(kind, nowMs);
        times.push({ kind, atMs: nowMs });
      }
    }
    for (const { atMs } of times) {
      expect(times.filter((one) => one.atMs > atMs - 60_000 && one.atMs <= atMs).length).toBeLessThanOrEqual(24);
    }
    const perKind = KINDS.slice(0, count).map((kind) => times.filter((one) => one.kind === kind).length);
    expect(Math.min(...perKind)).toBeGreaterThanOrEqual(count <= 2 ? 20 : 10);
    expect(Math.max(...perKind) - Math.min(...perKind)).toBeLessThanOrEqual(1);
  },
);

it("a kind at rest is listed each minute beside one in transition", () => {
  const watches: Watch[] = [
    { account: 1, kind: "drive", tags: ["a"], inTransition: [] },
    { account: 1, kind: "instance", tags: ["b"], inTransition: ["b"] },
  ];
  const listed = new Map<ListedKind, number>([
    ["drive", 1_000],
    ["instance", 1_000],
  ]);
  expect(dueLists(watches, listed)).toEqual([
    { kind: "instance", atMs: 6_000 },
    { kind: "drive", atMs: 61_000 },
  ]);
});
