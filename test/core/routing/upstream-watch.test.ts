import { describe, expect, it } from "vitest";
import { type KnownState, type TryCount, watchUpstreams } from "../../../src/core/routing/upstream-watch.ts";

const tries = (model: string, result: string, count: number): TryCount => ({
  upstream: "eu",
  model,
  result,
  tries: count,
});
const told = (counts: readonly TryCount[], known: readonly KnownState[] = []) =>
  watchUpstreams(counts, known).map(({ state, holds, news }) => `${state} ${holds} ${news?.type}`);
const DOWN: KnownState = { upstream: "eu", state: "down", sinceMs: 0 };
const REFUSES: KnownState = { upstream: "eu", state: "refuses", sinceMs: 0 };

describe("an upstream is told of", () => {
  it("when three tries failed, and half of all, and when fewer do again", () => {
    expect(told([tries("a", "timeout", 2)])).toEqual([]);
    expect(told([tries("a", "timeout", 3), tries("a", "answered", 4)])).toEqual([]);
    expect(told([tries("a", "timeout", 3), tries("a", "answered", 3)])).toEqual(["down true upstream.down"]);
    expect(told([tries("a", "timeout", 9)], [DOWN])).toEqual([]);
    expect(told([tries("a", "answered", 1)], [DOWN])).toEqual(["down false upstream.recovered"]);
    expect(told([], [DOWN])).toEqual([]);
  });

  it("when it refuses the operator, once", () => {
    expect(told([tries("a", "status_402", 1)])).toEqual(["refuses true upstream.refuses_operator"]);
    expect(told([tries("a", "status_402", 1)], [REFUSES])).toEqual([]);
    expect(told([tries("a", "answered", 1)], [REFUSES])).toEqual(["refuses false undefined"]);
  });

  it("not for what tenants ask wrongly", () => {
    expect(told([400, 404, 413, 422].map((status) => tries("a", `status_${status}`, 50)))).toEqual([]);
  });

  it("neither because one tenant's engine fails or refuses without end, nor less because it answers", () => {
    const others = ["b", "c"].map((model) => tries(model, "answered", 1));
    expect(told([tries("a", "status_500", 1_000), tries("a", "status_401", 1_000), ...others])).toEqual([]);
    const failing = ["b", "c"].map((model) => tries(model, "timeout", 2));
    expect(told([tries("a", "answered", 1_000), ...failing])).toEqual(["down true upstream.down"]);
  });
});
