import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { asId, type CallId } from "../../../src/core/ids.ts";
import { costOf, type ModelRow } from "../../../src/core/pricing/prices.ts";
import { type JobNews, readAcknowledgement, readJob, scrubJob, showJob } from "../../../src/core/video/job-document.ts";
import { type Job, type JobAnswer, nextPollMs, stepAfter } from "../../../src/core/video/jobs.ts";
import { readQuote, showQuote } from "../../../src/core/video/quote.ts";
import { priceList, unitOf } from "../../../src/core/video/rates.ts";

const JOB: Job = {
  id: "vid_1",
  callId: asId<CallId>("c1"),
  upstream: "u",
  targetModel: "m",
  region: null,
  unit: "video_tokens_720p",
  estimate: { minTokens: 50, maxTokens: 100 },
  costNanoUsd: 1,
  model: "video",
  submittedAtMs: 0,
  deadlineMs: 1_000,
  state: "running",
  tokens: null,
  chargedNanoUsd: 0,
};
const news = (document: object): JobAnswer => {
  const read = readJob(document);
  return read ? { kind: "news", news: read, region: null } : { kind: "nothing" };
};
const done = (billable_tokens: unknown) => news({ status: "completed", billing: { billable_tokens } });

describe("polls of a job", () => {
  it("come every 5 s at first, back off to 30 s, and never come sooner or later than that", () => {
    const pauses = (ageMs: number) => nextPollMs(0, ageMs) - ageMs;
    expect([0, 30_000, 60_000, 120_000, 360_000, 7_200_000].map(pauses)).toEqual([
      5_000, 5_000, 5_000, 10_000, 30_000, 30_000,
    ]);
    fc.assert(
      fc.property(fc.nat(10_000_000), fc.nat(10_000_000), (a, b) => {
        const [sooner, later] = [Math.min(a, b), Math.max(a, b)].map(pauses) as [number, number];
        expect(sooner).toBeGreaterThanOrEqual(5_000);
        expect(later).toBeLessThanOrEqual(30_000);
        expect(sooner).toBeLessThanOrEqual(later);
      }),
    );
  });

  it.each<[string, Partial<Job>, JobAnswer, number, object]>([
    ["completed: charged what it says", {}, done(80), 10, { kind: "charge", tokens: 80 }],
    ["completed with zero: charged zero", {}, done(0), 10, { kind: "charge", tokens: 0 }],
    ["completed without usage: the least it could be", {}, done(undefined), 10, { kind: "charge", tokens: 50 }],
    ["completed past the deadline", {}, done(80), 5_000, { kind: "charge", tokens: 80 }],
    ["completed after it was given up", { state: "overdue" }, done(80), 5_000, { kind: "charge", tokens: 80 }],
    ["completed again", { state: "completed" }, done(80), 10, { kind: "none" }],
    ["completed after it failed", { state: "failed" }, done(80), 10, { kind: "none" }],
    [
      "failed",
      {},
      news({ status: "failed", code: "generation_timeout" }),
      10,
      { kind: "release", code: "generation_timeout" },
    ],
    [
      "failed by a code of nobody's",
      {},
      news({ status: "failed", code: "x y" }),
      10,
      { kind: "release", code: "internal_error" },
    ],
    ["at work", {}, news({ status: "processing" }), 999, { kind: "none" }],
    ["at work at its deadline", {}, news({ status: "queued" }), 1_000, { kind: "expire", reason: "job_overdue" }],
    ["unknown before its deadline", {}, { kind: "unknown" }, 999, { kind: "none" }],
    ["unknown at its deadline", {}, { kind: "unknown" }, 1_000, { kind: "expire", reason: "job_unknown" }],
    ["no answer at its deadline", {}, { kind: "nothing" }, 1_000, { kind: "expire", reason: "job_overdue" }],
    ["no answer after it was given up", { state: "overdue" }, { kind: "nothing" }, 2_000, { kind: "none" }],
    ["no job at all", {}, news({ error: "x" }), 999, { kind: "none" }],
  ])("%s", (_, some, answer, nowMs, step) => {
    expect(stepAfter({ ...JOB, ...some }, answer, nowMs)).toMatchObject(step);
  });
});

describe("what a tenant is shown of a job", () => {
  const show = (document: object) => {
    const read = readJob(document) as JobNews;
    return showJob(read, "vid_1", { chargedNanoUsd: 1_500_000_000, tokens: 80, unit: "video_tokens_1080p_reference" });
  };

  it("has the tenant's own charge in place of the operator's", () => {
    const billing = {
      charge_usd: 9,
      pricing_tier: "ops",
      resolution: "1080p",
      duration_seconds: 5,
      billable_tokens: 80,
      usage_source: "engine",
      operator_margin: 3,
    };
    expect(show({ id: "vid_1", status: "completed", billing }).billing).toEqual({
      charge_usd: 1.5,
      pricing_tier: "1080p_reference",
      resolution: "1080p",
      duration_seconds: 5,
      billable_tokens: 80,
      usage_source: "engine",
    });
  });

  it("passes a field that the contract does not name, but nothing that speaks of money or accounts", () => {
    const shown = show({
      id: "vid_1",
      status: "processing",
      ratio: "16:9",
      progress: 0.5,
      estimated_cost: 7,
      price: 1,
      account_id: "op",
      user: "u",
      nested: { a: 1 },
      long: "x".repeat(65),
    });
    expect(shown).toEqual({ id: "vid_1", status: "processing", ratio: "16:9", progress: 0.5 });
  });

  it("of a failed job: words that were scrubbed, the code, and whether to try again, said or by the code's rule", () => {
    const fail = (fields: object) => {
      const read = readJob({ id: "vid_1", status: "failed", error: "at host.example", ...fields }) as JobNews;
      return showJob(
        scrubJob(read, (text) => text.replace("host.example", "[removed]")),
        "vid_1",
        null,
      );
    };
    expect(fail({ code: "content_filtered.output_audio" })).toEqual({
      id: "vid_1",
      status: "failed",
      error: "at [removed]",
      code: "content_filtered.output_audio",
      retryable: false,
    });
    expect(fail({ code: "generation_timeout" }).retryable).toBe(true);
    expect(fail({ code: "generation_timeout", retryable: false }).retryable).toBe(false);
    expect(fail({ code: { a: 1 }, error: 7 })).toMatchObject({ code: "internal_error", error: expect.any(String) });
  });

  it("whatever the upstream says, no figure of its money is in it", () => {
    fc.assert(
      fc.property(
        fc.dictionary(fc.string(), fc.jsonValue()),
        fc.constantFrom("completed", "failed", "queued"),
        (some, status) => {
          const shown = show({
            ...some,
            status,
            billing: { charge_usd: 424_242, billable_tokens: 1 },
            cost_usd: 424_242,
          });
          expect(JSON.stringify(shown)).not.toContain("424242");
        },
      ),
    );
  });

  it.each([{}, [], null, "x", { id: 1 }, { id: "" }, { id: "x".repeat(257) }, { id: "a", error: "b" }])(
    "an acknowledgement without an id is none: %j",
    (answer) => {
      expect(readAcknowledgement(answer)).toBeNull();
    },
  );
});

describe("rates", () => {
  const request = (some: object) => ({ model: "m", prompt: "p", ...some }) as Parameters<typeof unitOf>[0];

  it.each<[object, string]>([
    [{}, "video_tokens_720p"],
    [{ resolution: "480p" }, "video_tokens_720p"],
    [{ resolution: "720p" }, "video_tokens_720p"],
    [{ resolution: "1080p" }, "video_tokens_1080p"],
    [{ resolution: "4k" }, "video_tokens_4k"],
    [{ resolution: "480p", reference_video_url: "u" }, "video_tokens_720p_reference"],
    [{ resolution: "1080p", reference_video_urls: ["u"] }, "video_tokens_1080p_reference"],
    [{ resolution: "4k", reference_video_urls: ["u"] }, "video_tokens_4k_reference"],
    [{ resolution: "4k", reference_video_urls: [] }, "video_tokens_4k"],
    [{ resolution: "4k", reference_image_urls: ["u"] }, "video_tokens_4k"],
  ])("%j is charged by %s", (some, unit) => {
    expect(unitOf(request(some))).toBe(unit);
  });

  it("a price list has each rate with a price; a free model's are all zero", () => {
    const row = { free: false } as ModelRow;
    expect(priceList("m", row, { video_tokens_4k: 5_400_000_000 })).toEqual({
      model: "m",
      currency: "USD",
      rates: [{ resolution: "4k", reference_video: false, usd_per_1m_tokens: 5.4 }],
    });
    expect(priceList("m", { ...row, free: true }, {})).toMatchObject({
      rates: Array(6).fill({ usd_per_1m_tokens: 0 }),
    });
  });

  it("a quote's amounts are what its tokens cost the tenant, and never less than the charge for them", () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 100_000_000 }), fc.nat(1), fc.nat(20_000_000_000), (most, share, price) => {
        const estimate = readQuote({ estimated_tokens_min: Math.floor(most * share), estimated_tokens_max: most });
        if (!estimate) throw new Error("refused");
        const shown = showQuote(estimate, "video_tokens_4k", { video_tokens_4k: price }, false) as Record<
          string,
          number
        >;
        const cost = costOf({ video_tokens_4k: most }, { video_tokens_4k: price });
        expect(Math.round((shown.estimated_cost_max_usd ?? 0) * 1e9)).toBe(cost);
      }),
    );
    expect(showQuote({ minTokens: 1, maxTokens: 2 }, "video_tokens_4k", {}, false)).toBeUndefined();
  });
});
