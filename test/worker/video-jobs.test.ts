import { evictDurableObject, runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { UsageEvent } from "../../src/core/account/hold.ts";
import type { Inquiry } from "../../src/core/account/precheck.ts";
import { videoGenerations } from "../../src/core/endpoints/inference/video.ts";
import type { JobView } from "../../src/core/video/jobs.ts";
import {
  addKey,
  call,
  digestOf,
  expectSound,
  fakeClock,
  fakeQueue,
  freeCall,
  INFERENCE,
  keyId,
  limits,
  newAccount,
  releaseOf,
  rows,
  type Stub,
} from "../support/worker/account-support.ts";
import { manager } from "../support/worker/manager.ts";
import {
  completed,
  type FakeUpstream,
  failed,
  fakeUpstream,
  newJob,
  running,
  submission,
  submit,
  VIDEO_ROW,
} from "../support/worker/video-support.ts";

const MINUTE = 60_000;
const DEADLINE = 7_200_000;
let advance: (byMs: number) => void;
let upstream: FakeUpstream;
let log: ReturnType<typeof vi.spyOn>;

beforeEach(async () => {
  advance = fakeClock();
  log = vi.spyOn(console, "log").mockImplementation(() => {});
  upstream = await fakeUpstream();
});
afterEach(() => {
  vi.restoreAllMocks();
  vi.useRealTimers();
});

const K = digestOf("k");
const untilAlarm = (stub: Stub) =>
  runInDurableObject(stub, async (_, { storage }) => ((await storage.getAlarm()) ?? Number.NaN) - Date.now());
/** Moves the clock to each alarm in turn, for as long as `forMs`. */
async function live(stub: Stub, forMs: number): Promise<void> {
  for (let left = forMs; left > 0; ) {
    const stepMs = Math.min(left, Math.max(1, await untilAlarm(stub)));
    advance(stepMs);
    left -= stepMs;
    await runDurableObjectAlarm(stub);
  }
}
const charges = (stub: Stub) =>
  rows(stub, "SELECT call_id AS call, amount_nano_usd AS amount FROM entries WHERE kind = 'charge' ORDER BY id");
const logged = () => log.mock.calls.map(([line]: unknown[]) => JSON.parse(String(line)) as Record<string, unknown>);

describe("a job that a call names", () => {
  it("is the account's own until it is no longer kept; anybody else's is unknown", async () => {
    const { stub } = await newAccount({ balance: 1_000 });
    const { stub: theirs } = await newAccount({ balance: 1_000 });
    const id = await submit(stub, "c1");
    const ref = { kind: "video_job", id } as const;
    const owned = { ...ref, upstream: "video-upstream", targetModel: "service-video", model: "video", totalTokens: 0 };
    const unknown = { ok: false, refusal: { kind: "id_not_found", what: "video job" } };
    expect(await stub.authorize(K, freeCall("upstream", [ref]))).toMatchObject({ ok: true, owned: [owned] });
    expect(await stub.authorize(K, freeCall("upstream", [{ ...ref, kind: "response" }]))).toMatchObject({ ok: false });
    expect(await theirs.authorize(K, freeCall("upstream", [ref]))).toEqual(unknown);
    await addKey(stub, "barred", { models: ["other"] });
    expect(await stub.authorize(digestOf("barred"), freeCall("upstream", [ref]))).toMatchObject({
      refusal: { kind: "model_not_allowed" },
    });
    advance(7 * 24 * 60 * MINUTE);
    expect(await stub.authorize(K, freeCall("upstream", [ref]))).toEqual(unknown);
  });
});

describe("a job that is never polled", () => {
  it("is charged on the usage it reports, by one entry and one event, within half a minute of its end", async () => {
    const { stub } = await newAccount({ balance: 1_000 });
    const queue = await fakeQueue(stub);
    const id = await submit(stub, "c1");
    upstream.jobs.set(id, () => running(id));
    await live(stub, 10 * MINUTE);
    expect(await charges(stub)).toEqual([]);
    expect(await stub.describe()).toMatchObject({ balanceNanoUsd: 1_000, heldNanoUsd: 100 });
    upstream.jobs.set(id, () => completed(id, 80));
    await live(stub, 35_000);
    expect(await charges(stub)).toEqual([{ call: "c1", amount: -80 }]);
    expect(await stub.audit()).toMatchObject({ ok: true, heldNanoUsd: 0, operatorLossNanoUsd: 0, overrunNanoUsd: 0 });
    const events = queue.messages.flatMap((message): readonly UsageEvent[] => message.events);
    expect(events).toEqual([
      expect.objectContaining({
        eventId: "c1",
        endpoint: "video.generations",
        model: "video",
        upstream: "video-upstream",
        targetModel: "service-video",
        outcome: "completed",
        source: "exact",
        status: 202,
        usage: { video_tokens_720p: 80 },
        priceNanoUsd: 80,
        costNanoUsd: 40,
      }),
    ]);
  });

  it("is polled every 5 s at first, and every 30 s when it takes long, with the operator's credential", async () => {
    const { stub } = await newAccount({ balance: 1_000 });
    const id = await submit(stub, "c1");
    upstream.jobs.set(id, () => running(id));
    await live(stub, MINUTE);
    expect(upstream.polls.length).toBe(12);
    expect(upstream.headers[0]?.get("authorization")).toBe("Bearer credential-of-the-operator");
    await live(stub, 10 * MINUTE);
    const before = upstream.polls.length;
    await live(stub, 10 * MINUTE);
    expect(upstream.polls.length - before).toBe(20);
  });

  it("is charged after a restart", async () => {
    const { stub } = await newAccount({ balance: 1_000 });
    const id = await submit(stub, "c1");
    upstream.jobs.set(id, () => running(id));
    await live(stub, MINUTE);
    upstream.jobs.set(id, () => completed(id, 80));
    await evictDurableObject(stub);
    await live(stub, 10_000);
    expect(await charges(stub)).toEqual([{ call: "c1", amount: -80 }]);
    await expectSound(stub);
  });

  it.each([
    ["a refused connection", () => Promise.reject(new Error("refused"))],
    ["a 500", () => new Response("", { status: 500 })],
    ["a 503", () => Response.json({ error: "busy", code: "internal_error" }, { status: 503 })],
    ["no JSON", () => new Response("<html>")],
    ["no job", () => Response.json({ error: "oops" })],
    ["a credential that is refused", () => new Response("", { status: 401 })],
    ["a job that is unknown for a while", () => new Response("", { status: 404 })],
  ])("is not ended by %s, and a success that comes late is charged once", async (_, script) => {
    const { stub } = await newAccount({ balance: 1_000 });
    const id = await submit(stub, "c1");
    upstream.jobs.set(id, script);
    await live(stub, 2 * MINUTE);
    advance(30 * MINUTE);
    await live(stub, MINUTE);
    expect(await stub.describe()).toMatchObject({ heldNanoUsd: 100 });
    upstream.jobs.set(id, () => completed(id, 70));
    await live(stub, 5 * MINUTE);
    expect(await charges(stub)).toEqual([{ call: "c1", amount: -70 }]);
    const polls = upstream.polls.length;
    await live(stub, 5 * MINUTE);
    expect(upstream.polls.length).toBe(polls);
  });

  it.each([
    ["unknown upstream", () => new Response("", { status: 404 }), "job_unknown"],
    ["still at work", () => running("job-c1"), "job_overdue"],
    ["out of reach", () => new Response("", { status: 500 }), "job_overdue"],
  ])(
    "that is %s past its deadline costs the tenant nothing until it is found completed, and is the operator's to look into",
    async (_, script, reason) => {
      const { stub } = await newAccount({ balance: 1_000 });
      const queue = await fakeQueue(stub);
      const id = await submit(stub, "c1");
      upstream.jobs.set(id, script);
      advance(DEADLINE - 3 * MINUTE);
      await live(stub, 2 * MINUTE);
      expect(await stub.describe()).toMatchObject({ heldNanoUsd: 100 });
      await live(stub, 2 * MINUTE);
      expect(await stub.audit()).toMatchObject({
        ok: true,
        balanceNanoUsd: 1_000,
        heldNanoUsd: 0,
        operatorLossNanoUsd: 100,
      });
      expect(queue.messages.flatMap((message): readonly UsageEvent[] => message.events)).toMatchObject([
        { eventId: "c1", outcome: "expired", reason, priceNanoUsd: 0, lossNanoUsd: 100, upstream: "video-upstream" },
      ]);
      expect(logged()).toContainEqual(expect.objectContaining({ event: "job_expired", call: "c1", job: id, reason }));
      // Found completed after all, it is charged what it came to, once.
      upstream.jobs.set(id, () => completed(id, 60));
      expect(await stub.job(K, id, INFERENCE)).toMatchObject({
        ok: true,
        document: { billing: { charge_usd: 60e-9 } },
      });
      expect(await stub.audit()).toMatchObject({ ok: true, balanceNanoUsd: 940, operatorLossNanoUsd: 0 });
      await expectSound(stub);
    },
  );
});

describe("how a job ends", () => {
  it("failed: released, never charged, whatever is polled later", async () => {
    const { stub } = await newAccount({ balance: 1_000 });
    const queue = await fakeQueue(stub);
    const id = await submit(stub, "c1");
    upstream.jobs.set(id, () => failed(id, "content_filtered.output_video"));
    await live(stub, MINUTE);
    upstream.jobs.set(id, () => completed(id, 80));
    advance(5_000);
    await stub.job(K, id, INFERENCE);
    expect(await charges(stub)).toEqual([]);
    expect(await stub.audit()).toMatchObject({ ok: true, heldNanoUsd: 0, operatorLossNanoUsd: 0 });
    await live(stub, 5_000);
    expect(queue.messages.flatMap((message): readonly UsageEvent[] => message.events)).toMatchObject([
      { eventId: "c1", outcome: "failed", reason: "content_filtered.output_video", priceNanoUsd: 0, lossNanoUsd: 0 },
    ]);
  });

  it.each<[string, unknown, number, number, string]>([
    ["within the hold", 99, 99, 0, "exact"],
    ["at the hold", 100, 100, 0, "exact"],
    ["above the hold", 130, 100, 30, "exact"],
    ["an explicit zero", 0, 0, 0, "exact"],
    ["missing", undefined, 50, 0, "own_count"],
    ["negative", -1, 50, 0, "own_count"],
    ["a fraction", 80.5, 50, 0, "own_count"],
    ["text", "80", 50, 0, "own_count"],
    ["absurd", 100_000_001, 50, 0, "own_count"],
  ])("usage %s (%s): charged %i, overrun %i, %s", async (_, tokens, charge, overrun, source) => {
    const { stub } = await newAccount({ balance: 1_000 });
    const queue = await fakeQueue(stub);
    const id = await submit(stub, "c1");
    upstream.jobs.set(id, () => completed(id, tokens));
    await live(stub, 10_000);
    expect(await charges(stub)).toEqual([{ call: "c1", amount: 0 - charge }]);
    expect(await stub.audit()).toMatchObject({ ok: true, overrunNanoUsd: overrun });
    expect(queue.messages.flatMap((message): readonly UsageEvent[] => message.events)).toMatchObject([{ source }]);
  });

  it("by the prices of its submission, whatever the price book says when it is finished", async () => {
    const { stub } = await newAccount({ balance: 1_000 });
    const id = await submit(stub, "c1");
    await stub.amend({ plan: { markupPercent: 900, overrides: {} } });
    upstream.jobs.set(id, () => completed(id, 80));
    await live(stub, 10_000);
    expect(await charges(stub)).toEqual([{ call: "c1", amount: -80 }]);
  });

  it("though its key is revoked meanwhile", async () => {
    const { stub } = await newAccount({ balance: 1_000 });
    const id = await submit(stub, "c1");
    await manager(stub).revokeKey(keyId("k"));
    upstream.jobs.set(id, () => completed(id, 80));
    expect(await stub.job(K, id, INFERENCE)).toMatchObject({ ok: false, refusal: { kind: "bad_key", why: "revoked" } });
    await live(stub, 10_000);
    expect(await charges(stub)).toEqual([{ call: "c1", amount: -80 }]);
  });

  it.each<[string, (id: string) => Response]>([
    ["failed", (id) => failed(id, "content_filtered.output_video")],
    ["at work again", running],
    ["cancelled", (id) => completed(id, 80, { status: "cancelled" })],
    ["completed with another figure", (id) => completed(id, 20)],
    ["unknown", () => new Response("", { status: 404 })],
  ])("completed, and later %s: charged once, as it was when it was completed", async (_, later) => {
    const { stub } = await newAccount({ balance: 1_000 });
    const id = await submit(stub, "c1");
    upstream.jobs.set(id, () => completed(id, 80));
    await live(stub, 10_000);
    upstream.jobs.set(id, () => later(id));
    for (let poll = 0; poll < 3; poll++) {
      advance(5_000);
      await stub.job(K, id, INFERENCE);
    }
    await live(stub, 5 * MINUTE);
    expect(await charges(stub)).toEqual([{ call: "c1", amount: -80 }]);
    expect(await stub.audit()).toMatchObject({ ok: true, heldNanoUsd: 0, operatorLossNanoUsd: 0, overrunNanoUsd: 0 });
  });

  it("with a status that flaps: by the first of its ends, once", async () => {
    const { stub } = await newAccount({ balance: 1_000 });
    const ids = [await submit(stub, "c1"), await submit(stub, "c2")] as const;
    const unclear = (id: string) => completed(id, 80, { status: "cancelled" });
    const flaps = [running, unclear, running, () => new Response("<html>"), () => Response.json([])];
    const polls = new Map<string, number>();
    const ends: [string, (id: string) => Response][] = [
      [ids[0], (id) => completed(id, 60)],
      [ids[1], (id) => failed(id, "internal_error")],
    ];
    for (const [id, end] of ends) {
      upstream.jobs.set(id, () => {
        const turn = polls.get(id) ?? 0;
        polls.set(id, turn + 1);
        if (turn === 12) return end(id);
        // After its end it says the contrary.
        if (turn > 12) return id === ids[0] ? failed(id, "internal_error") : completed(id, 99);
        return (flaps[turn % flaps.length] ?? running)(id);
      });
    }
    await live(stub, 10 * MINUTE);
    for (let poll = 0; poll < 3; poll++) {
      advance(5_000);
      for (const id of ids) await stub.job(K, id, INFERENCE);
    }
    expect(await charges(stub)).toEqual([{ call: "c1", amount: -60 }]);
    expect(await stub.audit()).toMatchObject({ ok: true, heldNanoUsd: 0, operatorLossNanoUsd: 0, overrunNanoUsd: 0 });
  });

  it("recorded late: a job whose hold had expired is charged all the same", async () => {
    const { stub } = await newAccount({ balance: 1_000 });
    await stub.admit(submission("c1"));
    advance(121_000);
    await stub.describe();
    await stub.begin(newJob("c1"));
    upstream.jobs.set("job-c1", () => completed("job-c1", 80));
    await live(stub, 10_000);
    expect(await charges(stub)).toEqual([{ call: "c1", amount: -80 }]);
    expect(await stub.audit()).toMatchObject({ ok: true, operatorLossNanoUsd: 0, heldNanoUsd: 0 });
  });
});

describe("polls by tenants", () => {
  it("100 by two clients and the alarm at once: one call of the upstream, one charge, one answer for all", async () => {
    const { stub } = await newAccount({ balance: 1_000 });
    await addKey(stub, "second");
    const id = await submit(stub, "c1");
    let answer = () => {};
    const held = new Promise<void>((resolve) => {
      answer = resolve;
    });
    upstream.jobs.set(id, async () => {
      await held;
      return completed(id, 80);
    });
    advance(5_000);
    const views = Array.from({ length: 100 }, (_, index) =>
      stub.job(index % 2 ? K : digestOf("second"), id, INFERENCE),
    );
    const alarm = runDurableObjectAlarm(stub);
    await vi.waitFor(() => expect(upstream.polls).toHaveLength(1), { timeout: 20_000 });
    answer();
    const [first, ...others] = await Promise.all(views);
    await alarm;
    expect(first).toEqual({
      ok: true,
      region: null,
      document: {
        id,
        status: "completed",
        model: "m",
        width: 1280,
        height: 720,
        created_at: "2026-01-01T00:00:00Z",
        completed_at: "2026-01-01T00:01:00Z",
        url: `https://files.example/${id}.mp4`,
        billing: {
          charge_usd: 80e-9,
          pricing_tier: "720p",
          resolution: "720p",
          duration_seconds: 5,
          billable_tokens: 80,
          usage_source: "engine",
        },
      },
    });
    for (const other of others) expect(other).toEqual(first);
    expect(upstream.polls).toEqual([id]);
    expect(await charges(stub)).toEqual([{ call: "c1", amount: -80 }]);
    await expectSound(stub);
  });

  it("ask the upstream once in 2 s, and get a fresh link each time it is asked", async () => {
    const { stub } = await newAccount({ balance: 1_000 });
    const id = await submit(stub, "c1");
    let links = 0;
    upstream.jobs.set(id, () => completed(id, 80, { url: `https://files.example/${++links}` }));
    const link = async () => ((await stub.job(K, id, INFERENCE)) as unknown as JobView & { ok: true }).document.url;
    expect(await link()).toBe("https://files.example/1");
    advance(1_999);
    expect(await link()).toBe("https://files.example/1");
    advance(1);
    expect(await link()).toBe("https://files.example/2");
    advance(6 * 24 * 3_600_000);
    expect(await link()).toBe("https://files.example/3");
    expect(await charges(stub)).toEqual([{ call: "c1", amount: -80 }]);
  });

  it("count against no limit and cost nothing", async () => {
    const { stub } = await newAccount({ balance: 1_000, key: { limits: limits({ rpm_limit: 1 }) } });
    const id = await submit(stub, "c1");
    upstream.jobs.set(id, () => running(id));
    for (let time = 0; time < 5; time++) expect(await stub.job(K, id, INFERENCE)).toMatchObject({ ok: true });
    expect(await stub.describe()).toMatchObject({ balanceNanoUsd: 1_000, heldNanoUsd: 100 });
  });

  it("of somebody else's id, of an unknown one and of one no longer kept answer alike, and call nobody", async () => {
    const { stub } = await newAccount({ balance: 1_000 });
    const other = await newAccount({ balance: 1_000 });
    const id = await submit(stub, "c1");
    upstream.jobs.set(id, () => completed(id, 80));
    await live(stub, 10_000);
    const polls = upstream.polls.length;
    const answer = await other.stub.job(K, id, INFERENCE);
    expect(answer).toEqual({ ok: false, refusal: { kind: "id_not_found", what: "video job" } });
    expect(await other.stub.job(K, "job-nobody", INFERENCE)).toEqual(answer);
    advance(7 * 24 * 3_600_000);
    expect(await stub.job(K, id, INFERENCE)).toEqual(answer);
    expect(upstream.polls.length).toBe(polls);
  });

  it("of a failed job say the code of the contract, whether it is worth another try, and nothing of the operator", async () => {
    const { stub } = await newAccount({ balance: 1_000 });
    const id = await submit(stub, "c1");
    const error = "Refused by video-upstream.example for Bearer credential-of-the-operator.";
    upstream.jobs.set(id, () => failed(id, "internal_error", { error, cost_usd: 5, account: "op", ratio: "16:9" }));
    const view = await stub.job(K, id, INFERENCE);
    expect(view).toMatchObject({
      ok: true,
      document: { id, status: "failed", code: "internal_error", retryable: true, ratio: "16:9" },
    });
    expect(JSON.stringify(view)).not.toMatch(/credential|video-upstream|cost_usd|account/);
  });

  it("that come to nothing say so, and leave the job as it is", async () => {
    const { stub } = await newAccount({ balance: 1_000 });
    const id = await submit(stub, "c1");
    upstream.jobs.set(id, () => new Response("", { status: 500 }));
    expect(await stub.job(K, id, INFERENCE)).toMatchObject({ ok: false, refusal: { kind: "no_healthy_upstream" } });
    expect(await stub.describe()).toMatchObject({ heldNanoUsd: 100 });
  });
});

describe("submissions", () => {
  it("10 in 60 s for an account, whatever keys it has; the 11th waits for the first to be a minute old", async () => {
    const { stub } = await newAccount({ balance: 10_000 });
    await addKey(stub, "second");
    for (let index = 0; index < 10; index++) {
      const keyDigest = digestOf(index % 2 ? "k" : "second");
      expect(await stub.admit(submission(`c${index}`, 100, { keyDigest }))).toMatchObject({ ok: true });
      // Some have become jobs, some are still under way.
      if (index % 3) await stub.begin(newJob(`c${index}`));
      advance(1_000);
    }
    expect(await stub.admit(submission("c10"))).toMatchObject({
      ok: false,
      refusal: { kind: "named_limit", limit: { name: "submissions", count: 10 }, retryAfterMs: 50_000 },
    });
    expect(await stub.inquire(inquiry("submission"))).toMatchObject({ refusal: { kind: "named_limit" } });
    advance(49_999);
    expect(await stub.admit(submission("c11"))).toMatchObject({ ok: false });
    advance(1);
    expect(await stub.admit(submission("c12"))).toMatchObject({ ok: true });
    await expectSound(stub);
  });

  it("that fail do not count; jobs that fail later do", async () => {
    const { stub } = await newAccount({ balance: 10_000 });
    for (let index = 0; index < 20; index++) {
      await stub.admit(submission(`f${index}`));
      await stub.release(releaseOf(`f${index}`));
    }
    for (let index = 0; index < 10; index++) {
      const id = await submit(stub, `c${index}`);
      upstream.jobs.set(id, () => failed(id, "internal_error"));
    }
    await live(stub, 6_000);
    expect(await stub.describe()).toMatchObject({ heldNanoUsd: 0 });
    expect(await stub.admit(submission("c10"))).toMatchObject({ refusal: { kind: "named_limit" } });
  });

  it("hold the quote's upper end until the job ends, however long that takes, over restarts too", async () => {
    const { stub } = await newAccount({ balance: 150 });
    const id = await submit(stub, "c1");
    upstream.jobs.set(id, () => running(id));
    await live(stub, 10 * MINUTE);
    await evictDurableObject(stub);
    expect(await stub.admit(submission("c2"))).toMatchObject({ refusal: { kind: "no_credit" } });
    expect(await stub.renew(call("c1"), null)).toBe(true);
    await live(stub, 10 * MINUTE);
    expect(await stub.describe()).toMatchObject({ heldNanoUsd: 100 });
  });

  it("recorded twice stand once; two that the service made one job of are paid once", async () => {
    const { stub } = await newAccount({ balance: 1_000 });
    const id = await submit(stub, "c1");
    await stub.begin(newJob("c1"));
    await stub.admit(submission("c2"));
    await stub.begin({ ...newJob("c2"), id });
    upstream.jobs.set(id, () => completed(id, 80));
    await live(stub, 10_000);
    expect(await charges(stub)).toEqual([{ call: "c1", amount: -80 }]);
    expect(await stub.audit()).toMatchObject({ ok: true, heldNanoUsd: 0, operatorLossNanoUsd: 0 });
  });
});

const inquiry = (purpose: Inquiry["purpose"], some: Partial<Inquiry> = {}): Inquiry => ({
  callId: call(`q${Math.random()}`),
  keyDigest: K,
  endpoint: purpose === "submission" ? "video.generations" : "video.quote",
  access: INFERENCE,
  limits: purpose === "submission" ? videoGenerations.limits : [],
  model: "video",
  alias: null,
  row: VIDEO_ROW,
  unit: "video_tokens_720p",
  purpose,
  startedAtMs: Date.now(),
  ...some,
});

describe("questions that hold nothing", () => {
  it("answer the tenant's prices by its plan", async () => {
    const { stub } = await newAccount({ account: { plan: { markupPercent: 50, overrides: {} } } });
    const prices = { video_tokens_720p: 1_500_000, video_tokens_4k_reference: 3_000_000 };
    expect(await stub.inquire(inquiry("prices", { unit: null }))).toMatchObject({ ok: true, prices });
    expect(await stub.inquire(inquiry("quote"))).toMatchObject({ ok: true, prices });
    const unpriced = { unit: "video_tokens_1080p" } as const;
    expect(await stub.inquire(inquiry("quote", unpriced))).toMatchObject({ refusal: { kind: "model_not_priced" } });
  });

  it("quotes count in rpm_limit, once each, over a restart too; price lists and submissions to come do not", async () => {
    const { stub } = await newAccount({ key: { limits: limits({ rpm_limit: 2 }) } });
    for (let time = 0; time < 5; time++) {
      expect(await stub.inquire(inquiry("prices"))).toMatchObject({ ok: true });
      expect(await stub.inquire(inquiry("submission"))).toMatchObject({ ok: true });
    }
    const first = inquiry("quote");
    for (let time = 0; time < 3; time++) expect(await stub.inquire(first)).toMatchObject({ ok: true });
    expect(await stub.inquire(inquiry("quote"))).toMatchObject({ ok: true });
    await evictDurableObject(stub);
    expect(await stub.inquire(inquiry("quote"))).toMatchObject({ refusal: { kind: "rate_limit", limit: "rpm_limit" } });
    expect(await stub.inquire(inquiry("submission"))).toMatchObject({ refusal: { kind: "rate_limit" } });
    expect(await stub.inquire(inquiry("prices"))).toMatchObject({ ok: true });
    advance(61_000);
    expect(await stub.inquire(inquiry("quote"))).toMatchObject({ ok: true });
    expect(await charges(stub)).toEqual([]);
    expect(await rows(stub, "SELECT * FROM outbox")).toEqual([]);
    await expectSound(stub);
  });

  it("are refused to a key that may not call the model, or no more", async () => {
    const { stub } = await newAccount({ key: { models: ["chat*"] } });
    for (const purpose of ["prices", "quote", "submission"] as const) {
      expect(await stub.inquire(inquiry(purpose))).toMatchObject({ refusal: { kind: "model_not_allowed" } });
    }
    await manager(stub).revokeKey(keyId("k"));
    expect(await stub.inquire(inquiry("prices"))).toMatchObject({ refusal: { kind: "bad_key", why: "revoked" } });
  });
});
