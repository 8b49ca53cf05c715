import { createMessageBatch, evictDurableObject, runDurableObjectAlarm } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { Alert } from "../../src/core/alerts/alert.ts";
import { asId } from "../../src/core/ids.ts";
import { consumeUsage, runScheduled } from "../../src/platform/queue/usage.ts";
import {
  addKey,
  credit,
  type FakeQueue,
  fakeClock,
  fakeQueue,
  keyId,
  limits,
  newAccount,
  request,
  rows,
  type Stub,
  settlement,
} from "../support/worker/account-support.ts";
import { manager } from "../support/worker/manager.ts";
import { call, done } from "../support/worker/operator.ts";
import { deliver, event, message } from "../support/worker/usage-support.ts";

let advance: (byMs: number) => void;
beforeEach(() => {
  advance = fakeClock();
  vi.spyOn(console, "log").mockImplementation(() => {});
});
afterEach(() => {
  vi.restoreAllMocks();
  vi.useRealTimers();
});

/** All that the object shipped so far, each once. */
async function told(stub: Stub, queue: FakeQueue): Promise<Alert[]> {
  advance(2_000);
  await runDurableObjectAlarm(stub);
  const alerts = queue.messages.flatMap((shipped) => shipped.alerts ?? []);
  return [...new Map(alerts.map((alert) => [alert.id, alert])).values()];
}
const typesOf = (alerts: readonly Alert[]) => alerts.map(({ type }) => type);

/** So many calls of `tokens` nano-USD each, all at once. */
const inParallel = (stub: Stub, count: number, tokens: number, name = "c") =>
  Promise.all(
    Array.from({ length: count }, async (_, index) => {
      const id = `${name}${index}`;
      const admission = await stub.admit(request(id, tokens));
      if (admission.ok) await stub.settle(settlement(id, tokens));
    }),
  );

describe("alerts of an account", () => {
  it("tell a low and an empty balance once under 64 parallel calls, and again after a credit", async () => {
    const { stub } = await newAccount({ balance: 640, account: { lowBalanceNanoUsd: 320 } });
    const queue = await fakeQueue(stub);
    await inParallel(stub, 64, 10);
    const first = await told(stub, queue);
    expect(typesOf(first).sort()).toEqual(["balance.empty", "balance.low"]);
    expect(first.find(({ type }) => type === "balance.low")?.data).toEqual({
      balance_usd: 320e-9,
      threshold_usd: 320e-9,
    });
    await credit(stub, 640, "second");
    await inParallel(stub, 64, 10, "d");
    expect(typesOf(await told(stub, queue)).sort()).toEqual([
      "balance.empty",
      "balance.empty",
      "balance.low",
      "balance.low",
      "credit.booked",
    ]);
  });

  it("tell each part of a budget once at each level, also when the object starts anew in between", async () => {
    const budget = limits({ maxBudgetNanoUsd: 100, budgetDuration: "day" });
    const { stub, number } = await newAccount({
      balance: 10_000,
      account: { limits: budget },
      team: { limits: budget },
      key: { limits: budget },
    });
    await inParallel(stub, 30, 2);
    await evictDurableObject(stub);
    await inParallel(stub, 64, 2, "d");
    const queue = await fakeQueue(stub);
    const alerts = await told(stub, queue);
    const parts = alerts.flatMap((alert) =>
      alert.type === "budget.threshold" ? [[alert.data.level, alert.data.of, alert.data.percent].join(" ")] : [],
    );
    const expected = [`account acc-${number}`, "key key-k", "team team-t"].flatMap((level) =>
      [50, 80, 100].map((percent) => `${level} ${percent}`),
    );
    expect(parts.sort()).toEqual(expected.sort());
    expect(alerts).toHaveLength(9);
    advance(86_400_000);
    await inParallel(stub, 25, 2, "e");
    expect(typesOf(await told(stub, queue))).toHaveLength(12);
  });

  it("tell where a budget stands once it is lowered, with no call", async () => {
    const { stub } = await newAccount({ balance: 1_000, key: { limits: limits({ maxBudgetNanoUsd: 900 }) } });
    await inParallel(stub, 4, 10);
    const queue = await fakeQueue(stub);
    const lower = () => stub.amend({ limits: limits({ maxBudgetNanoUsd: 50 }) });
    await lower();
    await lower();
    const percents = async () =>
      (await told(stub, queue)).flatMap((alert) => (alert.type === "budget.threshold" ? [alert.data.percent] : []));
    expect(await percents()).toEqual([50, 80]);
  });

  it("are written by calls that cross a threshold, and by no other", async () => {
    const { stub } = await newAccount({ balance: 1_000, key: { limits: limits({ maxBudgetNanoUsd: 100 }) } });
    await inParallel(stub, 4, 10);
    expect(await rows(stub, "SELECT event FROM outbox WHERE event_id LIKE 'evt_%'")).toEqual([]);
    expect(await rows(stub, "SELECT * FROM alert_marks")).toEqual([]);
    await inParallel(stub, 1, 10, "d");
    expect(await rows(stub, "SELECT event FROM outbox WHERE event_id LIKE 'evt_%'")).toHaveLength(1);
  });

  it("tell of keys that are made, revoked, and about to expire", async () => {
    const { stub } = await newAccount();
    const queue = await fakeQueue(stub);
    const expiresAtMs = Date.now() + 10 * 86_400_000;
    await addKey(stub, "x", { expiresAtMs });
    await addKey(stub, "y", { expiresAtMs });
    await manager(stub).revokeKey(keyId("y"));
    await manager(stub).revokeKey(keyId("y"));
    expect(typesOf(await told(stub, queue))).toEqual(["key.created", "key.created", "key.revoked"]);
    advance(3 * 86_400_000);
    await told(stub, queue);
    const warned = (await told(stub, queue)).slice(3);
    expect(warned).toMatchObject([
      { type: "key.expiring", data: { key: keyId("x"), name: "key", expires_at: new Date(expiresAtMs).toISOString() } },
    ]);
  });

  it("tell the operator once a day of a call sold at a loss, of high overruns and of a failed audit", async () => {
    const { stub } = await newAccount({ balance: 10_000 });
    const queue = await fakeQueue(stub);
    const dear = async (id: string) => {
      await stub.admit(request(id, 10));
      await stub.settle(settlement(id, 20, { costNanoUsd: 99 }));
    };
    await dear("c1");
    await evictDurableObject(stub);
    Object.assign(queue, await fakeQueue(stub));
    await dear("c2");
    await rows(stub, "UPDATE entries SET amount_nano_usd = -11 WHERE call_id = 'c2'");
    await stub.audit();
    await stub.audit();
    expect(typesOf(await told(stub, queue)).sort()).toEqual(["audit.failed", "margin.negative", "overrun.high"]);
  });
});

describe("the consumer", () => {
  const alert = (some: Partial<Alert> = {}) =>
    ({
      id: `evt_${crypto.randomUUID()}`,
      type: "balance.low",
      account: asId("acme"),
      atMs: Date.now(),
      data: { balance_usd: 1, threshold_usd: 2 },
      ...some,
    }) as Alert;

  it("writes an alert once, however often it comes, and confirms it", async () => {
    const one = alert();
    const sent = { ...message(event()), alerts: [one] };
    expect(await deliver([sent])).toMatchObject({ acked: ["m0"] });
    await deliver([sent, sent]);
    const { data } = await done("GET", "/alerts?account=acme");
    expect(data).toEqual([
      { id: one.id, type: "balance.low", account: "acme", at: new Date(one.atMs).toISOString(), data: one.data },
    ]);
  });

  it("sets an alert aside that cannot be read, and takes what came with it", async () => {
    const sent = { ...message(), alerts: [{ id: "evt_odd", type: 1 }, alert({ account: asId("odd") })] };
    expect(await deliver([sent])).toMatchObject({ retried: ["m0"] });
    expect(await deliver([sent], {}, 5)).toMatchObject({ acked: ["m0"] });
    expect((await done("GET", "/alerts?account=odd")).data).toHaveLength(1);
    expect((await call("GET", "/alerts?type=balance.high")).status).toBe(400);
  });
});

describe("the scheduled run", () => {
  const tries = (count: number, result: string) =>
    Array.from({ length: count }, () =>
      event({
        endedAtMs: Date.now(),
        detail: {
          stream: false,
          heldNanoUsd: 0,
          prices: {},
          costs: null,
          entry: null,
          tries: [{ upstream: "far", model: "m", result, ms: 5 }],
        },
      }),
    );
  const run = () => runScheduled(env, Date.now());
  const types = async () => typesOf((await done("GET", "/alerts")).data).filter((type) => type.startsWith("upstream."));

  it("tells once that an upstream is down, that it refuses the operator, and that it is back", async () => {
    await deliver([message(...tries(2, "status_503"))]);
    await run();
    expect(await types()).toEqual([]);
    await deliver([message(...tries(3, "timeout"), ...tries(1, "answered"), ...tries(1, "status_401"))]);
    await run();
    await run();
    expect((await types()).sort()).toEqual(["upstream.down", "upstream.refuses_operator"]);
    advance(301_000);
    await run();
    expect(await types()).toHaveLength(2);
    await deliver([message(...tries(2, "answered"), ...tries(5, "status_422"))]);
    await run();
    await run();
    expect(await types()).toEqual(["upstream.recovered", "upstream.refuses_operator", "upstream.down"]);
    // A batch of nothing is not an error.
    await consumeUsage(createMessageBatch("tollgate-usage", []), env);
  });
});
