/** Single calls: lists by page and filter, who sees which, and the proof of a charge. */
import { env } from "cloudflare:workers";
import fc from "fast-check";
import { afterAll, afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { UsageEvent } from "../../src/core/account/hold.ts";
import { asId } from "../../src/core/ids.ts";
import { lookedAt } from "../../src/platform/d1/calls.ts";
import { call, done, type Json, refusal, settled } from "../support/worker/operator.ts";
import { as } from "../support/worker/tenant.ts";
import { deliver, emptyUsage, event, HOUR, message, START } from "../support/worker/usage-support.ts";

beforeEach(emptyUsage);
afterEach(() => vi.useRealTimers());
afterAll(settled);

const calls = async (query = ""): Promise<Json[]> => (await done("GET", `/calls?${query}`)).data;
const ids = (rows: Json[]): string[] => rows.map(({ id }) => id);

const detail = (some: Partial<NonNullable<UsageEvent["detail"]>> = {}): NonNullable<UsageEvent["detail"]> => ({
  stream: false,
  heldNanoUsd: 1_000,
  prices: { input_tokens: 2_000_000 },
  costs: { input_tokens: 1_000_000 },
  entry: null,
  tries: [{ upstream: "main", model: "llama", result: "answered", ms: 90 }],
  ...some,
});

/** All pages of a list, `limit` rows each. */
async function pages(query: string, limit: number): Promise<string[]> {
  const found: string[] = [];
  let cursor: string | null = null;
  do {
    const page: Json = await done("GET", `/calls?${query}&limit=${limit}${cursor === null ? "" : `&cursor=${cursor}`}`);
    found.push(...ids(page.data));
    cursor = page.next_cursor;
  } while (cursor !== null);
  return found;
}

describe("the list of calls", () => {
  it("has all that is recorded of a call, and nulls where an older version recorded nothing", async () => {
    const first = event({ country: "DE", detail: detail({ stream: true }), endedAtMs: START + 1 });
    await deliver([message(first, event({ account: asId("other") }))]);
    const [shown, older] = await calls();
    expect(shown).toEqual({
      id: first.eventId,
      account: "acme",
      key: "key_1",
      team: null,
      endpoint: "chat.completions",
      model: "llama",
      alias: null,
      upstream: "main",
      target_model: "llama",
      region: "eu",
      country: "DE",
      stream: true,
      status: 200,
      outcome: "completed",
      reason: null,
      source: "exact",
      started_at: "2026-04-30T23:59:59.901Z",
      ended_at: "2026-05-01T00:00:00.001Z",
      latency_ms: 100,
      first_byte_ms: 10,
      usage: { input_tokens: 10, output_tokens: 5 },
      prices: { input_tokens: 0.002 },
      costs: { input_tokens: 0.001 },
      price_rule: "book:llama",
      charged_usd: 30e-9,
      cost_usd: 20e-9,
      held_usd: 1e-6,
      overrun_usd: 0,
      loss_usd: 0,
      refusal: null,
      param: null,
      tries: [{ upstream: "main", model: "llama", result: "answered", ms: 90 }],
    });
    expect(older).toMatchObject({ account: "other", stream: null, tries: null, prices: null, held_usd: null });
  });

  it.each([
    ["account=acme", 1],
    ["team=team_1", 2],
    ["key=key_2", 3],
    ["model=llama-2", 4],
    ["upstream=second", 5],
    ["outcome=failed", 6],
    ["status=503", 6],
    ["reason=upstream_error", 6],
    [`from=${START + 7 * HOUR}`, 7],
    ["outcome=failed&status=200", null],
    ["account=nobody", null],
    // What looks like SQL is a value.
    [`account=${encodeURIComponent("acme' or '1'='1")}`, null],
    [`reason=${encodeURIComponent("x'; drop table usage_events; --")}`, null],
  ])("?%s gives those and no others", async (query, which) => {
    const other = { account: asId<UsageEvent["account"]>("other") };
    const made = [
      event(other),
      event(),
      event({ ...other, team: asId("team_1") }),
      event({ ...other, key: asId("key_2") }),
      event({ ...other, model: "llama-2" }),
      event({ ...other, upstream: "second" }),
      event({ ...other, outcome: "failed", status: 503, reason: "upstream_error" }),
      event({ ...other, endedAtMs: START + 7 * HOUR }),
    ];
    await deliver([message(...made)]);
    expect(ids(await calls(query))).toEqual(which === null ? [] : [made[which]?.eventId]);
    // All are still there; other files' calls may be beside them.
    const all = ids(await calls());
    expect(made.filter(({ eventId }) => !all.includes(eventId))).toEqual([]);
  });

  it.each([
    ["status=200;drop", "status"],
    ["status=99", "status"],
    ["outcome=fine", "outcome"],
    ["cursor=1", "cursor"],
    ["cursor=1-3-3", "cursor"],
    ["cursor=1-0-9999999999999999", "cursor"],
    ["limit=501", "limit"],
    ["from=0000-13-01", "from"],
    ["from=-24w", "from"],
    ["from=2026-05-02&to=2026-05-01", "from"],
    ["colour=red", "colour"],
  ])("?%s is refused by its field", async (query, param) => {
    expect(await call("GET", `/calls?${query}`)).toMatchObject(refusal(400, "invalid_request_error", param));
  });

  it("by pages of any length is the same list, also where many calls end in one millisecond", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.record({ at: fc.nat(5), mine: fc.boolean() }), { maxLength: 25 }),
        fc.integer({ min: 1, max: 7 }),
        async (made, limit) => {
          await emptyUsage();
          const events = made.map(({ at, mine }) =>
            event({ endedAtMs: START + at, ...(!mine && { account: asId("other") }) }),
          );
          await deliver([message(...events)]);
          const wanted = (list: UsageEvent[]) => list.map(({ eventId }) => eventId as string).sort();
          const all = await pages("", limit);
          expect(new Set(all).size).toBe(all.length);
          expect([...all].sort()).toEqual(wanted(events));
          const mine = await pages("account=acme", limit);
          expect([...mine].sort()).toEqual(wanted(events.filter(({ account }) => account === "acme")));
          expect(mine).toEqual(all.filter((id) => mine.includes(id)));
        },
      ),
      { numRuns: 8 },
    );
  });

  it("stays in its place while new calls come", async () => {
    const made = Array.from({ length: 4 }, (_, at) => event({ endedAtMs: START + at }));
    await deliver([message(...made)]);
    const first = await done("GET", "/calls?limit=2");
    await deliver([message(event({ endedAtMs: START + 9 }), event({ endedAtMs: START + 2 }))]);
    expect(ids(await calls(`limit=2&cursor=${first.next_cursor}`))).toEqual([made[1]?.eventId, made[0]?.eventId]);
  });

  it("shows a call that ended late once, with the sum of both", async () => {
    const first = event({
      outcome: "expired",
      priceNanoUsd: 10,
      costNanoUsd: 1,
      lossNanoUsd: 20,
      usage: { input_tokens: 3 },
    });
    const late = event({
      eventId: asId(`${first.eventId}.late`),
      late: true,
      endedAtMs: START + HOUR,
      reason: "late",
      priceNanoUsd: 15,
      costNanoUsd: 4,
      lossNanoUsd: -20,
      usage: { input_tokens: 4, output_tokens: 2 },
    });
    await deliver([message(first), message(late)]);
    const sums = { charged_usd: 25e-9, cost_usd: 5e-9, loss_usd: 0, usage: { input_tokens: 7, output_tokens: 2 } };
    expect(await calls()).toMatchObject([{ id: first.eventId, outcome: "completed", ...sums }]);
    expect(await done("GET", `/calls/${first.eventId}`)).toMatchObject(sums);
    expect(await done("GET", `/calls/${first.eventId}.late`)).toMatchObject(sums);
  });

  it("reads the index of its account, or that of time", async () => {
    const plan = async (account?: string) => {
      const rows = await env.BOOKS.prepare(`explain query plan select event_id ${lookedAt({ account })} limit 10`)
        .bind(0, 1, 2, 3, account ?? null)
        .all<{ detail: string }>();
      return rows.results.map(({ detail: step }) => step).join("; ");
    };
    expect(await plan("acme")).toMatch(
      /^SEARCH usage_events USING INDEX usage_events_by_account \(account=\? AND ended_ms/,
    );
    expect(await plan()).toMatch(/^SEARCH usage_events USING INDEX usage_events_by_time \(ended_ms/);
  });

  it("an id that nobody has is 404", async () => {
    for (const id of ["nothing", "'%20or%201=1", ".", "%25"]) {
      expect((await call("GET", `/calls/${id}`)).status).toBe(404);
    }
  });
});

describe("the proof of a charge", () => {
  it("names units, rates, the hold and the ledger's entry, and says whether they agree", async () => {
    const account = await done("POST", "/accounts", { id: "proved", name: "proved", balance_usd: 5 });
    const [entry] = (await done("GET", `/accounts/${account.id}/ledger`)).data;
    const usage = { input_tokens: 1_000, cached_input_tokens: 400, output_tokens: 7 };
    const prices = { input_tokens: 1_000_000, cached_input_tokens: 250_000, output_tokens: 333_333 };
    const made = event({
      account: asId("proved"),
      usage,
      priceNanoUsd: 703,
      detail: detail({ prices, heldNanoUsd: 2_000, entry: entry.id }),
    });
    await deliver([message(made)]);
    const { proof } = await done("GET", `/calls/${made.eventId}`);
    expect(proof).toEqual({
      lines: [
        { unit: "input_tokens", quantity: 600, price_usd: 0.001, per: 1_000_000 },
        { unit: "cached_input_tokens", quantity: 400, price_usd: 0.00025, per: 1_000_000 },
        { unit: "output_tokens", quantity: 7, price_usd: 0.000333333, per: 1_000_000 },
      ],
      // 600 + 100 + 2.333331, rounded up.
      sum_usd: 703e-9,
      held_usd: 2e-6,
      charged_usd: 703e-9,
      price_rule: "book:llama",
      // The entry that the event names is a top-up: it is no call's.
      entries: [],
      source: "books",
      ok: false,
    });
  });
});

describe("a tenant's own calls", () => {
  it("are the account's for owners and admins, the team's for theirs, a member's own; without cost, upstream, tries", async () => {
    for (const id of ["mine", "theirs"]) await done("POST", "/accounts", { id, name: id, balance_usd: 1 });
    const team = await done("POST", "/accounts/mine/teams", { name: "t" });
    const key = (role: string, its?: string) =>
      done("POST", "/accounts/mine/keys", { name: role, role, ...(its && { team: its }) });
    const [owner, lead, member] = [await key("owner"), await key("admin", team.id), await key("member", team.id)];
    const by = (who: Json, some: Partial<UsageEvent> = {}) =>
      event({ account: asId("mine"), key: who.id, team: who.team, detail: detail(), ...some });
    const made = [by(owner), by(lead), by(member), event({ account: asId("theirs"), key: member.id, team: team.id })];
    await deliver([message(...made)]);
    const seen = async (who: Json, query = "") => {
      const { status, body } = await as(who.key, "GET", `/account/calls?${query}`);
      expect(status, JSON.stringify(body)).toBe(200);
      return body;
    };
    const of = (...which: number[]) => which.map((at) => made[at]?.eventId);
    expect(ids((await seen(owner)).data)).toEqual(of(2, 1, 0));
    expect(ids((await seen(lead)).data)).toEqual(of(2, 1));
    expect(ids((await seen(member)).data)).toEqual(of(2));
    expect(ids((await seen(owner, `key=${member.id}`)).data)).toEqual(of(2));
    expect(ids((await seen(member, `key=${owner.id}`)).data)).toEqual([]);
    expect(ids((await seen(member, "cursor=999999999999999-1-999999999999999")).data)).toEqual(of(2));
    const text = JSON.stringify(await seen(owner));
    expect(text).not.toMatch(/cost|upstream|tries|target|rule|loss|overrun|main/);
    for (const query of ["account=theirs", "upstream=main", `team=${team.id}`]) {
      expect((await as(owner.key, "GET", `/account/calls?${query}`)).status).toBe(400);
    }
  });
});
