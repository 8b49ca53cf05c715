import { runDurableObjectAlarm } from "cloudflare:test";
import { env } from "cloudflare:workers";
import fc from "fast-check";
import { afterAll, afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { BUCKET_ENDS_MS, bucketOf } from "../../src/core/histogram.ts";
import { type AccountId, asId, type CallId, type KeyId, type TeamId } from "../../src/core/ids.ts";
import {
  credit,
  fakeClock,
  fakeQueue,
  newAccount,
  releaseOf,
  request,
  row,
  settlement,
} from "../support/worker/account-support.ts";
import { call, done, refusal, settled } from "../support/worker/operator.ts";
import { DAY, deliver, emptyUsage, event, HOUR, message, report, START } from "../support/worker/usage-support.ts";

let lines: string[];
beforeEach(async () => {
  lines = [];
  vi.spyOn(console, "log").mockImplementation((line) => void lines.push(line));
  await emptyUsage();
});
afterEach(() => {
  vi.restoreAllMocks();
  vi.useRealTimers();
});
afterAll(settled);

/** In the bucket of the exact value, its ends included. */
const near = (found: number, exact: number): boolean =>
  found >= (BUCKET_ENDS_MS[bucketOf(exact) - 1] ?? 0) && found <= (BUCKET_ENDS_MS[bucketOf(exact)] ?? 600_000);

describe("reports", () => {
  it("group by any of the dimensions, keys and teams that nobody has any more included", async () => {
    await deliver([
      message(
        event({ key: asId("key_1"), team: asId("team_1"), model: "a", alias: "chat" }),
        event({ key: asId("key_1"), team: asId("team_1"), model: "b", endedAtMs: START + HOUR }),
        event({ key: asId("key_2"), model: "a", account: asId("other"), endedAtMs: START + DAY + HOUR }),
      ),
    ]);
    const groups = async (by: string) =>
      (await report(`group_by=${by}`)).map((line) => [...by.split(",").map((g) => line[g]), line.calls]);
    expect(await groups("account")).toEqual([
      ["acme", 2],
      ["other", 1],
    ]);
    expect(await groups("key")).toEqual([
      ["key_1", 2],
      ["key_2", 1],
    ]);
    expect(await groups("team")).toEqual([
      [null, 1],
      ["team_1", 2],
    ]);
    expect(await groups("alias")).toEqual([
      [null, 2],
      ["chat", 1],
    ]);
    expect(await groups("model,account")).toEqual([
      ["a", "acme", 1],
      ["a", "other", 1],
      ["b", "acme", 1],
    ]);
    expect(await groups("day")).toEqual([
      ["2026-05-01", 2],
      ["2026-05-02", 1],
    ]);
    expect(await groups("hour,key")).toEqual([
      ["2026-05-01T00:00:00.000Z", "key_1", 1],
      ["2026-05-01T01:00:00.000Z", "key_1", 1],
      ["2026-05-02T01:00:00.000Z", "key_2", 1],
    ]);
    expect(await report("account=other")).toMatchObject([{ calls: 1 }]);
    expect((await report("account=other"))[0]).not.toHaveProperty("account");
  });

  it("a row has calls, errors, every unit, cost, price, margin, overrun, loss and mean latency", async () => {
    await deliver([
      message(
        event({ usage: { audio_seconds: 1500, images: 2 }, latencyMs: 10, priceNanoUsd: 5, costNanoUsd: 7 }),
        event({ outcome: "client_gone", latencyMs: 20, overrunNanoUsd: 3, lowInput: true }),
        event({ outcome: "failed", status: 503, usage: {}, latencyMs: 40, priceNanoUsd: 0, costNanoUsd: 0 }),
        event({ outcome: "expired", usage: {}, latencyMs: 10, priceNanoUsd: 0, costNanoUsd: 0, lossNanoUsd: 11 }),
      ),
    ]);
    expect(await report("")).toEqual([
      {
        calls: 4,
        errors: 2,
        input_tokens: 10,
        cached_input_tokens: 0,
        output_tokens: 5,
        video_tokens_720p: 0,
        video_tokens_1080p: 0,
        video_tokens_4k: 0,
        video_tokens_720p_reference: 0,
        video_tokens_1080p_reference: 0,
        video_tokens_4k_reference: 0,
        audio_seconds: 1.5,
        transcribed_seconds: 0,
        images: 2,
        requests: 0,
        gpu_hours: 0,
        interruptible_gpu_hours: 0,
        storage_gb_days: 0,
        cost_usd: 27e-9,
        price_usd: 35e-9,
        margin_usd: 8e-9,
        overrun_usd: 3e-9,
        loss_usd: 11e-9,
        latency_ms: 20,
        latency: { p50: 25, p95: 50, p99: 50 },
        first_byte: { p50: 25, p95: 50, p99: 50 },
        low_input_calls: 1,
      },
    ]);
  });

  it("`from` is inclusive and `to` exclusive, to the millisecond", async () => {
    await deliver([message(...[-1, 0, 1].map((shift) => event({ endedAtMs: START + 1234 + shift })))]);
    const between = async (from: number, to: number) =>
      (await report(`from=${START + from}&to=${START + to}`))[0].calls;
    expect(await between(1234, 1235)).toBe(1);
    expect(await between(1233, 1235)).toBe(2);
    expect(await between(1235, HOUR)).toBe(1);
    expect(await between(1234, 1234)).toBe(0);
    const iso = "from=2026-05-01&to=2026-05-01T00:00:01.234Z";
    expect((await report(iso))[0].calls).toBe(1);
  });

  it("a sum beyond 2^53 nano-USD is exact", async () => {
    const most = 9_000_000_000_000_001;
    await deliver([message(event({ priceNanoUsd: most }), event({ priceNanoUsd: most }), event({ priceNanoUsd: 1 }))]);
    const csv = await call("GET", `/usage?format=csv&from=${START}&to=${START + DAY}`);
    expect(csv.text.split("\r\n")[1]).toContain(",18000000.000000003,");
  });

  it("sort by a sum, the most first, over pages too, and name accounts, teams and keys", async () => {
    await done("POST", "/accounts", { id: "named", name: "Named Inc." });
    const key = await done("POST", "/accounts/named/keys", { name: "ci" });
    const team = await done("POST", "/accounts/named/teams", { name: "web" });
    const of = { account: asId<AccountId>("named"), key: asId<KeyId>(key.id), team: asId<TeamId>(team.id) };
    await deliver([message(event({ ...of, priceNanoUsd: 7 }), event({ priceNanoUsd: 9, costNanoUsd: 0 }), event())]);
    const by = (query: string) => report(`group_by=account,team,key&${query}`);
    const ours = { account: "named", account_name: "Named Inc.", team_name: "web", key_name: "ci" };
    expect(await by("order_by=price_usd")).toMatchObject([
      { account: "acme", account_name: null, key_name: null },
      ours,
    ]);
    expect((await by("order_by=margin_usd"))[1]).toMatchObject(ours);
    const first = await done("GET", `/usage?group_by=key&order_by=calls&limit=1&from=${START}&to=${START + DAY}`);
    expect(first).toMatchObject({ data: [{ key: "key_1" }], next_cursor: "1" });
    expect(await call("GET", "/usage?order_by=key")).toMatchObject(refusal(400, "invalid_request_error", "order_by"));
  });

  it("have percentiles of latency and first byte by upstream, model, day and hour, within a bucket of the exact ones", async () => {
    const took = fc.array(fc.integer({ min: 0, max: 700_000 }), { minLength: 1, maxLength: 60 });
    await fc.assert(
      fc.asyncProperty(took, took, async (main, other) => {
        await emptyUsage();
        const events = [...main, ...other].map((latencyMs, index) =>
          event({ upstream: index < main.length ? "main" : "other", latencyMs, firstByteMs: latencyMs / 2 }),
        );
        await deliver([message(...events)]);
        for (const row of await report("group_by=upstream,day")) {
          const exact = (row.upstream === "main" ? main : other).toSorted((a, b) => a - b);
          for (const [name, share] of [
            ["p50", 0.5],
            ["p95", 0.95],
            ["p99", 0.99],
          ] as const) {
            const value = exact[Math.ceil(exact.length * share) - 1] ?? 0;
            expect(near(row.latency[name], value), `${name}: ${row.latency[name]} for ${value}`).toBe(true);
            expect(near(row.first_byte[name], Math.round(value / 2)), name).toBe(true);
          }
        }
      }),
      { numRuns: 10 },
    );
    expect((await report("group_by=key"))[0]).toMatchObject({ latency: null, first_byte: null });
    expect((await report("account=acme"))[0]).toMatchObject({ latency: null, first_byte: null });
    expect((await report("group_by=hour"))[0]?.latency).not.toBeNull();
  });

  it("long ones come by pages", async () => {
    await deliver([message(...["a", "b", "c"].map((model) => event({ model })))]);
    const first = await call("GET", `/usage?group_by=model&limit=2&from=${START}&to=${START + DAY}`);
    expect(first.body.data.map(({ model }: { model: string }) => model)).toEqual(["a", "b"]);
    const next = `limit=2&cursor=${first.body.next_cursor}&group_by=model&from=${START}&to=${START + DAY}`;
    expect((await call("GET", `/usage?${next}`)).body).toMatchObject({ data: [{ model: "c" }], next_cursor: null });
  });

  it.each([
    ["group_by=planet", "group_by"],
    ["group_by=account,colour", "group_by"],
    ["from=yesterday", "from"],
    ["from=2026-05-02&to=2026-05-01", "from"],
    ["format=xml", "format"],
    ["limit=10001", "limit"],
    ["group=account", "group"],
  ])("?%s is refused by its field", async (query, param) => {
    expect(await call("GET", `/usage?${query}`)).toMatchObject(refusal(400, "invalid_request_error", param));
  });

  it("as CSV: the same rows, exact decimals, quoted, and nothing that a spreadsheet would run", async () => {
    const names = ["=1+1", "+1", "-1", "@x", "\tx", "\rx", 'say "hi", twice', "plain"];
    await deliver([message(...names.map((model) => event({ model, costNanoUsd: 31 })))]);
    const answer = await call("GET", `/usage?group_by=model,day&format=csv&from=${START}&to=${START + DAY}`);
    expect(answer.headers.get("content-type")).toBe("text/csv; charset=utf-8");
    const [head, ...lines] = answer.text.split("\r\n");
    expect(head?.split(",").slice(0, 4)).toEqual(["model", "day", "calls", "errors"]);
    expect(lines.at(-1)).toBe("");
    const cells = lines.slice(0, -1).map((line) => line.split(",2026-05-01,")[0]);
    expect(cells.sort()).toEqual(
      ["'=1+1", "'+1", "'-1", "'@x", "'\tx", '"\'\rx"', '"say ""hi"", twice"', "plain"].sort(),
    );
    const margins = lines.slice(0, -1).map((line) => line.split(",").at(-5));
    expect(new Set(margins)).toEqual(new Set(["-0.000000001"]));
  });

  it("a CSV longer than a page of rows is whole", async () => {
    for (let part = 0; part < 11; part++) {
      await deliver([
        message(...Array.from({ length: 500 }, (_, index) => event({ model: `m${part * 500 + index}` }))),
      ]);
    }
    const answer = await call("GET", `/usage?group_by=model&format=csv&from=${START}&to=${START + DAY}`);
    const models = answer.text
      .trim()
      .split("\r\n")
      .slice(1)
      .map((line) => line.split(",")[0]);
    expect(new Set(models).size).toBe(5_500);
    expect(models).toHaveLength(5_500);
  });
});

describe("the ledger and the reports", () => {
  it("agree to the last nano-USD, by account and by key, failed and expired calls included", async () => {
    const advance = fakeClock();
    const { stub, number } = await newAccount({ balance: 1_000_000_000 });
    const queue = await fakeQueue(stub);
    await credit(stub, 5_000, "second");
    const prices = row({ costNanoUsd: { input_tokens: 333_333 }, priceNanoUsd: { input_tokens: 777_777 } });
    for (let index = 0; index < 30; index++) {
      await stub.admit(request(`call-${number}-${index}`, 100 + index, { row: prices }));
      advance(7 * 60_000);
      if (index % 5 === 4) await stub.release(releaseOf(`call-${number}-${index}`));
      else if (index % 7 !== 6)
        await stub.settle(settlement(`call-${number}-${index}`, 90 + 3 * index, { costNanoUsd: index }));
    }
    advance(600_000);
    for (let round = 0; round < 3; round++) {
      await runDurableObjectAlarm(stub);
      advance(2_000);
    }
    await deliver([...queue.messages, ...queue.messages]);
    const entries = (await stub.entries({ cursor: null, limit: 1000 }))?.data ?? [];
    const charges = entries.filter(({ kind }) => kind === "charge");
    const spent = -charges.reduce((sum, { amountNanoUsd }) => sum + amountNanoUsd, 0);
    const range = `from=${START}&to=${Date.now() + DAY}`;
    const [whole] = await report(`account=acc-${number}&${range}`);
    expect(Math.round(whole.price_usd * 1e9)).toBe(spent);
    expect(spent).toBeGreaterThan(0);
    const audit = await stub.audit();
    expect(audit).toMatchObject({ ok: true, outbox: 0 });
    expect(Math.round(whole.overrun_usd * 1e9)).toBe(audit?.overrunNanoUsd);
    expect(Math.round(whole.loss_usd * 1e9)).toBe(audit?.operatorLossNanoUsd);
    expect(whole.calls).toBe(30);
    const events = await env.BOOKS.prepare("select event_id as id from usage_events").all<{ id: CallId }>();
    const charged = new Set(charges.map(({ callId }) => callId));
    expect(events.results.filter(({ id }) => charged.has(id))).toHaveLength(charges.length);
  });
});
