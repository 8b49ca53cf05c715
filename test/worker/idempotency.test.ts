/** Idempotency keys in the account object: a call that makes something is admitted once per key. */

import { evictDurableObject, runDurableObjectAlarm } from "cloudflare:test";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { Admission } from "../../src/core/account/hold.ts";
import type { NewOwned } from "../../src/core/owned.ts";
import {
  addKey,
  call,
  digestOf,
  expectSound,
  fakeClock,
  limits,
  newAccount,
  releaseOf,
  request,
  rows,
  type Stub,
  settlement,
} from "../support/worker/account-support.ts";
import { manager } from "../support/worker/manager.ts";

const KEY = { keyHmac: "a1", bodyHmac: "b1" };
const keyed = (id: string, some: Partial<Parameters<typeof request>[2]> = {}) =>
  request(id, 1, { endpoint: "responses.create", idempotency: KEY, ...some });
const made = (id: string, callId: string): NewOwned => ({
  kind: "response",
  id,
  callId: call(callId),
  upstream: "u1",
  targetModel: "m:1",
  model: "m",
  continues: null,
});
const HOUR_MS = 3_600_000;

/** What the repeat is told: the state it found, or that it was admitted. */
async function repeat(stub: Stub, id = "again"): Promise<string> {
  const admission = await stub.admit(keyed(id));
  return admission.ok ? "admitted" : told(admission);
}
function told(admission: Extract<Admission, { ok: false }>): string {
  const { refusal, earlier } = admission;
  const why = refusal.kind === "idempotency" ? refusal.why : refusal.kind;
  return `${why} (${earlier ? `${earlier.state} ${earlier.status} ${earlier.created?.id ?? "-"}` : "nothing"})`;
}

let advance: (byMs: number) => void;
beforeEach(() => {
  advance = fakeClock();
});
afterEach(() => void vi.useRealTimers());

describe("an idempotency key", () => {
  it("admits one call; while that runs a repeat gets neither hold nor a count against limits", async () => {
    const { stub } = await newAccount({ balance: 100, key: { limits: limits({ rpm_limit: 1 }) } });
    expect((await stub.admit(keyed("first"))).ok).toBe(true);
    expect(await repeat(stub)).toBe("running (running 0 -)");
    expect((await stub.describe())?.heldNanoUsd).toBe(1);
  });

  it("of calls that come at once admits one", async () => {
    const { stub } = await newAccount({ balance: 100 });
    const admissions = await Promise.all(Array.from({ length: 20 }, (_, index) => stub.admit(keyed(`c${index}`))));
    expect(admissions.filter((admission) => admission.ok)).toHaveLength(1);
  });

  it("with another body is refused, whatever became of the first", async () => {
    const { stub } = await newAccount({ balance: 100 });
    await stub.admit(keyed("first"));
    const other = { idempotency: { ...KEY, bodyHmac: "b2" } };
    expect(await stub.admit(keyed("other", other))).toEqual({
      ok: false,
      refusal: { kind: "idempotency", why: "other_body" },
    });
    await stub.settle(settlement("first"));
    expect((await stub.admit(keyed("other", other))).ok).toBe(false);
  });

  it("is each virtual key's own, and another word is another key", async () => {
    const { stub } = await newAccount({ balance: 100 });
    await addKey(stub, "k2");
    await stub.admit(keyed("first"));
    expect((await stub.admit(keyed("second", { keyDigest: digestOf("k2") }))).ok).toBe(true);
    expect((await stub.admit(keyed("third", { idempotency: { ...KEY, keyHmac: "a2" } }))).ok).toBe(true);
  });

  it("opens nothing to a revoked key", async () => {
    const { stub } = await newAccount({ balance: 100 });
    await stub.admit(keyed("first"));
    const keys = await stub.keys({ cursor: null, limit: 1 });
    await manager(stub).revokeKey(keys?.data[0]?.id as never);
    expect(await repeat(stub)).toBe("bad_key (nothing)");
  });

  it("answers its own call again: the admission whose answer was lost is asked for twice", async () => {
    const { stub } = await newAccount({ balance: 100 });
    await stub.admit(keyed("first"));
    expect((await stub.admit(keyed("first"))).ok).toBe(true);
  });

  it("is forgotten after 24 h, and its row goes", async () => {
    const { stub } = await newAccount({ balance: 100 });
    await stub.admit(keyed("first"));
    await stub.settle(settlement("first"));
    advance(24 * HOUR_MS - 1);
    expect(await repeat(stub)).toBe("not_kept (completed 200 -)");
    advance(2 * HOUR_MS);
    await runDurableObjectAlarm(stub);
    expect(await rows(stub, "SELECT * FROM idempotency")).toEqual([]);
    expect(await repeat(stub)).toBe("admitted");
  });
});

describe("a repeat is told", () => {
  it("what was made, where that has an id", async () => {
    const { stub } = await newAccount({ balance: 100 });
    await stub.admit(keyed("first"));
    await stub.recordOwnership(made("resp_1", "first"));
    expect(await repeat(stub)).toBe("running (running 0 resp_1)");
    await stub.settle(settlement("first"));
    const admission = await stub.admit(keyed("again"));
    expect(admission).toMatchObject({
      ok: false,
      earlier: { callId: "first", created: { kind: "response", id: "resp_1", upstream: "u1", targetModel: "m:1" } },
    });
    expect(await repeat(stub)).toBe("not_kept (completed 200 resp_1)");
  });

  it.each<[string, (stub: Stub) => Promise<unknown>, string]>([
    ["completed without an id", (stub) => stub.settle(settlement("first")), "not_kept (completed 200 -)"],
    ["failed, not executed", (stub) => stub.release(releaseOf("first")), "admitted"],
    [
      "may have been executed",
      (stub) => stub.release({ ...releaseOf("first", 1), status: 504 }),
      "outcome_unknown (unknown 504 -)",
    ],
    [
      "failed under way",
      (stub) => stub.release({ ...releaseOf("first", 1), status: 502 }),
      "upstream_error (unknown 502 -)",
    ],
    [
      "its client left before the answer",
      (stub) => stub.settle(settlement("first", 1, { outcome: "client_gone", status: 499 })),
      "outcome_unknown (unknown 499 -)",
    ],
    [
      "its stream broke",
      (stub) => stub.settle(settlement("first", 1, { outcome: "stream_broken" })),
      "outcome_unknown (unknown 200 -)",
    ],
    [
      "its stream broke, but what it made has an id",
      async (stub) => {
        await stub.recordOwnership(made("resp_1", "first"));
        await stub.settle(settlement("first", 1, { outcome: "stream_broken" }));
      },
      "not_kept (completed 200 resp_1)",
    ],
  ])("of a call that %s", async (_, end, expected) => {
    const { stub } = await newAccount({ balance: 100 });
    await stub.admit(keyed("first"));
    await end(stub);
    expect(await repeat(stub)).toBe(expected);
    await expectSound(stub);
  });

  it.each<[string, (stub: Stub) => Promise<unknown>, string]>([
    ["nothing more is heard", async () => undefined, "outcome_unknown (unknown 0 -)"],
    ["was settled too late", (stub) => stub.settle(settlement("first")), "not_kept (completed 200 -)"],
    ["was released too late", (stub) => stub.release(releaseOf("first")), "admitted"],
  ])("of a call whose hold expired and of which %s", async (_, late, expected) => {
    const { stub } = await newAccount({ balance: 100 });
    await stub.admit(keyed("first"));
    advance(HOUR_MS);
    await runDurableObjectAlarm(stub);
    await late(stub);
    expect(await repeat(stub)).toBe(expected);
  });

  it("the same after the object restarted in between", async () => {
    const { stub } = await newAccount({ balance: 100 });
    await stub.admit(keyed("first"));
    await evictDurableObject(stub);
    expect(await repeat(stub)).toBe("running (running 0 -)");
    await stub.settle(settlement("first"));
    await evictDurableObject(stub);
    expect(await repeat(stub)).toBe("not_kept (completed 200 -)");
  });
});

describe("a job", () => {
  const job = {
    id: "job_1",
    callId: call("first"),
    upstream: "u1",
    targetModel: "v:1",
    region: "eu",
    unit: "video_tokens_720p" as const,
    costNanoUsd: 1,
    estimate: { minTokens: 1, maxTokens: 2 },
  };

  it("was answered when it was accepted, though its hold lives on; and stays so when it fails", async () => {
    const { stub } = await newAccount({ balance: 100 });
    await stub.admit(keyed("first"));
    await stub.begin(job);
    expect(await repeat(stub)).toBe("not_kept (completed 202 job_1)");
    await stub.release({ ...releaseOf("first"), status: 202 });
    expect(await repeat(stub)).toBe("not_kept (completed 202 job_1)");
  });
});
