/** Refused calls of known keys: explained by their id, counted by minute, and cheap however many there are. */
import { runDurableObjectAlarm } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterAll, afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { AdmitRequest } from "../../src/core/account/hold.ts";
import { asId, type CallId } from "../../src/core/ids.ts";
import { pruneRefused } from "../../src/platform/d1/refused-calls.ts";
import {
  addKey,
  credit,
  digestOf,
  fakeClock,
  fakeQueue,
  keyId,
  limits,
  type newAccount,
  request,
  type Stub,
  settlement,
} from "../support/worker/account-support.ts";
import { manager } from "../support/worker/manager.ts";
import { done, type Json, settled } from "../support/worker/operator.ts";
import { count, deliver, emptyUsage } from "../support/worker/usage-support.ts";

beforeEach(emptyUsage);
afterEach(() => vi.useRealTimers());
afterAll(settled);

const calls = async (query = ""): Promise<Json[]> => (await done("GET", `/calls?${query}`)).data;
const ids = (rows: Json[]): string[] => rows.map(({ id }) => id);

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

describe("refused calls", () => {
  /** What the object has for its queue within the next minute. */
  async function shipped(stub: Stub): Promise<Json[]> {
    const queue = await fakeQueue(stub);
    for (let round = 0; round < 12; round++) {
      tick(5_000);
      await runDurableObjectAlarm(stub);
    }
    const messages = queue.messages as Json[];
    await deliver([...messages, ...messages]);
    return messages.filter((one) => "refused" in one);
  }
  const refuse = async (stub: Stub, id: string, some: Partial<AdmitRequest> = {}) =>
    expect((await stub.admit(request(id, 1, some))).ok).toBe(false);
  let tick: (byMs: number) => void;
  let nth = 0;
  beforeEach(() => {
    tick = fakeClock();
  });
  async function opened(some: Parameters<typeof newAccount>[0]): Promise<{ stub: Stub; account: string }> {
    const { id, number } = await done("POST", "/accounts", { id: `refused-${++nth}`, name: "refused" });
    const stub = env.ACCOUNTS.getByName(String(number)) as Stub;
    await stub.amend({ limits: some?.account?.limits ?? {} });
    if (some?.balance) await credit(stub, some.balance, "first");
    await addKey(stub, "k", some?.key);
    return { stub, account: id };
  }

  it("are explained from their request id alone: level, limit, used, allowed, and when it frees", async () => {
    const { stub, account } = await opened({ balance: 100, account: { limits: limits({ rpm_limit: 1 }) } });
    await stub.admit(request(`${account}-1`));
    await stub.settle(settlement(`${account}-1`, 1));
    await refuse(stub, `${account}-2`);
    const freesAt = new Date(Math.floor(Date.now() / 1000) * 1000 + 61_000).toISOString();
    await shipped(stub);
    const met = { level: "account", id: account, limit: "rpm_limit", used: 1, allowed: 1, frees_at: freesAt };
    const wanted = { outcome: "refused", status: 429, reason: "rate_limit", model: "m", charged_usd: 0, refusal: met };
    expect(await done("GET", `/calls/${account}-2`)).toMatchObject({ ...wanted, proof: null });
    expect(await calls(`account=${account}&outcome=refused`)).toMatchObject([wanted]);
    expect(ids(await calls(`account=${account}`))).toEqual([`${account}-1`, `${account}-2`].reverse());
    expect(await pages(`account=${account}`, 1)).toHaveLength(2);
  });

  it("for want of money, of a dead key, and before admission too; of an unknown key never", async () => {
    const { stub, account } = await opened({ key: { models: ["m"] } });
    await refuse(stub, `${account}-1`);
    await refuse(stub, `${account}-2`, { model: "other" });
    await refuse(stub, `${account}-3`, { keyDigest: digestOf("nobody") });
    const about = { callId: asId<CallId>(`${account}-4`), endpoint: "chat.completions", startedAtMs: Date.now() };
    await stub.authorize(digestOf("k"), undefined, {
      ...about,
      refused: { reason: "invalid_request", status: 400, param: "messages" },
    });
    await manager(stub).revokeKey(keyId("k"));
    await refuse(stub, `${account}-5`);
    await shipped(stub);
    const found = (await calls(`account=${account}`)).map(({ id, status, reason, refusal: met }) => [
      id,
      status,
      reason,
      met?.limit,
    ]);
    expect(await done("GET", `/calls/${account}-4`)).toMatchObject({ param: "messages", refusal: null, model: null });
    expect(found.reverse()).toEqual([
      [`${account}-1`, 402, "no_credit", "balance"],
      [`${account}-2`, 403, "model_not_allowed", undefined],
      [`${account}-4`, 400, "invalid_request", undefined],
      [`${account}-5`, 401, "key_revoked", undefined],
    ]);
  });

  it("come in one message every few seconds however many they are: ten a second are kept, all are counted, once", async () => {
    const { stub, account } = await opened({ balance: 100, account: { limits: limits({ rpm_limit: 0 }) } });
    for (let n = 0; n < 300; n++) {
      if (n % 100 === 0) tick(1_000);
      await refuse(stub, `${account}-${n}`);
    }
    const messages = await shipped(stub);
    expect(messages.length).toBeLessThanOrEqual(2);
    expect(await count("refusal_minutes")).toBeLessThanOrEqual(2);
    expect(await calls(`account=${account}&limit=500`)).toHaveLength(30);
    const sums: Json[] = (await done("GET", `/accounts/${account}/refusals`)).data;
    expect(sums.reduce((sum, one) => sum + one.refusals, 0)).toBe(300);
    expect(sums[0]).toMatchObject({ key: keyId("k"), level: "account", limit: "rpm_limit", reason: "rate_limit" });
    expect((await done("GET", `/usage?account=${account}`)).data).toMatchObject([{ calls: 0 }]);
  });

  it("that the queue did not take go again under the same id", async () => {
    const { stub, account } = await opened({});
    await refuse(stub, `${account}-1`);
    const queue = await fakeQueue(stub);
    queue.failures = 2;
    for (let round = 0; round < 6; round++) {
      tick(6_000);
      await runDurableObjectAlarm(stub);
    }
    expect(queue.messages.filter((message) => "refused" in message)).toHaveLength(1);
  });

  it("survive a change of the object that fails, and a clock that is set back", async () => {
    const { stub, account } = await opened({});
    await refuse(stub, `${account}-1`);
    await expect(stub.settle({ ...settlement(`${account}-1`, 1), reading: null } as never)).rejects.toThrow();
    tick(-3_600_000);
    await refuse(stub, `${account}-2`);
    await shipped(stub);
    expect(await calls(`account=${account}`)).toHaveLength(2);
  });

  it("fill no database: of each account, and of all, the newest stay", async () => {
    const rows = (account: string) =>
      env.BOOKS.prepare(
        `with recursive n (n) as (select 1 union all select n + 1 from n where n < 10)
         insert into refused_calls (account, call_id, at_ms, started_ms, key, endpoint, status, reason)
         select ?1, ?1 || n, n, n, 'k', 'chat.completions', 429, 'rate_limit' from n`,
      ).bind(account);
    await env.BOOKS.batch([rows("a"), rows("b"), rows("c")]);
    const prune = (most: { ofAccount: number; inAll: number }) =>
      pruneRefused(env.BOOKS, { beforeMs: 3, nowMs: 10, atOnce: 5, most });
    await prune({ ofAccount: 100, inAll: 100 });
    expect(await count("refused_calls")).toBe(25);
    await prune({ ofAccount: 100, inAll: 100 });
    expect(await count("refused_calls")).toBe(24);
    await prune({ ofAccount: 6, inAll: 100 });
    expect(await count("refused_calls")).toBe(18);
    await prune({ ofAccount: 6, inAll: 15 });
    const left = await env.BOOKS.prepare("select min(at_ms) as first, count(*) as rows from refused_calls").first();
    expect(left).toEqual({ first: 6, rows: 15 });
  });
});
