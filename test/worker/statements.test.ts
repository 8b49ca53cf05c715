/** Money told in four ways (proofs, ledger, statements, reports) is the same money; and limits with their use. */
import { createExecutionContext, runDurableObjectAlarm, waitOnExecutionContext } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import { ASKED_AT_ONCE } from "../../src/api/kit/some-at-once.ts";
import { adminApp } from "../../src/api/operator/index.ts";
import type { AskedCall } from "../../src/core/account/hold.ts";
import { type AccountNumber, asId, type KeyDigest } from "../../src/core/ids.ts";
import { proofOf } from "../../src/core/pricing/proof.ts";
import { findCall } from "../../src/platform/d1/calls.ts";
import { readSecrets } from "../../src/platform/secrets.ts";
import { fakeQueue, releaseOf, request, row, type Stub, settlement } from "../support/worker/account-support.ts";
import { HISTORIES, HISTORIES_TIMEOUT_MS } from "../support/worker/histories.ts";
import { call, done, type Json, refusal, settled } from "../support/worker/operator.ts";
import { as } from "../support/worker/tenant.ts";
import { DAY, deliver, emptyUsage, HOUR } from "../support/worker/usage-support.ts";

/** Shortly before a month ends. */
const EVE = Date.UTC(2031, 0, 31, 22);
const MONTHS = ["2031-01", "2031-02"];
const CALLS = HISTORIES.numRuns >= 100 ? 10_000 : 120;
const nano = (usd: number): number => Math.round(usd * 1e9);
const sum = (amounts: readonly number[]): number => amounts.reduce((total, amount) => total + amount, 0);

let nowMs = EVE;
function setTime(ms: number): void {
  nowMs = ms;
  vi.setSystemTime(ms);
}
const tick = (ms: number) => setTime(nowMs + ms);
beforeAll(emptyUsage);
beforeEach(() => {
  vi.useFakeTimers({ toFake: ["Date"] });
  setTime(EVE);
});
afterAll(async () => {
  vi.useRealTimers();
  await settled();
});

let made = 0;
interface Party {
  readonly id: string;
  readonly stub: Stub;
  readonly key: Json;
  readonly digest: KeyDigest;
}
async function newParty(fields: object = {}, keyFields: object = {}): Promise<Party> {
  const id = `stated-${++made}`;
  const { number } = await done("POST", "/accounts", { id, name: id, balance_usd: 5, ...fields });
  const key = await done("POST", `/accounts/${id}/keys`, { name: "k", role: "owner", ...keyFields });
  const opened = await readSecrets(env);
  if (!opened.ok) throw new Error(opened.fault.message);
  const digest = await opened.secrets.digestOf(key.key);
  return { id, stub: env.ACCOUNTS.getByName(String(number as AccountNumber)) as Stub, key, digest };
}

const asked = (id: string, tokens: number, digest: KeyDigest, some: Partial<AskedCall> = {}) =>
  request(id, tokens, { keyDigest: digest, ...some });

/** Mixed calls, one after the other: charged, above the hold, free of charge, failed, expired, late. */
async function mixedCalls({ id, stub, digest }: Party, calls: number, stepMs: number): Promise<void> {
  for (let n = 0; n < calls; n++) {
    const model = ["m", "=m", "n"][n % 3] ?? "m";
    const callId = `${id}-${n}`;
    const prices = { input_tokens: 1_234_567 + n, output_tokens: 3_000_001 };
    const held = 50 + (n % 7);
    const admission = await stub.admit(
      asked(callId, held, digest, { model, row: row({ model, costNanoUsd: prices }), startedAtMs: nowMs }),
    );
    expect(admission.ok).toBe(true);
    tick(stepMs);
    const usage = { input_tokens: n % 5 === 0 ? held * 3 : 7 + (n % 40), ...(n % 4 === 0 && { output_tokens: 3 }) };
    if (n % 11 === 3) await stub.release(releaseOf(callId));
    else if (n % 11 === 4) {
      await stub.renew(asId(callId), {
        reading: { source: "own_count", usage: { input_tokens: 9 } },
        servedBy: { upstream: "u1", model, region: null },
        costNanoUsd: 4,
      });
      tick(10 * 60_000);
      await stub.describe();
      if (n % 2 === 0) await stub.settle(settlement(callId, usage));
    } else await stub.settle(settlement(callId, usage));
  }
}

/** Everything that the object has for its queue, twice. */
async function shipAll({ stub }: Party): Promise<void> {
  const queue = await fakeQueue(stub);
  for (let round = 0; round < 200; round++) {
    tick(3 * 60_000);
    const before = queue.messages.length;
    await runDurableObjectAlarm(stub);
    const messages = queue.messages.slice(before);
    if (messages.length === 0) break;
    await deliver([...messages, ...messages]);
    for (const { events } of messages) await stub.shipped(events.map(({ eventId }) => eventId));
  }
}

const statementOf = (id: string, month: string): Promise<Json> =>
  done("GET", `/accounts/${id}/statement?month=${month}`);

async function wholeLedger(id: string): Promise<Json[]> {
  const found: Json[] = [];
  for (let cursor: string | null = ""; cursor !== null; ) {
    const page: Json = await done("GET", `/accounts/${id}/ledger?limit=1000${cursor && `&cursor=${cursor}`}`);
    found.push(...page.data);
    cursor = page.next_cursor;
  }
  return found.reverse();
}

describe("mixed calls over the end of a month", () => {
  it("come to the same by proofs, ledger, statements and reports, to the nano-USD", {
    timeout: HISTORIES_TIMEOUT_MS * 10 + 60_000,
  }, async () => {
    const party = await newParty({ balance_usd: 50 });
    const { id } = party;
    await mixedCalls(party, CALLS, Math.ceil((8 * HOUR) / CALLS));
    await done("POST", `/accounts/${id}/credits`, { amount_usd: "-0.000000007", reference: "=1+1", kind: "refund" });
    await shipAll(party);
    const ledger = await wholeLedger(id);
    const charges = ledger.filter(({ kind }) => kind === "charge");
    expect(charges.length).toBeGreaterThan(CALLS / 2);
    for (const month of MONTHS) {
      const statement = await statementOf(id, month);
      const [from, to] = [Date.parse(statement.from), Date.parse(statement.to)];
      const within = ledger.filter(({ at }) => Date.parse(at) >= from && Date.parse(at) < to);
      const booked = (kind: (of: string) => boolean) =>
        sum(within.filter((one) => kind(one.kind)).map((one) => nano(one.amount_usd)));
      expect(nano(statement.charges_usd)).toBe(0 - booked((kind) => kind === "charge"));
      expect(nano(statement.credits_usd)).toBe(booked((kind) => kind !== "charge"));
      expect(statement.unreported_usd).toBe(0);
      expect(sum(statement.charges.map((one: Json) => nano(one.charged_usd)))).toBe(nano(statement.charges_usd));
      const report = await done("GET", `/usage?account=${id}&group_by=model&from=${from}&to=${to}`);
      expect(report.data.map((one: Json) => [one.model, one.calls, nano(one.price_usd)])).toEqual(
        statement.charges.map((one: Json) => [one.model, one.calls, nano(one.charged_usd)]),
      );
      expect(nano(statement.closing_usd)).toBe(
        nano(statement.opening_usd) + nano(statement.credits_usd) - nano(statement.charges_usd),
      );
      const csv = await call("GET", `/accounts/${id}/statement?month=${month}&format=csv`);
      const amounts = csv.text
        .trim()
        .split("\r\n")
        .slice(1)
        .map((line) => nano(Number(line.split(",").at(-1))));
      expect(sum(amounts.slice(0, -1))).toBe(amounts.at(-1));
      expect(csv.text).toContain("'=");
      expect(csv.text).not.toMatch(/(^|,)=/m);
    }
    // Each call's proof: of all of them where that is quick.
    const bookedOf = Map.groupBy(charges, ({ call_id }) => call_id);
    let proved = 0;
    for (const [callId, entries] of bookedOf) {
      const stored = await findCall(env.BOOKS, callId as string);
      const due = proofOf(stored?.usage ?? {}, stored?.detail?.prices ?? {}).sumNanoUsd;
      expect(stored?.priceNanoUsd).toBe(0 - sum(entries.map((one) => nano(one.amount_usd))));
      expect(stored?.priceNanoUsd).toBe(Math.min(due, stored?.detail?.heldNanoUsd ?? 0));
      if (proved++ < 40 || CALLS > 1_000)
        expect((await done("GET", `/calls/${callId}`)).proof).toMatchObject({
          ok: true,
          entries: entries.map((one) => ({ id: one.id })),
        });
    }
    expect(proved).toBeGreaterThan(CALLS / 2);
  });
});

describe("statements", () => {
  it("an owner reads its own; nobody else, and no month that is none", async () => {
    const party = await newParty();
    const own = await as(party.key.key, "GET", "/account/statement?month=2031-01");
    expect(own.body).toEqual(await statementOf(party.id, "2031-01"));
    expect(own.body).toMatchObject({ account: party.id, opening_usd: 0, closing_usd: 5, complete: false });
    const admin = await done("POST", `/accounts/${party.id}/keys`, { name: "a", role: "admin" });
    expect((await as(admin.key, "GET", "/account/statement?month=2031-01")).status).toBe(403);
    for (const month of [
      "0000-01",
      "0001-12",
      "2031-13",
      "2031-00",
      "2031-1",
      "2031-02",
      "9999-01",
      "2031-01-01",
      "x",
    ]) {
      expect(await call("GET", `/accounts/${party.id}/statement?month=${month}`)).toMatchObject(
        refusal(400, "invalid_request_error", "month"),
      );
    }
    expect((await call("GET", "/accounts/nobody/statement?month=2031-01")).status).toBe(404);
    // Before the account was made there is nothing.
    expect(await statementOf(party.id, "2026-02")).toMatchObject({ opening_usd: 0, closing_usd: 0, complete: true });
  });

  it("of all accounts come by pages, and as one CSV", async () => {
    const parties = [await newParty(), await newParty(), await newParty()];
    const ids: string[] = [];
    let cursor = "";
    do {
      const page = await done("GET", `/statements?month=2031-01&limit=2${cursor && `&cursor=${cursor}`}`);
      ids.push(...page.data.map(({ account }: Json) => account));
      cursor = page.next_cursor ?? "";
    } while (cursor);
    expect(ids).toEqual(expect.arrayContaining(parties.map(({ id }) => id)));
    const csv = await call("GET", "/statements?month=2031-01&format=csv");
    for (const id of ids) expect(csv.text).toContain(`${id},2031-01,closing,`);
    expect(csv.text.split("\r\n")[0]).toBe("account,month,line,at,name,calls,amount_usd");
  });

  it("has an account that was deleted in the month or after it, and none from before", async () => {
    const { id } = await newParty();
    setTime(EVE + 3 * DAY);
    await done("DELETE", `/accounts/${id}`);
    const listed = async (month: string) => (await call("GET", `/statements?month=${month}&format=csv`)).text;
    for (const month of MONTHS) expect(await listed(month)).toContain(`${id},${month},closing,`);
    expect(await listed("2031-03")).not.toContain(id);
  });

  it("of a reader that leaves are read no further", async () => {
    for (let n = 0; n < 3 * ASKED_AT_ONCE; n++) await done("POST", "/accounts", { id: `left-${n}`, name: "Left" });
    let pages = 0;
    const prepare = (sql: string) => {
      if (sql.includes("from accounts where number >")) pages++;
      return env.BOOKS.prepare(sql);
    };
    const BOOKS = new Proxy(env.BOOKS, {
      get: (books, name) => (name === "prepare" ? prepare : Reflect.get(books, name)),
    });
    const context = createExecutionContext();
    const answer = await adminApp().app.fetch(
      new Request("http://gateway.test/admin/statements?month=2031-01&format=csv", {
        headers: { authorization: `Bearer ${env.ADMIN_TOKEN}` },
      }),
      { ...env, BOOKS },
      context,
    );
    const reader = answer.body?.getReader();
    expect((await reader?.read())?.done).toBe(false);
    await reader?.cancel();
    await waitOnExecutionContext(context);
    expect(pages).toBeLessThanOrEqual(2);
  });
});

describe("limits", () => {
  it("of account, teams and keys, with what is used, left, and when it frees", async () => {
    const party = await newParty({ rpm_limit: 2, max_budget: 1, budget_duration: "day" }, { tpm_limit: 100 });
    await done("POST", `/accounts/${party.id}/teams`, { name: "t", max_parallel_requests: 3 });
    await party.stub.admit(asked(`${party.id}-a`, 60, party.digest));
    await party.stub.settle(settlement(`${party.id}-a`, 40));
    await party.stub.admit(asked(`${party.id}-b`, 10, party.digest));
    const rows: Json[] = [];
    let cursor = "";
    do {
      const page = await done("GET", `/accounts/${party.id}/limits?limit=1${cursor && `&cursor=${cursor}`}`);
      rows.push(...page.data);
      cursor = page.next_cursor ?? "";
    } while (cursor);
    const used = { spent_usd: 40e-9, last_used_at: new Date(EVE).toISOString() };
    const free = { limit: "free_rpm_limit", allowed: 120, used: 0, left: 120, frees_at: null };
    expect(rows).toEqual([
      {
        level: "account",
        id: party.id,
        name: party.id,
        limits: [
          { limit: "rpm_limit", allowed: 2, used: 2, left: 0, frees_at: new Date(EVE + 61_000).toISOString() },
          {
            limit: "max_budget",
            allowed: 1,
            used: 50e-9,
            left: 0.99999995,
            frees_at: new Date(Date.UTC(2031, 1)).toISOString(),
          },
        ],
        ...used,
      },
      {
        level: "team",
        id: expect.any(String),
        name: "t",
        limits: [{ limit: "max_parallel_requests", allowed: 3, used: 0, left: 3, frees_at: null }],
        spent_usd: 0,
        last_used_at: null,
      },
      {
        level: "key",
        id: party.key.id,
        name: "k",
        limits: [{ limit: "tpm_limit", allowed: 100, used: 50, left: 50, frees_at: null }, free],
        ...used,
      },
    ]);
    expect((await done("GET", `/accounts/${party.id}/limits`)).data).toEqual(rows);
    expect(await done("GET", `/accounts/${party.id}/keys/${party.key.id}`)).toMatchObject(used);
    expect((await done("GET", `/accounts/${party.id}/keys`)).data).toMatchObject([used]);
    for (const bad of ["keys:x", "teams:9999999999999999", "1"]) {
      expect((await call("GET", `/accounts/${party.id}/limits?cursor=${bad}`)).status).toBe(400);
    }
  });

  it("what a key spent and when is not lost by a roll-up or a restart", async () => {
    const party = await newParty();
    for (let n = 0; n < 260; n += 20) {
      const ids = Array.from({ length: 20 }, (_, at) => `${party.id}-${n + at}`);
      await Promise.all(ids.map((id) => party.stub.admit(asked(id, 10, party.digest))));
      tick(20_000);
      await Promise.all(ids.map((id) => party.stub.settle(settlement(id, 10))));
    }
    const used = { spent_usd: 2_600e-9, last_used_at: new Date(nowMs).toISOString() };
    expect(await done("GET", `/accounts/${party.id}/keys/${party.key.id}`)).toMatchObject(used);
    tick(DAY);
    await party.stub.credit({ kind: "top_up", amountNanoUsd: 1, reference: "r", note: null });
    const { evictDurableObject } = await import("cloudflare:test");
    await evictDurableObject(party.stub);
    expect(await done("GET", `/accounts/${party.id}/keys/${party.key.id}`)).toMatchObject(used);
  });
});
