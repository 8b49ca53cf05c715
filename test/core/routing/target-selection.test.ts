import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type Failure, judge, type RetryClass } from "../../../src/core/routing/failure.ts";
import type { Target } from "../../../src/core/routing/routes.ts";
import { Health } from "../../../src/core/routing/target-health.ts";
import { LONGEST_SEARCH_MS, Search } from "../../../src/core/routing/target-selection.ts";

const target = (model: string, priority = 0, weight = 1): Target => ({ upstream: "u", model, priority, weight });
const [A, B, C] = [target("a", 0), target("b", 1), target("c", 2)];
const status = (code: number, retryAfterMs: number | null = null): Failure => ({
  kind: "status",
  status: code,
  retryAfterMs,
});
const REFUSED: Failure = { kind: "refused" };
const UNAVAILABLE = status(503);

interface World {
  nowMs: number;
  readonly health: Health;
  /** What each model does now: null answers. */
  readonly faults: Record<string, Failure | null>;
  readonly asked: { model: string; atMs: number }[];
}
const world = (faults: Record<string, Failure | null> = {}): World => ({
  nowMs: 0,
  health: new Health(),
  faults,
  asked: [],
});

interface CallOptions {
  readonly retry?: RetryClass;
  readonly retryOn?: readonly number[];
  readonly random?: () => number;
}

/** One client call, answered or failed at once; gives the models that were asked. */
function call(world: World, targets: readonly Target[], options: CallOptions = {}): string[] {
  const { retry = "safe", retryOn = [], random = () => 0 } = options;
  const asked: string[] = [];
  const search = new Search(targets, world.health, random, world.nowMs);
  let step = search.first(world.nowMs);
  while (step.kind === "ask") {
    const { model } = step.target;
    asked.push(model);
    world.asked.push({ model, atMs: world.nowMs });
    const failure = world.faults[model];
    if (!failure) {
      search.answered(world.nowMs);
      break;
    }
    const verdict = judge(failure, retry, retryOn);
    search.failed(failure, verdict, world.nowMs);
    if (!verdict.next) break;
    step = search.next(failure, world.nowMs);
  }
  return asked;
}
const calls = (count: number, world: World, targets: readonly Target[], options?: CallOptions): string[][] =>
  Array.from({ length: count }, () => call(world, targets, options));

describe("whom a call asks", () => {
  it("leaves out a target that failed three times in a row, and sends it one probe after 10 s", () => {
    const down = world({ a: REFUSED });
    expect(calls(5, down, [A, B])).toEqual([["a", "b"], ["a", "b"], ["a", "b"], ["b"], ["b"]]);
    down.nowMs = 10_000;
    expect(calls(3, down, [A, B])).toEqual([["a", "b"], ["b"], ["b"]]);
    down.faults.a = null;
    down.nowMs = 20_000;
    expect(calls(3, down, [A, B])).toEqual([["a"], ["a"], ["a"]]);
  });

  it("sends nobody else to a target whose probe is out", () => {
    const down = world({ a: REFUSED });
    calls(3, down, [A, B]);
    down.nowMs = 10_000;
    const probing = new Search([A, B], down.health, () => 0, down.nowMs);
    expect(probing.first(down.nowMs)).toMatchObject({ kind: "ask", target: A });
    expect(calls(2, down, [A, B])).toEqual([["b"], ["b"]]);
    probing.answered(down.nowMs);
    expect(call({ ...down, faults: {} }, [A, B])).toEqual(["a"]);
  });

  it.each([400, 404, 413, 422, 401, 500, 502, 504])(
    "never leaves a target out for a %i, which a tenant can provoke",
    (code) => {
      const odd = world({ a: status(code) });
      expect(calls(10, odd, [A, B]).every(([first]) => first === "a")).toBe(true);
    },
  );

  it.each<[string, Failure]>([
    ["answers that are none", { kind: "malformed" }],
    ["answers that break off", { kind: "lost", begun: true }],
    ["answers that fall silent", { kind: "timeout", begun: true }],
  ])("never leaves a target out for %s", (_, failure) => {
    const odd = world({ a: failure });
    expect(calls(10, odd, [A, B]).every(([first]) => first === "a")).toBe(true);
  });

  it.each<[string, Failure]>([
    ["refusals", REFUSED],
    ["resets", { kind: "lost" }],
    ["silence", { kind: "timeout" }],
    ["answers that nobody gets in time", { kind: "answer_timeout" }],
    ["a closed port", { kind: "unreachable" }],
    ...[503, 520, 521, 522, 523, 524, 525, 526, 530].map((code): [string, Failure] => [String(code), status(code)]),
  ])("leaves it out for %s", (_, failure) => {
    const down = world({ a: failure });
    calls(3, down, [A, B]);
    expect(call(down, [A, B])).toEqual(["b"]);
  });

  it("never leaves a target out for answers that one tenant does not get in time while others do", () => {
    const odd = world();
    for (let time = 0; time < 5; time++) {
      const search = new Search([A, B], odd.health, () => 0, odd.nowMs);
      expect(search.first(odd.nowMs)).toMatchObject({ kind: "ask", target: A });
      odd.nowMs += 300_000;
      expect(call(odd, [A, B])).toEqual(["a"]);
      odd.nowMs += 300_000;
      search.failed({ kind: "answer_timeout" }, judge({ kind: "answer_timeout" }, "safe", []), odd.nowMs);
    }
    expect(call(odd, [A, B])).toEqual(["a"]);
  });

  it("leaves out that model on that target only after a 429, for as long as it said", () => {
    const busy = world({ a: status(429, 4_000) });
    const elsewhere: Target = { ...A, upstream: "other" };
    const sibling: Target = { ...A, model: "a2" };
    expect(calls(2, busy, [A, B])).toEqual([["a", "b"], ["b"]]);
    expect(call({ ...busy, faults: {} }, [elsewhere, B])).toEqual(["a"]);
    expect(call(busy, [sibling, B])).toEqual(["a2"]);
    busy.nowMs = 4_000;
    busy.faults.a = null;
    expect(call(busy, [A, B])).toEqual(["a"]);
  });

  it("tries the one that is due soonest when all are ejected, rather than refuse", () => {
    const down = world({ a: status(429, 30_000), b: status(429, 5_000) });
    call(down, [A, B]);
    expect(call(down, [A, B])).toEqual(["b"]);
  });

  it("refuses without asking, with the time to wait, once the budget for ejected targets is spent", () => {
    const down = world({ a: UNAVAILABLE });
    for (let time = 0; time < 20; time++) call(down, [A]);
    // Not the ejection's whole length: the target may be back at any time.
    for (const [random, retryAfterMs] of [
      [0, 1_000],
      [0.5, 1_500],
      [0.9999, 1_999],
    ] as const) {
      const refused = new Search([A], down.health, () => random, down.nowMs).first(down.nowMs);
      expect(refused).toEqual({ kind: "none", retryAfterMs });
    }
  });

  it("and with the time that a busy target named", () => {
    const busy = world({ a: status(429, 30_000) });
    for (let time = 0; time < 20; time++) call(busy, [A]);
    const { health, nowMs } = busy;
    expect(new Search([A], health, () => 0.5, nowMs).first(nowMs)).toEqual({ kind: "none", retryAfterMs: 30_000 });
  });

  it("and with the shortest of them, where one failed and one is busy", () => {
    const down = world({ a: status(429, 30_000), b: UNAVAILABLE });
    for (let time = 0; time < 20; time++) call(down, [A, B]);
    const { health, nowMs } = down;
    const search = new Search([A, B], health, () => 0.5, nowMs);
    let step = search.first(nowMs);
    while (step.kind === "ask") {
      search.failed(UNAVAILABLE, judge(UNAVAILABLE, "safe", []), nowMs);
      step = search.next(UNAVAILABLE, nowMs);
    }
    expect(step).toEqual({ kind: "none", retryAfterMs: 1_500 });
  });

  it("keeps the weights among the healthy", () => {
    const weighted = [target("a", 0, 6), target("b", 0, 3), target("c", 0, 1)];
    const down = world({ a: REFUSED });
    let seed = 0;
    const random = () => (seed = (seed + 0.618_033_988_75) % 1);
    calls(8, down, weighted, { random });
    down.asked.length = 0;
    calls(400, down, weighted, { random });
    const share = down.asked.filter(({ model }) => model === "b").length / down.asked.length;
    expect(share).toBeGreaterThan(0.73);
    expect(share).toBeLessThan(0.77);
  });

  it("serves equals in turn, and in turn among those that are left", () => {
    const equals = [target("a"), target("b"), target("c")];
    const well = world();
    expect(calls(6, well, equals).flat()).toEqual(["a", "b", "c", "a", "b", "c"]);
    well.faults.b = REFUSED;
    calls(9, well, equals);
    well.asked.length = 0;
    expect(calls(4, well, equals).flat().sort()).toEqual(["a", "a", "c", "c"]);
  });

  it("asks a single target again for a 503 or a refused connection, twice, and for nothing else", () => {
    expect(call(world({ a: UNAVAILABLE }), [A])).toEqual(["a", "a", "a"]);
    expect(call(world({ a: REFUSED }), [A], { retry: "creates" })).toEqual(["a", "a", "a"]);
    for (const failure of [status(429), status(521), { kind: "lost" } as const, { kind: "timeout" } as const]) {
      expect(call(world({ a: failure }), [A])).toEqual(["a"]);
    }
    expect(call(world({ a: UNAVAILABLE, b: UNAVAILABLE }), [A, B])).toEqual(["a", "b"]);
  });

  it("waits as the target asked before it repeats, up to 5 s; a longer wait is the caller's", () => {
    const step = (retryAfterMs: number | null) => {
      const search = new Search([A], new Health(), () => 0.5, 0);
      search.first(0);
      search.failed(status(503, retryAfterMs), judge(UNAVAILABLE, "safe", []), 0);
      return search.next(status(503, retryAfterMs), 0);
    };
    expect(step(null)).toMatchObject({ kind: "ask", waitMs: 100 });
    expect(step(2_000)).toMatchObject({ kind: "ask", waitMs: 2_100 });
    expect(step(6_000)).toMatchObject({ kind: "none" });
  });

  it("asks nobody more when the call has gone on for too long", () => {
    const search = new Search([A, B], new Health(), () => 0, 0);
    search.first(0);
    search.failed({ kind: "timeout" }, judge({ kind: "timeout" }, "safe", []), LONGEST_SEARCH_MS);
    expect(search.next({ kind: "timeout" }, LONGEST_SEARCH_MS)).toMatchObject({ kind: "none" });
  });

  it("keeps no more than a bounded number of targets in mind", () => {
    const many = world();
    for (let index = 0; index < 3_000; index++) call(many, [target(`m${index}`)]);
    expect(many.health.size).toBe(1_000);
  });
});

describe("invariant 13", () => {
  const FAILURES: readonly Failure[] = [
    REFUSED,
    UNAVAILABLE,
    status(429),
    status(500),
    { kind: "lost" },
    { kind: "timeout" },
  ];
  const load = fc.array(fc.integer({ min: 0, max: 1_500 }), { minLength: 1, maxLength: 600 });
  const retryOn = [500, 502];

  it("every target down: upstream calls <= 1.2 x client calls + 3 per 10 s and target", () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 4 }), fc.constantFrom(...FAILURES), load, (count, failure, gaps) => {
        const targets = [A, B, C, target("d", 3)].slice(0, count);
        const down = world(Object.fromEntries(targets.map(({ model }) => [model, failure])));
        for (const gap of gaps) {
          down.nowMs += gap;
          call(down, targets, { retryOn });
        }
        const windows = 1 + down.nowMs / 10_000;
        expect(down.asked.length).toBeLessThanOrEqual(1.2 * gaps.length + 3 * count * windows);
      }),
    );
  });

  it("100 clients that repeat on their own: once ejected, a fifth of their calls and three in 10 s get through", () => {
    const down = world({ a: UNAVAILABLE, b: UNAVAILABLE });
    let clientCalls = 0;
    for (; down.nowMs < 60_000; down.nowMs += 500) {
      for (let client = 0; client < 100; client++) {
        call(down, [A, B]);
        clientCalls++;
      }
    }
    expect(down.asked.length).toBeLessThanOrEqual(0.2 * clientCalls + 2 * 3 * 7 + 6);
  });

  it("targets that come and go: no target gets more than 1.2 x the client calls + 3 per 10 s", () => {
    const step = fc.record({
      gap: fc.integer({ min: 0, max: 2_000 }),
      fault: fc.option(fc.constantFrom(...FAILURES), { nil: null }),
      model: fc.constantFrom("a", "b", "c"),
      retry: fc.constantFrom<RetryClass[]>("safe", "costly", "creates"),
    });
    fc.assert(
      fc.property(fc.array(step, { minLength: 1, maxLength: 300 }), (steps) => {
        const odd = world();
        for (const { gap, fault, model, retry } of steps) {
          odd.nowMs += gap;
          odd.faults[model] = fault;
          call(odd, [A, B, C], { retry, retryOn });
        }
        for (const model of ["a", "b", "c"]) {
          const asked = odd.asked.filter((one) => one.model === model).length;
          expect(asked).toBeLessThanOrEqual(1.2 * steps.length + 3 * (1 + odd.nowMs / 10_000));
        }
      }),
    );
  });

  it("never sends a call that may have made something twice, unless the first was provably not executed", () => {
    const faults = fc.record({
      a: fc.option(fc.constantFrom(...FAILURES), { nil: null }),
      b: fc.option(fc.constantFrom(...FAILURES), { nil: null }),
      c: fc.option(fc.constantFrom(...FAILURES), { nil: null }),
    });
    fc.assert(
      fc.property(faults, fc.constantFrom<RetryClass[]>("costly", "creates"), (given, retry) => {
        const asked = call(world(given), [A, B, C], { retry, retryOn });
        const maybe = asked.filter((model) => {
          const failure = given[model as "a" | "b" | "c"];
          return !failure || judge(failure, retry, retryOn).executed === "unknown";
        });
        expect(maybe.length).toBeLessThanOrEqual(1);
      }),
    );
  });
});
