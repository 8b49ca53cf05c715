/**
 * Random histories of video jobs: submitted or not, acknowledged or lost, polled by nobody or by many at once, an
 * upstream that is late, down or forgetful, prices that change, restarts. Judged by the end that each job came to
 * upstream.
 */
import { evictDurableObject, runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import fc from "fast-check";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import type { UsageEvent } from "../../src/core/account/hold.ts";
import {
  call,
  digestOf,
  expectSound,
  fakeClock,
  fakeQueue,
  INFERENCE,
  newAccount,
  rows,
  type Stub,
} from "../support/worker/account-support.ts";
import { HISTORIES, HISTORIES_TIMEOUT_MS } from "../support/worker/histories.ts";
import {
  completed,
  type FakeUpstream,
  failed,
  fakeUpstream,
  newJob,
  running,
  submission,
  VIDEO_ROW,
} from "../support/worker/video-support.ts";

const DEADLINE = 7_200_000;
const ALARM_EVERY_MS = 200_000;
let advance: (byMs: number) => void;
let upstream: FakeUpstream;

beforeEach(async () => {
  advance = fakeClock();
  vi.spyOn(console, "log").mockImplementation(() => {});
  upstream = await fakeUpstream();
});
afterEach(() => {
  vi.restoreAllMocks();
  vi.useRealTimers();
});

/** What a job comes to upstream, `afterMs` after its submission. `never`: it is lost there. */
type Fate = { readonly end: "completed" | "failed" | "never"; readonly afterMs: number; readonly tokens: number };
type Step =
  | {
      readonly do: "submit";
      readonly fate: Fate;
      readonly answer: "acknowledged" | "refused" | "lost";
      readonly price: number;
    }
  | { readonly do: "poll"; readonly at: number; readonly times: number }
  | { readonly do: "wait"; readonly ms: number }
  | { readonly do: "weather"; readonly down: boolean }
  | { readonly do: "restart" };

const fate = fc.record({
  end: fc.constantFrom<Fate["end"]>("completed", "completed", "completed", "failed", "never"),
  afterMs: fc.constantFrom(0, 3_000, 40_000, 600_000, DEADLINE - 60_000),
  tokens: fc.integer({ min: 0, max: 130 }),
});
const step: fc.Arbitrary<Step> = fc.oneof(
  fc.record({
    do: fc.constant("submit" as const),
    fate,
    answer: fc.constantFrom("acknowledged", "acknowledged", "acknowledged", "refused", "lost"),
    price: fc.integer({ min: 1, max: 3 }),
  }),
  fc.record({ do: fc.constant("poll" as const), at: fc.nat(20), times: fc.integer({ min: 1, max: 8 }) }),
  fc.record({ do: fc.constant("wait" as const), ms: fc.constantFrom(500, 5_000, 31_000, 65_000, 300_000) }),
  fc.record({ do: fc.constant("weather" as const), down: fc.boolean() }),
  fc.record({ do: fc.constant("restart" as const) }),
);

interface Expected {
  readonly id: string;
  readonly call: string;
  readonly price: number;
  readonly fate: Fate;
  readonly answer: "acknowledged" | "refused" | "lost";
}

/** One account, its upstream and the clock between them. */
class History {
  readonly #stub: Stub;
  readonly jobs: Expected[] = [];
  events: UsageEvent[] = [];
  #queue: Awaited<ReturnType<typeof fakeQueue>>;
  #down = false;

  constructor(stub: Stub, queue: Awaited<ReturnType<typeof fakeQueue>>) {
    this.#stub = stub;
    this.#queue = queue;
  }

  async take(one: Step): Promise<void> {
    if (one.do === "submit") await this.#submit(one);
    else if (one.do === "poll") await this.#poll(one.at, one.times);
    else if (one.do === "wait") await this.live(one.ms);
    else if (one.do === "weather") this.#down = one.down;
    else await this.#restart();
  }

  async #submit({ fate, answer, price }: Step & { do: "submit" }): Promise<void> {
    const name = `c${this.jobs.length}`;
    const row = { ...VIDEO_ROW, costNanoUsd: { video_tokens_720p: price * 1_000_000 } };
    const admission = await this.#stub.admit(submission(name, 100, { row }));
    if (!admission.ok) {
      expect(admission.refusal.kind).toBe("named_limit");
      return;
    }
    const { id } = newJob(name);
    const submittedAtMs = Date.now();
    const expected = { id, call: name, price, fate, answer };
    this.jobs.push(expected);
    upstream.jobs.set(id, () => this.#answer(expected, submittedAtMs));
    const ended = { status: 503, reason: "x", servedBy: null, latencyMs: 1 };
    if (answer === "refused") await this.#stub.release({ callId: call(name), lostTries: 0, ...ended });
    if (answer === "acknowledged") await this.#stub.begin(newJob(name));
  }

  #answer({ id, fate }: Expected, submittedAtMs: number): Response {
    if (this.#down) return new Response("", { status: 503 });
    if (fate.end === "never") return new Response("", { status: 404 });
    if (Date.now() < submittedAtMs + fate.afterMs) return running(id);
    return fate.end === "failed" ? failed(id, "internal_error") : completed(id, fate.tokens);
  }

  async #poll(at: number, times: number): Promise<void> {
    const job = this.jobs[at];
    if (!job) return;
    const before = upstream.polls.length;
    const views = await Promise.all(
      Array.from({ length: times }, () => this.#stub.job(digestOf("k"), job.id, INFERENCE)),
    );
    for (const view of views) expect(view).toEqual(views[0]);
    // However many ask at once.
    expect(upstream.polls.length - before).toBeLessThanOrEqual(1);
  }

  async #restart(): Promise<void> {
    this.#collect();
    await evictDurableObject(this.#stub);
    this.#queue = await fakeQueue(this.#stub);
  }

  /** Moves the clock to each alarm in turn; twice where it is delivered twice. */
  async live(forMs: number): Promise<void> {
    for (let left = forMs; left > 0; ) {
      const atMs = await runInDurableObject(this.#stub, (_, { storage }) => storage.getAlarm());
      const stepMs = Math.min(left, Math.max(1_000, (atMs ?? Number.POSITIVE_INFINITY) - Date.now()));
      advance(stepMs);
      left -= stepMs;
      await runDurableObjectAlarm(this.#stub);
    }
    this.#collect();
  }

  /**
   * Good weather until every job's deadline is over, an alarm every few minutes: no object sleeps through a job's
   * slack.
   */
  async outlive(): Promise<void> {
    this.#down = false;
    for (let left = DEADLINE; left > 0; left -= ALARM_EVERY_MS) {
      advance(ALARM_EVERY_MS);
      await runDurableObjectAlarm(this.#stub);
    }
    await this.live(3 * 60_000);
  }

  #collect(): void {
    this.events.push(...this.#queue.messages.splice(0).flatMap((message) => message.events));
  }
}

/** What the tenant pays for a job, and what the operator loses by it. */
function due({ fate, answer, price }: Expected): { charge: number | null; loss: number } {
  if (answer === "refused") return { charge: null, loss: 0 };
  if (answer === "lost" || fate.end === "never") return { charge: null, loss: 100 * price };
  if (fate.end === "failed") return { charge: null, loss: 0 };
  return { charge: Math.min(fate.tokens, 100) * price, loss: 0 };
}

/** A job that is over eleven minutes old before time is let run: more than its hold outlives its deadline by. */
const LONG_BEFORE_THE_END: Step[] = [
  {
    do: "submit",
    fate: { end: "completed", afterMs: DEADLINE - 60_000, tokens: 1 },
    answer: "acknowledged",
    price: 1,
  },
  { do: "wait", ms: 300_000 },
  { do: "wait", ms: 300_000 },
  { do: "wait", ms: 65_000 },
];

it(
  "each job is charged once or never, as its end says; sum, holds, losses and events agree",
  async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 4, maxLength: 18 }), async (steps) => {
        const { stub } = await newAccount({ balance: 1_000_000 });
        const history = new History(stub, await fakeQueue(stub));
        for (const one of steps) await history.take(one);
        await history.outlive();

        const { jobs, events } = history;
        const charged = jobs.flatMap((job) => {
          const { charge } = due(job);
          return charge === null ? [] : [{ call: job.call, amount: 0 - charge }];
        });
        const entries = await rows(
          stub,
          "SELECT call_id AS call, amount_nano_usd AS amount FROM entries WHERE kind = 'charge' ORDER BY call_id",
        );
        expect(entries).toEqual(charged.sort((a, b) => (a.call < b.call ? -1 : 1)));
        const spent = charged.reduce((sum, { amount }) => sum + amount, 0);
        expect(await stub.audit()).toMatchObject({
          problems: [],
          balanceNanoUsd: 1_000_000 + spent,
          heldNanoUsd: 0,
          openHolds: 0,
          operatorLossNanoUsd: jobs.reduce((sum, job) => sum + due(job).loss, 0),
        });
        expect(new Set(events.map(({ eventId }) => eventId))).toEqual(new Set(jobs.map((job) => job.call)));
        await expectSound(stub);
      }),
      { ...HISTORIES, examples: [[LONG_BEFORE_THE_END]] },
    );
  },
  HISTORIES_TIMEOUT_MS,
);
