import { describe, expect, it } from "vitest";
import { toHttp } from "../../../src/core/http-refusal.ts";
import {
  type Failure,
  isRepeatable,
  judge,
  judgeCoded,
  lastRefusal,
  passesWords,
  type RetryClass,
  waitOf,
} from "../../../src/core/routing/failure.ts";
import type { Target } from "../../../src/core/routing/routes.ts";
import { orderTargets } from "../../../src/core/routing/target-order.ts";

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

  it("an answer that was not there in time is ambiguous, and final for every class", () => {
    for (const retry of CLASSES) {
      expect(judge({ kind: "answer_timeout" }, retry, [500, 502])).toMatchObject({ executed: "unknown", next: false });
      expect(toHttp(lastRefusal({ kind: "answer_timeout" }, "unknown", retry))).toMatchObject({
        status: 504,
        shouldRetry: false,
      });
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

  it.each<[Failure, "strike" | "limit" | null]>([
    [{ kind: "refused" }, "strike"],
    [{ kind: "unreachable" }, "strike"],
    [{ kind: "lost" }, "strike"],
    [{ kind: "lost", begun: true }, null],
    [{ kind: "timeout" }, "strike"],
    [{ kind: "timeout", begun: true }, null],
    [{ kind: "malformed" }, null],
    [status(503), "strike"],
    [status(429), "limit"],
    [status(524), "strike"],
    [status(401), null],
    [status(404), null],
    [status(500), null],
  ])("%j speaks against its target as %s: what a tenant can bring about does not", (failure, against) => {
    expect(judge(failure, "safe", []).against).toBe(against);
  });

  it.each([400, 404, 413, 422])("%i is the upstream's word on the request: final, nothing executed", (code) => {
    expect(judge(status(code), "safe", [code])).toEqual({
      executed: "no",
      next: false,
      operators: false,
      against: null,
    });
  });

  it.each([401, 402, 403])("%i executed nothing", (code) => {
    expect(judge(status(code), "creates", [])).toEqual({ executed: "no", next: false, operators: true, against: null });
  });

  it("a code of the video service is its definite word: nothing was made, and the target is well", () => {
    const verdict = judge(status(503), "creates", []);
    const unknown = judge({ kind: "lost" }, "creates", []);
    expect(judgeCoded(unknown, { kind: "lost" }, true)).toEqual({ ...unknown, executed: "no", against: null });
    expect(judgeCoded(verdict, status(503), true)).toEqual({ ...verdict, against: null });
    expect(judgeCoded(verdict, status(503), false)).toEqual(verdict);
    expect(judgeCoded(unknown, { kind: "lost" }, false)).toEqual(unknown);
  });

  it("a 429 of the video service without a code ejects nobody", () => {
    const verdict = judge(status(429), "creates", []);
    expect(judgeCoded(verdict, status(429), false)).toEqual({ ...verdict, against: null });
  });

  it("words pass of statuses that judge the request, and of 402 on the owner's own instance", () => {
    for (const code of [400, 404, 413, 422]) expect(passesWords(code, false)).toBe(true);
    expect(passesWords(402, true)).toBe(true);
    expect(passesWords(402, false)).toBe(false);
    for (const code of [401, 403, 429, 500]) expect(passesWords(code, true)).toBe(false);
  });

  it("the one target of a call is asked the same again only where it took nothing and is not busy", () => {
    expect(isRepeatable({ kind: "refused" })).toBe(true);
    expect(isRepeatable(status(503))).toBe(true);
    for (const failure of [status(429), status(500), { kind: "lost" } as const]) {
      expect(isRepeatable(failure)).toBe(false);
    }
  });

  it("a wait is what a status named; a 429 that names none means ten seconds", () => {
    expect(waitOf({ kind: "lost" })).toBeNull();
    expect(waitOf(status(503))).toBeNull();
    expect(waitOf({ kind: "status", status: 503, retryAfterMs: 7 })).toBe(7);
    expect(waitOf({ kind: "status", status: 429, retryAfterMs: 7 })).toBe(7);
    expect(waitOf(status(429))).toBe(10_000);
  });

  it("what was provably not executed may be repeated, whatever its class", () => {
    expect(lastRefusal({ kind: "timeout" }, "no", "creates")).toEqual({ kind: "upstream_timeout", repeatable: true });
    expect(lastRefusal(status(500), "no", "creates")).toEqual({ kind: "upstream_error", repeatable: true });
    expect(lastRefusal(status(504), "no", "creates")).toEqual({ kind: "upstream_timeout", repeatable: false });
  });

  it("an answer that is none is said as 502, also of what may have made something", () => {
    expect(lastRefusal({ kind: "malformed" }, "unknown", "creates")).toEqual({
      kind: "upstream_error",
      repeatable: false,
    });
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
