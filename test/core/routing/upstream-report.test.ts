import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  lastErrors,
  percentiles,
  type ReportedTry,
  targetReports,
  worstState,
} from "../../../src/core/routing/upstream-report.ts";

/** Newest first, as results. */
const tries = (...results: string[]): ReportedTry[] =>
  results.map((result, at) => ({ model: "m", result, ms: at, callId: `c${at}`, atMs: 1_000 - at, firstByteMs: null }));
const state = (...results: string[]) => worstState(targetReports(tries(...results)));

describe("the state of a target", () => {
  it.each<[string, string[]]>([
    ["idle", []],
    ["up", ["answered"]],
    ["up", ["answered", "status_503", "lost", "timeout"]],
    ["failing", ["status_503", "answered"]],
    ["failing", ["lost", "lost", "answered"]],
    ["down", ["lost", "status_503", "refused", "answered"]],
    ["down", ["status_429", "status_429", "status_429"]],
    ["up", ["status_400", "status_400", "status_422", "status_404"]],
  ])("is %s after %j", (expected, results) => {
    expect(state(...results)).toBe(expected);
  });

  it("of an upstream is that of its worst one, which comes first", () => {
    const up = tries("answered").map((tried) => ({ ...tried, model: "a" }));
    const reports = targetReports([...up, ...tries("lost", "lost", "lost")]);
    expect(reports.map(({ model, state }) => [model, state])).toEqual([["m", "down"], ["a", "up"]]); // biome-ignore format: a row
    expect(reports[0]).toMatchObject({ tries: 3, results: { lost: 3 }, lastAnsweredMs: null, lastFailedMs: 1_000 });
    expect(lastErrors(tries("answered", "lost", "status_400", "refused"), 1).map(({ result }) => result)).toEqual([
      "lost",
    ]);
  });
});

it("percentiles are values that occurred, and no more than their part is above", () => {
  expect(percentiles([])).toEqual({ p50: null, p95: null, p99: null });
  fc.assert(
    fc.property(fc.array(fc.integer(), { minLength: 1, maxLength: 300 }), (values) => {
      for (const [name, part] of [
        ["p50", 0.5],
        ["p95", 0.95],
        ["p99", 0.99],
      ] as const) {
        // biome-ignore format: rows
        const value = percentiles(values)[name] as number;
        expect(values).toContain(value);
        expect(values.filter((other) => other > value).length).toBeLessThanOrEqual((1 - part) * values.length);
        expect(values.filter((other) => other < value).length).toBeLessThanOrEqual(part * values.length);
      }
    }),
  );
});
