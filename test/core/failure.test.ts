import { describe, expect, it } from "vitest";
import { type Failure, judge, lastRefusal, type RetryClass } from "../../src/core/failure.ts";
import { toHttp } from "../../src/core/refusal.ts";
import type { Target } from "../../src/core/routes.ts";
import { orderTargets } from "../../src/core/targets.ts";

const status = (code: number): Failure => ({ kind: "status", status: code, retryAfterMs: null });
const CLASSES: RetryClass[] = ["safe", "costly", "creates"];

describe("what a failed try means", () => {
  it.each([[{ kind: "refused" } as Failure], ...[503, 429, 521, 523, 525, 526, 530].map((code) => [status(code)])])(
    "%j was not executed: the next target, for every class",
    (failure) => {
      for (const retry of CLASSES) expect(judge(failure, retry, [])).toMatchObject({ executed: "no", next: true });
    },
  );

  it.each([
    [{ kind: "lost" } as Failure],
    [{ kind: "timeout" } as Failure],
    [{ kind: "unreachable" } as Failure],
    [{ kind: "malformed" } as Failure],
    ...[520, 522, 524].map((code) => [status(code)]),
  ])("%j is ambiguous: the next target only where a repeat has no effect", (failure) => {
    for (const retry of CLASSES) {
      expect(judge(failure, retry, [])).toMatchObject({ executed: "unknown", next: retry === "safe" });
    }
  });

  it("500 and 502 go on only where the alias says so and a repeat has no effect", () => {
    for (const code of [500, 502]) {
      expect(judge(status(code), "safe", []).next).toBe(false);
      expect(judge(status(code), "safe", [500, 502]).next).toBe(true);
      expect(judge(status(code), "creates", [500, 502]).next).toBe(false);
    }
  });

  it.each([401, 402, 403])("%i is the operator's: final, and 503 to the tenant", (code) => {
    const failure = status(code);
    expect(judge(failure, "safe", [])).toMatchObject({ next: false, operators: true });
    expect(toHttp(lastRefusal(failure, "no", "safe")).status).toBe(503);
  });

  it.each([
    [{ kind: "refused" } as Failure, 503],
    [{ kind: "unreachable" } as Failure, 503],
    [status(503), 503],
    [status(429), 503],
    [{ kind: "lost" } as Failure, 502],
    [status(500), 502],
    [status(302), 502],
    [{ kind: "timeout" } as Failure, 504],
    [status(524), 504],
  ])("%j as the last one is said as %i", (failure, code) => {
    expect(toHttp(lastRefusal(failure, "unknown", "safe")).status).toBe(code);
  });

  it.each([
    { kind: "lost" } as Failure,
    { kind: "unreachable" } as Failure,
    { kind: "timeout" } as Failure,
    ...[520, 522, 524, 504].map(status),
  ])("%j of what may have made something is said as 504, and not to be repeated", (failure) => {
    for (const retry of ["costly", "creates"] as const) {
      expect(toHttp(lastRefusal(failure, "unknown", retry))).toMatchObject({ status: 504, shouldRetry: false });
    }
  });

  it.each([500, 502])("%i of what may have made something stays 502, and not to be repeated", (code) => {
    expect(toHttp(lastRefusal(status(code), "unknown", "creates"))).toMatchObject({ status: 502, shouldRetry: false });
  });

  it("a 429 that names no wait is said as 503 with one", () => {
    expect(toHttp(lastRefusal(status(429), "no", "safe"))).toMatchObject({ status: 503, retryAfterSeconds: 10 });
  });

  it("tells an SDK not to repeat what may have made something", () => {
    expect(toHttp(lastRefusal({ kind: "lost" }, "unknown", "creates")).shouldRetry).toBe(false);
    expect(toHttp(lastRefusal({ kind: "timeout" }, "unknown", "safe")).shouldRetry).toBe(false);
    expect(toHttp(lastRefusal({ kind: "lost" }, "unknown", "safe")).shouldRetry).toBe(true);
  });
});

describe("the order of targets", () => {
  const target = (model: string, priority: number, weight = 1): Target => ({ upstream: "u", model, priority, weight });

  it("is by priority, each target once", () => {
    const targets = [target("c", 2), target("a", 0), target("b", 1)];
    expect(orderTargets(targets, () => 0.5).map(({ model }) => model)).toEqual(["a", "b", "c"]);
  });

  it("is drawn by weight inside a priority", () => {
    const targets = [target("light", 0, 1), target("heavy", 0, 3), target("idle", 0, 0)];
    const firsts = Array.from(
      { length: 400 },
      (_, index) => orderTargets(targets, () => (index + 0.5) / 400)[0]?.model,
    );
    expect(firsts.filter((model) => model === "heavy")).toHaveLength(300);
    expect(firsts).not.toContain("idle");
    expect(orderTargets(targets, () => 0).map(({ model }) => model)).toContain("idle");
  });
});
