/**
 * Calls that cost nothing have a limit of their own: per key by default, at each level where one is set, whatever they
 * reach and however often their object is evicted meanwhile.
 */
import { evictDurableObject } from "cloudflare:test";
import { afterEach, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import type { Inquiry } from "../../src/core/account/precheck.ts";
import { videoGenerations } from "../../src/core/endpoints/inference/video.ts";
import {
  addKey,
  call,
  digestOf,
  expectSound,
  fakeClock,
  freeCall,
  INFERENCE,
  limits,
  newAccount,
  request,
  rows,
  type Stub,
  settlement,
  teamId,
} from "../support/worker/account-support.ts";
import { completed, fakeUpstream, newJob, submission, submit, VIDEO_ROW } from "../support/worker/video-support.ts";

const SUBMISSIONS = videoGenerations.limits[0]?.count ?? 0;

let advance: (byMs: number) => void;
beforeAll(() => {
  vi.spyOn(console, "log").mockImplementation(() => undefined);
});
beforeEach(() => {
  advance = fakeClock();
});
afterEach(() => {
  vi.restoreAllMocks();
  vi.useRealTimers();
});

const full = (level: string, allowed: number) => ({
  ok: false,
  refusal: { kind: "rate_limit", limit: "free_rpm_limit", level, allowed },
});

/** How many of `tries` such calls pass. */
async function passed(stub: Stub, reach: "upstream" | "local", tries: number, key = "k"): Promise<number> {
  const calls = Array.from({ length: tries }, () => stub.authorize(digestOf(key), freeCall(reach)));
  return (await Promise.all(calls)).filter(({ ok }) => ok).length;
}

describe("free calls of a key", () => {
  it("are 120 a minute where they reach an upstream, and 1,200 others; each has its own", async () => {
    const { stub } = await newAccount();
    await addKey(stub, "second");
    expect(await passed(stub, "upstream", 121)).toBe(120);
    expect(await stub.authorize(digestOf("k"), freeCall("upstream"))).toMatchObject(full("key", 120));
    expect(await passed(stub, "local", 1_202)).toBe(1_200);
    expect(await stub.authorize(digestOf("k"), freeCall("local"))).toMatchObject(full("key", 1_200));
    expect(await stub.authorize(digestOf("second"), freeCall("upstream"))).toMatchObject({ ok: true });
    // Whether a key is live can be asked for ever, and paid calls are not touched.
    expect(await stub.authorize(digestOf("k"))).toMatchObject({ ok: true });
    advance(59_000);
    const refused = await stub.authorize(digestOf("k"), freeCall("upstream"));
    expect(!refused.ok && refused.refusal.kind === "rate_limit" && refused.refusal.retryAfterMs).toBeLessThanOrEqual(
      2_000,
    );
    advance(2_000);
    expect(await passed(stub, "upstream", 121)).toBe(120);
  });

  it.each(["key", "team", "account"] as const)("are as many as free_rpm_limit of its %s says", async (level) => {
    const set = { limits: limits({ free_rpm_limit: 3 }) };
    const { stub } = await newAccount({ team: {}, [level]: set });
    await addKey(stub, "other", { team: level === "account" ? null : teamId("t") });
    expect(await passed(stub, "upstream", 5)).toBe(3);
    expect(await stub.authorize(digestOf("k"), freeCall("upstream"))).toMatchObject(full(level, 3));
    expect(await stub.authorize(digestOf("other"), freeCall("upstream"))).toMatchObject(
      level === "key" ? { ok: true } : full(level, 3),
    );
    expect(await passed(stub, "local", 32)).toBe(30);
  });

  it("more than the default where the key's own says so, none where it says 0", async () => {
    const { stub } = await newAccount({ key: { limits: limits({ free_rpm_limit: 200 }) } });
    expect(await passed(stub, "upstream", 202)).toBe(200);
    await addKey(stub, "none", { limits: limits({ free_rpm_limit: 0 }) });
    expect(await stub.authorize(digestOf("none"), freeCall("local"))).toMatchObject({
      refusal: { retryAfterMs: null },
    });
  });

  it("of many keys at once fill the account's limit once, over evictions and a clock that is set back", async () => {
    const { stub } = await newAccount({ account: { limits: limits({ free_rpm_limit: 50 }) } });
    const keys = ["k", ...Array.from({ length: 19 }, (_, index) => `more${index}`)];
    for (const key of keys.slice(1)) await addKey(stub, key);
    const all = async () => {
      const counts = await Promise.all(keys.map((key) => passed(stub, "upstream", 5, key)));
      return counts.reduce((sum, count) => sum + count, 0);
    };
    expect(await all()).toBe(50);
    for (const stepMs of [-1_000, 1_000, -3_600_000, 3_600_000]) {
      await evictDurableObject(stub);
      advance(stepMs);
      expect([stepMs, await all()]).toEqual([stepMs, 0]);
    }
    advance(61_000);
    expect(await all()).toBe(50);
    await expectSound(stub);
  });

  it("are not forgotten when the object is evicted: of upstream calls none, of others less than a sixtieth", async () => {
    const some = { key: { limits: limits({ free_rpm_limit: 30 }) } };
    const { stub } = await newAccount(some);
    expect(await passed(stub, "upstream", 25)).toBe(25);
    expect(await passed(stub, "local", 259)).toBe(259);
    await evictDurableObject(stub);
    advance(10_000);
    expect(await passed(stub, "upstream", 8)).toBe(5);
    const more = await passed(stub, "local", 60);
    expect(more).toBeGreaterThanOrEqual(41);
    expect(more).toBeLessThan(41 + 5);
    // Bursts with a silence after each come to no more than a tenth above the limit.
    let sum = 0;
    const { stub: patient } = await newAccount(some);
    for (let burst = 0; burst < 6; burst++) {
      sum += await passed(patient, "local", 104);
      await evictDurableObject(patient);
      advance(10_000);
    }
    expect(sum).toBeGreaterThanOrEqual(300);
    expect(sum).toBeLessThan(330);
  });

  it("write one row each where they reach an upstream, and one of twenty where they do not; it goes when it is old", async () => {
    const { stub } = await newAccount();
    await passed(stub, "local", 19);
    expect(await rows(stub, "SELECT * FROM free_calls")).toEqual([]);
    await passed(stub, "local", 1);
    await passed(stub, "upstream", 2);
    expect(await rows(stub, "SELECT subject, reach FROM free_calls ORDER BY reach")).toEqual([
      { subject: "key:key-k", reach: "local" },
      { subject: "key:key-k", reach: "upstream" },
    ]);
    advance(61_000 * 30);
    await passed(stub, "upstream", 1);
    const [row] = await rows(stub, "SELECT length(buckets) AS size FROM free_calls WHERE reach = 'upstream'");
    expect(row?.size).toBeLessThan(30);
  });

  it("a clock that was set back shuts nobody out for longer than a minute", async () => {
    const { stub } = await newAccount();
    await passed(stub, "upstream", 120);
    advance(-3_600_000);
    await evictDurableObject(stub);
    expect(await passed(stub, "upstream", 1)).toBe(0);
    advance(61_001);
    expect(await passed(stub, "upstream", 1)).toBe(1);
  });

  it("count a model that costs nothing like any other", async () => {
    const { stub } = await newAccount({ key: { limits: limits({ free_rpm_limit: 1 }) } });
    for (let left = 5; left > 0; left--) {
      const admission = await stub.admit(request(`c${left}`, 1, { row: { ...request("x").row, free: true } }));
      expect(admission.ok).toBe(true);
    }
  });
});

describe("free calls of each kind", () => {
  const ref = { kind: "response", id: "resp_1" } as const;
  const made = { ...ref, callId: call("c1"), upstream: "eu", targetModel: "m:1", model: "m", continues: null };

  it("an id that is not the account's reaches nobody and counts among the many", async () => {
    const { stub } = await newAccount({ key: { limits: limits({ free_rpm_limit: 1 }) } });
    for (let left = 10; left > 0; left--) {
      expect(await stub.authorize(digestOf("k"), freeCall("upstream", [ref]))).toMatchObject({
        refusal: { kind: "id_not_found" },
      });
    }
    expect(await stub.authorize(digestOf("k"), freeCall("upstream", [ref]))).toMatchObject(full("key", 10));
  });

  it("polls that ask the upstream count as such, those within two seconds among the many", async () => {
    const { stub } = await newAccount({ balance: 1_000, key: { limits: limits({ free_rpm_limit: 2 }) } });
    const upstream = await fakeUpstream();
    upstream.jobs.set("job-c1", () => completed("job-c1", 50));
    await submit(stub, "c1");
    for (let poll = 0; poll < 6; poll++) expect((await stub.job(digestOf("k"), "job-c1", INFERENCE)).ok).toBe(true);
    advance(2_000);
    expect((await stub.job(digestOf("k"), "job-c1", INFERENCE)).ok).toBe(true);
    advance(2_000);
    expect(await stub.job(digestOf("k"), "job-c1", INFERENCE)).toMatchObject(full("key", 2));
    expect(upstream.polls).toHaveLength(2);
    await expectSound(stub);
  });

  const inquiry = (id: string, purpose: Inquiry["purpose"]): Inquiry => ({
    callId: call(id),
    keyDigest: digestOf("k"),
    endpoint: "video.generations",
    access: INFERENCE,
    limits: purpose === "submission" ? videoGenerations.limits : [],
    model: "video",
    alias: null,
    row: VIDEO_ROW,
    unit: "video_tokens_720p",
    purpose,
    startedAtMs: Date.now(),
  });

  it("price lists count among the many; quotes reach an upstream, whatever rpm_limit leaves", async () => {
    const { stub } = await newAccount({ key: { limits: limits({ free_rpm_limit: 2 }) } });
    for (let left = 3; left > 0; left--) expect((await stub.inquire(inquiry(`p${left}`, "prices"))).ok).toBe(true);
    for (let left = 2; left > 0; left--) expect((await stub.inquire(inquiry(`q${left}`, "quote"))).ok).toBe(true);
    expect(await stub.inquire(inquiry("q0", "quote"))).toMatchObject(full("key", 2));
  });

  it("the quote of a submission counts until that is admitted: who cannot pay has no quotes without end", async () => {
    const { stub } = await newAccount({ balance: 0, key: { limits: limits({ free_rpm_limit: 0 }) } });
    for (let left = SUBMISSIONS; left > 0; left--) {
      expect((await stub.inquire(inquiry(`s${left}`, "submission"))).ok).toBe(true);
      expect(await stub.admit(submission(`s${left}`, 100))).toMatchObject({ refusal: { kind: "no_credit" } });
    }
    expect(await stub.inquire(inquiry("s0", "submission"))).toMatchObject(full("key", SUBMISSIONS));
    const { stub: payer } = await newAccount({ balance: 10_000, key: { limits: limits({ free_rpm_limit: 1 }) } });
    for (let left = SUBMISSIONS; left > 0; left--) {
      expect((await payer.inquire(inquiry(`s${left}`, "submission"))).ok).toBe(true);
      await submit(payer, `s${left}`, 1);
    }
    expect((await payer.inquire(inquiry("quote", "quote"))).ok).toBe(true);
    await expectSound(payer);
  });

  it("a repeat whose answer is read back counts as the reading that it is", async () => {
    const { stub } = await newAccount({ balance: 1_000, key: { limits: limits({ free_rpm_limit: 2 }) } });
    const idempotency = { keyHmac: "k", bodyHmac: "b" };
    await stub.admit(request("c1", 10, { idempotency }));
    await stub.recordOwnership(made);
    await stub.settle(settlement("c1", 4));
    for (const id of ["r1", "r2"]) {
      expect(await stub.admit(request(id, 10, { idempotency }))).toMatchObject({ earlier: { state: "completed" } });
    }
    const third = await stub.admit(request("r3", 10, { idempotency }));
    expect(third).toMatchObject(full("key", 2));
    expect(third).not.toHaveProperty("earlier");
  });
});

describe("what a model made is read by keys that may call it", () => {
  const ref = { kind: "response", id: "resp_1" } as const;
  const made = { ...ref, callId: call("c1"), upstream: "eu", targetModel: "m:1", model: "m", continues: null };
  const BARRED = [
    ["without the scope", { scopes: ["compute"] }, { kind: "scope_missing", scope: "inference" }],
    ["whose list has not its model", { models: ["other", "m:*"] }, { kind: "model_not_allowed" }],
  ] as const;

  it.each(BARRED)(
    "a key %s reads no response, job or repeat of it; an id of others stays unknown",
    async (_, fields, why) => {
      const { stub } = await newAccount({ balance: 1_000 });
      const upstream = await fakeUpstream();
      upstream.jobs.set("job-j1", () => completed("job-j1", 50));
      await stub.admit(request("c1", 10));
      await stub.recordOwnership(made);
      await submit(stub, "j1");
      await addKey(stub, "barred", fields as object);
      await addKey(stub, "allowed", { models: ["m", "vid*"] });
      const refused = { ok: false, refusal: why };
      expect(await stub.authorize(digestOf("barred"), freeCall("upstream", [ref]))).toMatchObject(refused);
      expect(await stub.job(digestOf("barred"), "job-j1", INFERENCE)).toMatchObject(refused);
      expect(upstream.polls).toEqual([]);
      expect(await stub.authorize(digestOf("allowed"), freeCall("upstream", [ref]))).toMatchObject({ ok: true });
      expect(await stub.job(digestOf("allowed"), "job-j1", INFERENCE)).toMatchObject({ ok: true });
      const unknown = { ok: false, refusal: { kind: "id_not_found" } };
      expect(await stub.authorize(digestOf("barred"), freeCall("upstream", [{ ...ref, id: "resp_9" }]))).toMatchObject(
        unknown,
      );
      expect(await stub.job(digestOf("barred"), "job-9", INFERENCE)).toMatchObject(unknown);
      expect(newJob("j1").id).toBe("job-j1");
    },
  );
});
