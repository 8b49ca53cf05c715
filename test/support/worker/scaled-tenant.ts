/**
 * A tenant whose calls stand for many each, with an archive, and what its books must say: summed here, call by call,
 * from what was asked to be charged.
 */
import { runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { expect, vi } from "vitest";
import { timedCallId } from "../../../src/core/account/call-time.ts";
import type { DetailLimits } from "../../../src/core/archive/cut.ts";
import type { KeyDigest, KeyId } from "../../../src/core/ids.ts";
import { readSecrets } from "../../../src/platform/secrets.ts";
import { type FakeQueue, fakeQueue, request, row, rows, type Stub, settlement } from "./account-support.ts";
import { withArchive } from "./archive.ts";
import { done, type Json, send } from "./operator.ts";

const MODELS = ["small", "medium", "large"];
const monthOf = (ms: number): string => new Date(ms).toISOString().slice(0, 7);

/** What a month's statement and the budgets of its window must say. */
interface Month {
  opening: number;
  credits: number;
  charged: Map<string, { calls: number; nanoUsd: number }>;
  byKey: number[];
}

export class ScaledTenant {
  readonly id: string;
  readonly stub: Stub;
  readonly months = new Map<string, Month>();
  readonly #keys: readonly { id: KeyId; digest: KeyDigest }[];
  readonly #limits: DetailLimits;
  readonly #queue: FakeQueue = { messages: [], failures: 0 };
  #calls = 0;
  #credits = 0;
  #balance = 0;

  private constructor(id: string, stub: Stub, keys: readonly { id: KeyId; digest: KeyDigest }[], limits: DetailLimits) {
    this.id = id;
    this.stub = stub;
    this.#keys = keys;
    this.#limits = limits;
  }

  static async open(id: string, limits: DetailLimits): Promise<ScaledTenant> {
    const { number } = await done("POST", "/accounts", { id, name: id });
    const opened = await readSecrets(env);
    if (!opened.ok) throw new Error(opened.fault.message);
    const keys: { id: KeyId; digest: KeyDigest }[] = [];
    for (const name of ["one", "two"]) {
      const made = await done("POST", `/accounts/${id}/keys`, { name, max_budget: 1_000, budget_duration: "month" });
      keys.push({ id: made.id, digest: await opened.secrets.digestOf(made.key) });
    }
    return new ScaledTenant(id, env.ACCOUNTS.getByName(String(number)) as Stub, keys, limits);
  }

  /** Its queue and its archive, also where it slept: an object sleeps after some seconds of real time. */
  async #wake(): Promise<void> {
    await fakeQueue(this.stub, this.#queue);
    await withArchive(this.stub, env.TEST_ARCHIVE, this.#limits);
  }

  get calls(): number {
    return this.#calls;
  }

  async credit(nanoUsd: number): Promise<void> {
    await this.#wake();
    this.#month().credits += nanoUsd;
    this.#balance += nanoUsd;
    const kind = nanoUsd > 0 ? "top_up" : "correction";
    await this.stub.credit({ kind, amountNanoUsd: nanoUsd, reference: `r-${++this.#credits}`, note: null });
  }

  /** So many calls, spread over a span; the clock stands at its end then. */
  async call(count: number, fromMs: number, spanMs: number): Promise<void> {
    await this.#wake();
    await runInDurableObject(this.stub, async (object) => {
      for (let index = 0; index < count; index++) {
        vi.setSystemTime(fromMs + Math.floor((index * spanMs) / count));
        const nanoUsd = 1 + ((++this.#calls * 7_919) % 99_991);
        const [model = "", key] = [MODELS[this.#calls % 3], this.#calls % 2];
        const callId = timedCallId(crypto.randomUUID(), Date.now());
        const keyDigest = this.#keys[key]?.digest as KeyDigest;
        await object.admit(request(callId, 100_000, { keyDigest, model, row: row({ model }) }));
        const told = await object.settle(settlement(callId, nanoUsd));
        if (!("chargedNanoUsd" in told) || told.chargedNanoUsd !== nanoUsd) throw new Error(JSON.stringify(told));
        this.#charged(model, key, nanoUsd);
      }
    });
    vi.setSystemTime(fromMs + spanMs);
  }

  /** Alarms until the object has nothing to do now. Gives what it sent to the queue. */
  async quiet(): Promise<FakeQueue["messages"]> {
    await this.#wake();
    for (let count = 0; count < 100; count++) {
      const atMs = await runInDurableObject(this.stub, (_, { storage }) => storage.getAlarm());
      if (atMs === null || atMs > Date.now() + 2_000) return this.#queue.messages.splice(0);
      await runDurableObjectAlarm(this.stub);
      vi.setSystemTime(Date.now() + 1_000);
    }
    throw new Error("the alarm finds no end");
  }

  /** Charges in the object, charges that left it, and when the oldest one there was booked. */
  async detail(): Promise<{ lines: number; folded: number; oldestMs: number | null }> {
    const [found] = await rows(
      this.stub,
      `SELECT count(*) AS lines, min(at_ms) AS oldestMs,
         (SELECT coalesce(sum(folded_lines), 0) FROM parts) AS folded FROM entries WHERE kind = 'charge'`,
    );
    return found as { lines: number; folded: number; oldestMs: number | null };
  }

  /** Balance, budgets, what keys spent and the month's span, as the object says them: exactly what was booked. */
  async expectMoney(): Promise<void> {
    const now = this.#month();
    const toMs = Date.UTC(new Date().getUTCFullYear(), new Date().getUTCMonth() + 1);
    const fromMs = Date.UTC(new Date().getUTCFullYear(), new Date().getUTCMonth());
    const keys = this.#keys.map(({ id }) => id);
    const said = await runInDurableObject(this.stub, async (object) => ({
      span: await object.view("span", { fromMs, toMs }),
      used: await object.view("used", { keys }),
      limits: await object.view("limits", { cursor: null, limit: 100 }),
    }));
    const all = [...this.months.values()];
    expect({
      opening: said.span?.openingNanoUsd,
      closing: said.span?.closingNanoUsd,
      credits: said.span?.creditsNanoUsd,
      used: said.used?.map(({ spentNanoUsd }) => spentNanoUsd),
      budgets: said.limits?.data.flatMap(({ limits }) =>
        limits.flatMap(({ limit, used }) => (limit === "max_budget" ? [used] : [])),
      ),
    }).toEqual({
      opening: now.opening,
      closing: this.#balance,
      credits: BigInt(now.credits),
      used: [0, 1].map((key) => all.reduce((sum, { byKey }) => sum + (byKey[key] ?? 0), 0)),
      budgets: now.byKey,
    });
  }

  /** The audit, and the statement of each month, of an account that is at rest. */
  async expectStatements(): Promise<void> {
    expect(await this.#read(`/audit/${this.id}`)).toMatchObject({ ok: true, problems: [] });
    for (const [month, { opening, credits, charged }] of this.months) {
      const said = await this.#read(`/accounts/${this.id}/statement?month=${month}`);
      const sum = [...charged.values()].reduce((all, { nanoUsd }) => all + nanoUsd, 0);
      const usd = (nanoUsd: number) => nanoUsd / 1e9;
      expect(said).toMatchObject({
        opening_usd: usd(opening),
        credits_usd: usd(credits),
        charges_usd: usd(sum),
        closing_usd: usd(opening + credits - sum),
        unreported_usd: 0,
      });
      const byModel = new Map(said.charges.map(({ model, ...rest }: Json) => [model, rest]));
      expect(byModel).toEqual(
        new Map([...charged].map(([model, { calls, nanoUsd }]) => [model, { calls, charged_usd: usd(nanoUsd) }])),
      );
    }
  }

  /** Each call of a closed month is in both exports, once, and their sums are the month's. */
  async expectExports(month: string): Promise<void> {
    const { charged = new Map<string, { calls: number; nanoUsd: number }>() } = this.months.get(month) ?? {};
    const sums = [...charged.values()];
    const calls = sums.reduce((all, one) => all + one.calls, 0);
    const nanoUsd = sums.reduce((all, one) => all + one.nanoUsd, 0);
    for (const [kind, id, amount] of [
      ["ledger", "call", "nano_usd"],
      ["calls", "event_id", "price_nano_usd"],
    ] as const) {
      const { text } = await this.#ask(`/export?kind=${kind}&account=${this.id}&month=${month}`);
      const lines = text
        .trimEnd()
        .split("\n")
        .map((line) => JSON.parse(line) as Json)
        .filter((line) => kind === "calls" || line.kind === "charge");
      expect(new Set(lines.map((line) => line[id])).size).toBe(calls);
      expect(lines.length).toBe(calls);
      expect(Math.abs(lines.reduce((all, line) => all + line[amount], 0))).toBe(nanoUsd);
    }
  }

  #charged(model: string, key: number, nanoUsd: number): void {
    const { charged, byKey } = this.#month();
    const { calls = 0, nanoUsd: before = 0 } = charged.get(model) ?? {};
    charged.set(model, { calls: calls + 1, nanoUsd: before + nanoUsd });
    byKey[key] = (byKey[key] ?? 0) + nanoUsd;
    this.#balance -= nanoUsd;
  }

  #month(): Month {
    const name = monthOf(Date.now());
    const month = this.months.get(name) ?? { opening: this.#balance, credits: 0, charged: new Map(), byKey: [0, 0] };
    this.months.set(name, month);
    return month;
  }

  async #read(path: string): Promise<Json> {
    const answer = await this.#ask(path);
    expect(answer.status, answer.text).toBe(200);
    return answer.body;
  }

  #ask(path: string) {
    const headers = { authorization: `Bearer ${env.ADMIN_TOKEN}` };
    return send(new Request(`http://gateway.test/admin${path}`, { headers }), { ARCHIVE: env.TEST_ARCHIVE });
  }
}
