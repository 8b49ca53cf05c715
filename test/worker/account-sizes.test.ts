/** Accounts with a great many rows, or very large ones: lists come in pages, and long reads let calls pass. */

import { evictDurableObject } from "cloudflare:test";
import { beforeEach, describe, expect, it, vi } from "vitest";
import { NO_LIMITS } from "../../src/core/account/tenant.ts";
import {
  addKey,
  credit,
  expectSound,
  newAccount,
  request,
  rows,
  settlement,
  teamId,
} from "../support/worker/account-support.ts";
import { IN_FULL } from "../support/worker/in-full.ts";
import { manager } from "../support/worker/manager.ts";

beforeEach(() => {
  vi.useRealTimers();
});

/** Numbers from 1 on, as a table. */
const numbers = (count: number) =>
  `(WITH RECURSIVE n(value) AS (VALUES (1) UNION ALL SELECT value + 1 FROM n LIMIT ${count}) SELECT value FROM n)`;

async function allPages<T>(
  read: (cursor: string | null) => Promise<{ data: readonly T[]; nextCursor: string | null } | undefined>,
) {
  const pages: (readonly T[])[] = [];
  for (let cursor: string | null = null; ; ) {
    const page = await read(cursor);
    if (!page) throw new Error("no such account");
    pages.push(page.data);
    cursor = page.nextCursor;
    if (cursor === null) return pages;
  }
}

const KEYS = IN_FULL ? 200 : 50;

describe("lists", () => {
  it("keys of 0.6 MB, as they could once be made, come in pages of about a megabyte", async () => {
    const { stub } = await newAccount({ balance: 100 });
    await rows(
      stub,
      `INSERT INTO keys (id, last_four, fields, created_at_ms)
       SELECT 'big' || value, 'xxxx', json_set(fields, '$.metadata.note', hex(zeroblob(300000))), value
       FROM ${numbers(KEYS)} JOIN keys`,
    );
    const pages = await allPages((cursor) => stub.keys({ cursor, limit: 1_000 }));
    expect(pages.flat()).toHaveLength(KEYS + 1);
    expect(Math.max(...pages.map((page) => JSON.stringify(page).length))).toBeLessThan(2_000_000);
    expect(new Set(pages.flat().map(({ id }) => id)).size).toBe(KEYS + 1);
    expect(await stub.admit(request("c1", 5))).toMatchObject({ ok: true });
  });

  it("a row of any size is given, alone", async () => {
    const { stub } = await newAccount();
    await rows(stub, "UPDATE keys SET fields = json_set(fields, '$.metadata.note', hex(zeroblob(900000)))");
    await addKey(stub, "k2");
    const pages = await allPages((cursor) => stub.keys({ cursor, limit: 1_000 }));
    expect(pages.map((page) => page.length)).toEqual([1, 1]);
  });

  it("the ledger's notes count too", async () => {
    const { stub } = await newAccount();
    for (let index = 0; index < 5; index++) await credit(stub, 1, `${index}${"x".repeat(400_000)}`);
    const pages = await allPages((cursor) => stub.entries({ cursor, limit: 1_000 }));
    expect(pages.map((page) => page.length)).toEqual([2, 2, 1]);
  });

  it("a team's keys are found though the others are many", async () => {
    const { stub } = await newAccount({ team: {} });
    await manager(stub).createTeam(teamId("u"), { name: "u", blocked: false, limits: NO_LIMITS });
    for (let index = 0; index < 30; index++) await addKey(stub, `o${index}`, { team: teamId("u") });
    await addKey(stub, "mine", { team: teamId("t") });
    const pages = await allPages((cursor) => stub.keys({ cursor, limit: 1 }, teamId("t")));
    expect(pages.flat().map(({ id }) => id)).toEqual(["key-k", "key-mine"]);
    const plan = await rows(
      stub,
      "EXPLAIN QUERY PLAN SELECT seq FROM keys WHERE revoked_at_ms IS NULL AND seq > 0 AND team = 'x' ORDER BY seq",
    );
    expect(JSON.stringify(plan)).toContain("keys_of_team");
  });
});

describe("the audit of a long ledger", () => {
  it("lets calls pass between its slices, and counts what they add", async () => {
    const { stub } = await newAccount({ balance: 1_000_000 });
    await rows(
      stub,
      `INSERT INTO entries (id, kind, amount_nano_usd, balance_nano_usd, at_ms, reference)
       SELECT 1 + value, 'top_up', 1, 1000000 + value, 0, 'r' || value FROM ${numbers(300_000)}`,
    );
    await rows(
      stub,
      `INSERT INTO operator_book (call_id, kind, amount_nano_usd, estimated, at_ms)
       SELECT 'x' || value, 'operator_loss', 1, 0, 0 FROM ${numbers(20_000)}`,
    );
    await rows(
      stub,
      `INSERT INTO holds (call_id, seq, state, due_ms, key_id, endpoint, model, amount_nano_usd, counted_tokens, prices,
         price_rule, started_at_ms, admitted_at_ms)
       SELECT 'old' || value, 0, 'released', ${Date.now() + 80_000_000}, 'key-k', 'e', 'm', 0, 0, '{}', '', 0, 0 FROM ${numbers(20_000)}`,
    );
    await evictDurableObject(stub);
    await stub.describe();
    let over = false;
    let passed = 0;
    const audited = stub.audit().finally(() => {
      over = true;
    });
    while (!over) {
      const id = `c${passed}`;
      await stub.admit(request(id, 5));
      await stub.settle(settlement(id, 1, { lostTries: passed < 2 ? 1 : 0 }));
      if (!over) passed++;
    }
    const audit = await audited;
    expect(passed).toBeGreaterThan(5);
    expect(audit?.problems).toEqual([]);
    expect(audit?.operatorLossNanoUsd).toBe(20_010);
    expect(await stub.audit()).toMatchObject({ ok: true, operatorLossNanoUsd: 20_010 });
    await expectSound(stub);
  });

  it.each<[string, string]>([
    ["an entry in the middle", "UPDATE entries SET amount_nano_usd = 2 WHERE id = 15000"],
    ["the last balance of a slice", "UPDATE entries SET balance_nano_usd = 5 WHERE id = 10000"],
    ["a hold far down", "UPDATE holds SET charged_nano_usd = 1, amount_nano_usd = 1 WHERE call_id = 'old7000'"],
  ])("finds %s", async (_, tamper) => {
    const { stub } = await newAccount({ balance: 1_000_000 });
    await rows(
      stub,
      `INSERT INTO entries (id, kind, amount_nano_usd, balance_nano_usd, at_ms, reference)
       SELECT 1 + value, 'top_up', 1, 1000000 + value, 0, 'r' || value FROM ${numbers(25_000)}`,
    );
    await rows(
      stub,
      `INSERT INTO holds (call_id, seq, state, due_ms, key_id, endpoint, model, amount_nano_usd, counted_tokens, prices,
         price_rule, started_at_ms, admitted_at_ms)
       SELECT 'old' || value, 0, 'released', ${Date.now() + 80_000_000}, 'key-k', 'e', 'm', 0, 0, '{}', '', 0, 0 FROM ${numbers(9_000)}`,
    );
    await evictDurableObject(stub);
    await expectSound(stub);
    await rows(stub, tamper);
    expect((await stub.audit())?.problems.length).toBeGreaterThan(0);
  });
});
