import { runDurableObjectAlarm } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterAll, afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { UsageEvent } from "../../src/core/account/hold.ts";
import { type AccountNumber, asId, type CallId } from "../../src/core/ids.ts";
import { readDurations, rollUpDurations } from "../../src/platform/d1/histograms.ts";
import { fakeClock, fakeQueue, newAccount, request, rows, settlement } from "../support/worker/account-support.ts";
import { settled } from "../support/worker/operator.ts";
import {
  count,
  countWritten,
  DAY,
  deliver,
  emptyUsage,
  event,
  HOUR,
  message,
  report,
  START,
} from "../support/worker/usage-support.ts";

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

describe("the consumer", () => {
  it("an event counts once, in whatever message, batch or order it comes", async () => {
    const [first, second, third] = [event(), event(), event()];
    expect(await deliver([message(first, second), message(second, third), message(first)])).toEqual({
      acked: ["m0", "m1", "m2"],
      retried: [],
    });
    await deliver([message(third, second, first)]);
    expect(await report("")).toMatchObject([{ calls: 3, price_usd: 90e-9 }]);
  });

  it("an event that comes again with other figures changes nothing", async () => {
    const first = event();
    await deliver([message(first)]);
    await deliver([message({ ...first, priceNanoUsd: 999 })]);
    expect(await report("")).toMatchObject([{ calls: 1, price_usd: 30e-9 }]);
  });

  it("every field of an event stands in its row", async () => {
    const full = event({
      team: asId("team_1"),
      alias: "chat",
      outcome: "expired",
      reason: "no_end",
      source: "none",
      lowInput: true,
      usage: { audio_seconds: 1500, transcribed_seconds: 2, images: 3, requests: 4, video_tokens_4k_reference: 5 },
      overrunNanoUsd: 6,
      lossNanoUsd: 7,
      firstByteMs: null,
      latencyMs: 12.6,
    });
    await deliver([message(full)]);
    expect(await env.BOOKS.prepare("select * from usage_events").first()).toMatchObject({
      event_id: full.eventId,
      account: "acme",
      team: "team_1",
      alias: "chat",
      outcome: "expired",
      reason: "no_end",
      source: "none",
      low_input: 1,
      input_tokens: 0,
      audio_ms: 1500,
      transcribed_ms: 2,
      images: 3,
      requests: 4,
      video_tokens_4k_reference: 5,
      overrun_nano_usd: 6,
      loss_nano_usd: 7,
      first_byte_ms: null,
      latency_ms: 13,
      started_ms: full.startedAtMs,
      ended_ms: full.endedAtMs,
    });
  });

  it.each([
    ["no object", "text"],
    ["no account", { events: [] }],
    ["no events", { account: 1 }],
    ["an end without a call", { account: 1, endedAtMs: START, end: { kind: "settle", said: {} } }],
  ])("a message that cannot be read goes back alone, on its way to the dead letters: %s", async (_, body) => {
    expect(await deliver([message(event()), body, message(event())])).toEqual({ acked: ["m0", "m2"], retried: ["m1"] });
    expect(await countWritten()).toBe(2);
    expect(lines.join()).toContain("usage_message_unreadable");
  });

  it.each<[string, Partial<UsageEvent>]>([
    ["a price that is no integer", { priceNanoUsd: 0.5 }],
    ["a negative price", { priceNanoUsd: -1 }],
    ["a negative quantity", { usage: { images: -1 } }],
    ["an outcome that nobody knows", { outcome: "maybe" as unknown as UsageEvent["outcome"] }],
    ["a price beyond all numbers", { priceNanoUsd: 1e300 }],
    ["older than what is kept", { endedAtMs: 5 }],
    ["one that D1 refuses", { model: "refused" }],
  ])(
    "an event that cannot be taken keeps no other waiting; in the end it is set aside as it came: %s",
    async (_, bad) => {
      await env.BOOKS.prepare(
        "create trigger refuse before insert on usage_events when new.model = 'refused' begin select raise(abort, 'no'); end",
      ).run();
      await env.BOOKS.prepare("update usage_progress set kept_from_ms = 1000").run();
      const poison = event(bad);
      const sent = { ...message(event(), poison, event()), account: asId<AccountNumber>(77) };
      const confirmed: string[] = [];
      const ear = { getByName: () => ({ shipped: async (ids: string[]) => void confirmed.push(...ids) }) };
      const values = { ACCOUNTS: ear as unknown as Env["ACCOUNTS"] };
      const others = [sent.events[0]?.eventId, sent.events[2]?.eventId];
      expect(await deliver([sent, message(event())], values)).toEqual({ acked: ["m1"], retried: ["m0"] });
      expect(await countWritten()).toBe(3);
      expect(confirmed).toEqual(expect.arrayContaining(others));
      expect(confirmed).not.toContain(poison.eventId);
      expect(await count("usage_set_aside")).toBe(0);
      // The last time, and once more: it was delivered twice.
      for (let time = 0; time < 2; time++) {
        confirmed.length = 0;
        expect(await deliver([sent], values, 5)).toEqual({ acked: ["m0"], retried: [] });
        expect(confirmed).toEqual(expect.arrayContaining([...others, poison.eventId]));
      }
      await env.BOOKS.prepare("drop trigger refuse").run();
      const kept = await env.BOOKS.prepare("select * from usage_set_aside").all<{ event: string }>();
      expect(kept.results).toMatchObject([{ account: 77, event_id: poison.eventId }]);
      expect(JSON.parse(kept.results[0]?.event ?? "")).toEqual(JSON.parse(JSON.stringify(poison)));
      expect(await countWritten()).toBe(3);
      expect(lines.join()).toContain("usage_event_not_taken");
    },
  );

  it("books that are down set nothing aside, however often a message came", async () => {
    const down = (name: string) => () => {
      if (name === "batch" || name === "run") throw new Error("D1 is down");
      return broken;
    };
    const broken: D1Database = new Proxy({} as D1Database, { get: (_, name) => down(String(name)) });
    expect(await deliver([message(event(), event())], { BOOKS: broken }, 9)).toEqual({ acked: [], retried: ["m0"] });
    expect(await count("usage_set_aside")).toBe(0);
  });

  it("a call under which the clock stepped back is taken, with durations of none", async () => {
    await deliver([message(event({ latencyMs: -3_600_000, firstByteMs: -7 }))]);
    const stored = await env.BOOKS.prepare("select latency_ms, first_byte_ms from usage_events").first();
    expect(stored).toEqual({ latency_ms: 0, first_byte_ms: 0 });
  });

  it("a late event's differences may be negative, and it is no call of its own", async () => {
    const first = event({ outcome: "expired", priceNanoUsd: 90, lossNanoUsd: 10, usage: { input_tokens: 9 } });
    const late = event({
      eventId: asId<CallId>(`${first.eventId}.late`),
      late: true,
      priceNanoUsd: -60,
      lossNanoUsd: -10,
      costNanoUsd: -5,
      latencyMs: -40,
      usage: { input_tokens: -6 },
    });
    expect(await deliver([message(first, late), message(late)])).toEqual({ acked: ["m0", "m1"], retried: [] });
    expect(await report("")).toMatchObject([
      { calls: 1, errors: 0, price_usd: 30e-9, cost_usd: 15e-9, latency_ms: 60, input_tokens: 3 },
    ]);
  });

  it("fields that this version does not know are passed over", async () => {
    const newer = { ...event(), colour: "red", usage: { input_tokens: 1, smell: 5 } } as unknown as UsageEvent;
    expect((await deliver([message(newer)])).acked).toEqual(["m0"]);
  });

  it("books that fail send every message back and lose nothing", async () => {
    const one = event();
    const broken = { prepare: () => ({ bind: () => undefined }), batch: () => Promise.reject(new Error("D1 is down")) };
    const down = await deliver([message(one), message(event())], { BOOKS: broken as unknown as D1Database });
    expect(down).toEqual({ acked: [], retried: ["m0", "m1"] });
    expect((await deliver([message(one)])).acked).toEqual(["m0"]);
  });

  it("a message that fails in the books keeps none of the others from them", async () => {
    await env.BOOKS.prepare(
      "create trigger refuse before insert on usage_events when new.model = 'refused' begin select raise(abort, 'no'); end",
    ).run();
    const result = await deliver([message(event()), message(event({ model: "refused" })), message(event())]);
    await env.BOOKS.prepare("drop trigger refuse").run();
    expect(result).toEqual({ acked: ["m0", "m2"], retried: ["m1"] });
    expect(await count("usage_events")).toBe(2);
  });

  it("what was written is confirmed to the account's object; not hearing it costs a repetition only", async () => {
    const advance = fakeClock();
    const { stub, number } = await newAccount({ balance: 100 });
    const queue = await fakeQueue(stub);
    await stub.admit(request("confirmed", 10));
    await stub.settle(settlement("confirmed", 4));
    advance(2_000);
    await runDurableObjectAlarm(stub);
    const [sent] = queue.messages;
    const deaf = { getByName: () => ({ shipped: () => Promise.reject(new Error("unreachable")) }) };
    const unheard = await deliver([sent], { ACCOUNTS: deaf as unknown as Env["ACCOUNTS"] });
    expect(unheard.acked).toEqual(["m0"]);
    expect((await stub.audit())?.outbox).toBe(1);
    expect(sent?.account).toBe(number);
    await deliver([sent]);
    expect((await stub.audit())?.outbox).toBe(0);
    expect(await rows(stub, "SELECT * FROM outbox")).toEqual([]);
    expect(await count("usage_events")).toBe(1);
  });
});

describe("durations", () => {
  const tried = (result: string, ms: number) => ({ upstream: "main", model: "llama-7b", result, ms });
  const detailed = (...tries: ReturnType<typeof tried>[]) => ({
    detail: { stream: true, heldNanoUsd: 1, prices: {}, costs: null, entry: null, tries },
  });
  const stored = async () => {
    const { results } = await env.BOOKS.prepare(
      "select * from histograms order by span_ms, start_ms, measure, result",
    ).all<Record<string, number | string>>();
    return results.map(({ span_ms, start_ms, measure, upstream, model, result, sum_ms, ...buckets }) => [
      span_ms,
      Number(start_ms) && Number(start_ms) - START,
      measure,
      upstream,
      model,
      result,
      sum_ms,
      Object.values(buckets).join(""),
    ]);
  };

  it("of calls and of tries count once, by minute and for ever, whatever comes twice; corrections and rentals do not", async () => {
    const first = event({
      ...detailed(tried("status_503", 40), tried("answered", 90)),
      latencyMs: 300,
      firstByteMs: 95,
    });
    const failed = event({ upstream: null, latencyMs: 51, firstByteMs: null, endedAtMs: START + 60_000 });
    const late = { ...first, eventId: asId<CallId>(`${first.eventId}.late`), late: true as const };
    await deliver([message(first, first, late), message(first, event({ endpoint: "compute.instance" }))]);
    await deliver([message(failed), message(first)]);
    const ever = [
      [0, 0, "first_byte", "main", "llama", "", 95, "010000000000"],
      [0, 0, "latency", "", "llama", "", 51, "010000000000"],
      [0, 0, "latency", "main", "llama", "", 300, "000100000000"],
      [0, 0, "try", "main", "llama-7b", "answered", 90, "010000000000"],
      [0, 0, "try", "main", "llama-7b", "status_503", 40, "100000000000"],
    ];
    const minutes = ever.map(([, , measure, at, ...rest]) => [60_000, at === "" ? 60_000 : 0, measure, at, ...rest]);
    expect((await stored()).slice(0, 5)).toEqual(ever);
    expect((await stored()).slice(5).sort()).toEqual(minutes.sort());
  });

  it("minutes become hours and hours days, and no sum changes; a late minute joins its hour", async () => {
    const at = [0, 60_000, HOUR, 3 * HOUR + 5, 26 * HOUR, 50 * HOUR, 60 * DAY];
    await deliver([message(...at.map((ms, index) => event({ endedAtMs: START + ms, latencyMs: 10 ** index })))]);
    const asked = { fromMs: START, toMs: START + 90 * DAY, groupBy: ["day", "upstream"] as const };
    const before = await readDurations(env.BOOKS, asked);
    const rows = () => count("histograms where span_ms = 60000");
    const now = START + 60 * DAY + 6 * HOUR;
    while ((await rollUpDurations(env.BOOKS, now, 3)) > 0);
    expect(await rows()).toBe(2);
    expect(await readDurations(env.BOOKS, asked)).toEqual(before);
    expect((await readDurations(env.BOOKS, { ...asked, groupBy: ["hour"] })).map(({ groups }) => groups[0])).toEqual([
      START + 60 * DAY,
      START + 60 * DAY,
    ]);
    await deliver([message(event({ endedAtMs: START + HOUR + 7 }))]);
    expect(await rollUpDurations(env.BOOKS, now, 30)).toBe(2);
    const spans = await env.BOOKS.prepare("select distinct span_ms from histograms order by 1").raw();
    expect(spans).toEqual([[0], [60_000], [24 * HOUR]]);
    const sum = (all: typeof before) =>
      all.reduce((total, { histogram }) => total + histogram.reduce((a, b) => a + b), 0);
    expect(sum(await readDurations(env.BOOKS, asked))).toBe(sum(before) + 2);
    expect(await rollUpDurations(env.BOOKS, now + HOUR, 30)).toBe(1);
    expect(await rows()).toBe(0);
    expect(sum(await readDurations(env.BOOKS, { ...asked, groupBy: ["hour"] }))).toBe(2);
  });

  it("a record of tries that is not one counts in nothing, and its event is written all the same", async () => {
    const odd = { ...detailed().detail, tries: [null, { upstream: 1 }, tried("answered", Number.NaN)] as never };
    await deliver([message(event({ detail: odd }), event({ detail: { ...odd, tries: "x" as never } }))]);
    expect(await count("usage_events")).toBe(2);
    expect(await count("histograms where measure = 'try'")).toBe(0);
  });
});
