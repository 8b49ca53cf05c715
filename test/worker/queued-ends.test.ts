/** Ends of calls that come by the queue: the account object is told, however often they are delivered. */
import { evictDurableObject } from "cloudflare:test";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { QueuedEnd } from "../../src/core/account/hold.ts";
import { asId } from "../../src/core/ids.ts";
import { consumeUsage } from "../../src/platform/queue/usage.ts";
import {
  call,
  expectSound,
  fakeClock,
  newAccount,
  progress,
  releaseOf,
  request,
  settlement,
} from "../support/worker/account-support.ts";
import { deliver, event, message } from "../support/worker/usage-support.ts";

const HOUR = 3_600_000;
let advance: (byMs: number) => void;
let lines: string[];
beforeEach(() => {
  advance = fakeClock();
  lines = [];
  vi.spyOn(console, "log").mockImplementation((line) => void lines.push(line));
});
afterEach(() => {
  vi.restoreAllMocks();
  vi.useRealTimers();
});

const ended = (number: number, end: QueuedEnd["end"], agoMs = 0): QueuedEnd => ({
  account: asId(number),
  endedAtMs: Date.now() - agoMs,
  end,
});
const settled = (id: string, used: number) => ({ kind: "settle", said: settlement(id, used) }) as const;

describe("an end that comes by the queue", () => {
  it("settles or releases its call, delivered twice as once, beside events", async () => {
    const { stub, number } = await newAccount({ balance: 1_000 });
    await stub.admit(request("c1", 100));
    await stub.admit(request("c2", 100));
    const bodies = [
      ended(number, settled("c1", 40)),
      message(event()),
      ended(number, { kind: "release", said: releaseOf("c2") }),
      ended(number, settled("c1", 40)),
    ];
    for (let time = 0; time < 2; time++) {
      expect(await deliver(bodies)).toEqual({ acked: ["m0", "m1", "m2", "m3"], retried: [] });
      expect(await stub.describe()).toMatchObject({ balanceNanoUsd: 960, heldNanoUsd: 0 });
    }
    await expectSound(stub);
  });

  it("after its hold's expiry is charged all the same", async () => {
    const { stub, number } = await newAccount({ balance: 1_000 });
    await stub.admit(request("c1", 100));
    advance(HOUR);
    await stub.describe();
    await deliver([ended(number, settled("c1", 40), HOUR)]);
    expect(await stub.audit()).toMatchObject({ ok: true, balanceNanoUsd: 960, operatorLossNanoUsd: 0 });
  });

  it("twice, in reversed order, after its object restarted and its hold expired, is charged once", async () => {
    const { stub, number } = await newAccount({ balance: 1_000 });
    for (const id of ["c1", "c2"]) await stub.admit(request(id, 100));
    await stub.renew(call("c1"), progress(30));
    await evictDurableObject(stub);
    advance(HOUR);
    const ends = [
      ended(number, settled("c1", 40), HOUR),
      ended(number, settled("c1", 90), HOUR),
      ended(number, { kind: "release", said: releaseOf("c2", 1) }, HOUR),
      ended(number, settled("c2", 70), HOUR),
    ];
    for (const order of [ends.toReversed(), ends]) {
      await deliver(order);
      await evictDurableObject(stub);
      // The first that came: 90 of the one, 70 of the other.
      expect(await stub.audit()).toMatchObject({ ok: true, balanceNanoUsd: 840, operatorLossNanoUsd: 0 });
    }
    // A day later nothing of it is known but its entries, and a day after that the queue is not believed any more.
    for (const laterMs of [23 * HOUR, 2 * HOUR]) {
      advance(laterMs);
      await deliver([ended(number, settled("c1", 5), laterMs === 2 * HOUR ? 25 * HOUR : 24 * HOUR)]);
      expect(await stub.audit()).toMatchObject({ ok: true, balanceNanoUsd: 840, operatorLossNanoUsd: 0 });
    }
    expect(lines.filter((line) => line.includes("queued_end_dropped"))).toHaveLength(1);
  });

  it("25 hours late leaves the loss that expiry booked, and so does its repeat", async () => {
    const { stub, number } = await newAccount({ balance: 1_000 });
    await stub.admit(request("c1", 100));
    await stub.renew(call("c1"), progress(30));
    advance(25 * HOUR);
    for (let time = 0; time < 2; time++) {
      expect(await deliver([ended(number, settled("c1", 90), 25 * HOUR)])).toEqual({ acked: ["m0"], retried: [] });
      expect(await stub.audit()).toMatchObject({ ok: true, balanceNanoUsd: 970, operatorLossNanoUsd: 70 });
    }
  });

  it("is dropped once it is older than a day, and the operator is told", async () => {
    const { stub, number } = await newAccount({ balance: 1_000 });
    await stub.admit(request("c1", 100));
    expect(await deliver([ended(number, settled("c1", 40), 24 * HOUR + 1)])).toEqual({ acked: ["m0"], retried: [] });
    expect(await stub.describe()).toMatchObject({ heldNanoUsd: 100 });
    expect(lines.map((line) => JSON.parse(line))).toContainEqual(
      expect.objectContaining({ event: "queued_end_dropped", call: "c1", account: number }),
    );
    expect(await deliver([ended(number, settled("c1", 40), 24 * HOUR)])).toEqual({ acked: ["m0"], retried: [] });
    expect(await stub.describe()).toMatchObject({ heldNanoUsd: 0, balanceNanoUsd: 960 });
  });

  it("that does not get through comes back; the account's others wait, other accounts' and events do not", async () => {
    const tries: string[] = [];
    const object = (name: string) => ({
      shipped: async () => undefined,
      settle: async ({ callId }: { callId: string }) => {
        tries.push(callId);
        if (name === "1") throw new Error("overloaded");
      },
    });
    const values = { ACCOUNTS: { getByName: object } as unknown as Env["ACCOUNTS"] };
    const bodies = [
      ended(1, settled("c1", 1)),
      ended(1, settled("c2", 1)),
      ended(2, settled("c3", 1)),
      message(event()),
    ];
    expect(await deliver(bodies, values)).toEqual({ acked: ["m2", "m3"], retried: ["m0", "m1"] });
    expect(tries.sort()).toEqual(["c1", "c3"]);
  });

  it("waits longer each time, so that its ten tries span a day", async () => {
    const waits: number[] = [];
    const values = {
      ACCOUNTS: {
        getByName: () => ({ settle: () => Promise.reject(new Error("away")) }),
      } as unknown as Env["ACCOUNTS"],
    };
    for (let attempts = 1; attempts <= 10; attempts++) {
      const retry = ({ delaySeconds = 0 }: QueueRetryOptions = {}) => void waits.push(delaySeconds);
      const one = { id: "m", attempts, timestamp: new Date(), body: ended(1, settled("c1", 1)), retry, ack: () => {} };
      await consumeUsage({ messages: [one] } as unknown as MessageBatch, values as unknown as Env);
    }
    expect(waits.slice(0, 4)).toEqual([5, 15, 45, 135]);
    expect(Math.max(...waits)).toBeLessThanOrEqual(12 * 3_600);
    expect(waits.reduce((sum, wait) => sum + wait, 0)).toBeGreaterThan(24 * 3_600);
  });
});
