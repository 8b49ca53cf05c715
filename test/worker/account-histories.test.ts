/**
 * Random histories against the real object, beside a model that recomputes everything from a list of calls: whatever
 * happens, both give the same answers (so nothing passes a limit, and nothing is refused that had room), and the books
 * are in order after every step.
 */

import { evictDurableObject } from "cloudflare:test";
import fc from "fast-check";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { BUDGET_DURATIONS, type Limits, NO_LIMITS } from "../../src/core/account/tenant.ts";
import { AccountModel } from "../support/worker/account-model.ts";
import {
  addKey,
  call,
  credit,
  digestOf,
  fakeClock,
  keyId,
  limits,
  lowerable,
  newAccount,
  perToken,
  progress,
  releaseOf,
  request,
  row,
  type Stub,
  settlement,
  teamId,
} from "../support/worker/account-support.ts";
import { HISTORIES, HISTORIES_TIMEOUT_MS } from "../support/worker/histories.ts";
import { manager } from "../support/worker/manager.ts";

let advance: (byMs: number) => void;
beforeEach(() => {
  advance = fakeClock();
  // Usage above holds is what many histories are made of: the object says so in its log.
  vi.spyOn(console, "log").mockImplementation(() => undefined);
});
afterEach(() => {
  vi.restoreAllMocks();
  vi.useRealTimers();
});

/** Three keys of two teams. */
const KEYS = [
  { name: "k", team: "t" },
  { name: "k2", team: "t" },
  { name: "k3", team: "u" },
] as const;
/** What limits and blocks are set on. */
const NAMES = [...KEYS.map(({ name }) => name), "t", "u", "account"];
const HOLD_TTL_MS = 120_000;
const LONGEST_HOLD_MS = 3_600_000;

const someLimits: fc.Arbitrary<Partial<Limits>> = fc.oneof(
  fc.record({ rpm_limit: fc.integer({ min: 0, max: 6 }) }),
  fc.record({ tpm_limit: fc.integer({ min: 0, max: 200 }) }),
  fc.record({ rpd_limit: fc.integer({ min: 0, max: 9 }) }),
  fc.record({ max_parallel_requests: fc.integer({ min: 0, max: 4 }) }),
  fc.record({
    maxBudgetNanoUsd: fc.integer({ min: 0, max: 400 }),
    budgetDuration: fc.constantFrom(...BUDGET_DURATIONS),
  }),
  fc.constant({}),
);

type Step =
  | { do: "admit"; key: number; input: number; cap: number | null; price: number }
  | { do: "settle"; which: number; used: number }
  | { do: "release"; which: number }
  | { do: "renew"; which: number; reported: number | null }
  | { do: "wait"; ms: number }
  | { do: "credit"; amount: number }
  | { do: "limit"; at: number; some: Partial<Limits> }
  | { do: "block"; at: number; blocked: boolean }
  | { do: "end"; at: number }
  | { do: "rotate"; key: number }
  | { do: "plan"; markup: number }
  | { do: "floor"; credit: number }
  | { do: "restart" };

const which = fc.integer({ min: 0, max: 5 });
const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 12,
    arbitrary: fc.record({
      do: fc.constant("admit" as const),
      key: fc.integer({ min: 0, max: 2 }),
      input: fc.integer({ min: 0, max: 60 }),
      cap: fc.option(fc.integer({ min: 1, max: 80 })),
      price: fc.integer({ min: 0, max: 3 }),
    }),
  },
  {
    weight: 6,
    arbitrary: fc.record({ do: fc.constant("settle" as const), which, used: fc.integer({ min: 0, max: 90 }) }),
  },
  { weight: 2, arbitrary: fc.record({ do: fc.constant("release" as const), which }) },
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constant("renew" as const),
      which,
      reported: fc.option(fc.integer({ min: 0, max: 90 })),
    }),
  },
  {
    weight: 5,
    arbitrary: fc.record({
      do: fc.constant("wait" as const),
      ms: fc.constantFrom(1, 400, 1_000, 20_000, 60_000, 61_000, 119_999, 120_000, 600_000, 43_200_000, 86_400_000),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constant("credit" as const),
      amount: fc.integer({ min: -100, max: 300 }).filter(Boolean),
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({ do: fc.constant("limit" as const), at: fc.integer({ min: 0, max: 5 }), some: someLimits }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constant("block" as const),
      at: fc.integer({ min: 0, max: 5 }),
      // Mostly freed again, so that histories go on.
      blocked: fc.constantFrom(true, false, false),
    }),
  },
  {
    weight: 1,
    // Two keys of three and one team of two: one is always left.
    arbitrary: fc.record({ do: fc.constant("end" as const), at: fc.constantFrom(1, 2, 4) }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("rotate" as const), key: fc.integer({ min: 0, max: 2 }) }) },
  {
    weight: 2,
    arbitrary: fc.record({ do: fc.constant("plan" as const), markup: fc.constantFrom(0, 15, 50, 300) }),
  },
  {
    weight: 1,
    arbitrary: fc.record({ do: fc.constant("floor" as const), credit: fc.constantFrom(0, 0, 150, 400) }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("restart" as const) }) },
);

/** One history on an object of its own. */
class History {
  readonly #stub: Stub;
  readonly #model = new AccountModel();
  /** All calls asked for, the newest first. */
  readonly #asked: string[] = [];
  /** The secrets that keys have now. */
  readonly #digests = new Map<string, string>(KEYS.map(({ name }) => [name, name]));
  #made = 0;
  #lowest = 0;

  constructor(stub: Stub) {
    this.#stub = stub;
  }

  async run(step: Step): Promise<void> {
    const [said, expected] = await this.#both(step);
    expect(said).toBe(expected);
    await this.#check();
  }

  /** What the object answers and what the model does. */
  async #both(step: Step): Promise<[string, string]> {
    const model = this.#model;
    switch (step.do) {
      case "admit":
        return this.#admit(step);
      case "settle": {
        const id = this.#asked[step.which] ?? "nobody";
        const end = await this.#stub.settle(settlement(id, step.used));
        return [`${end.state} ${end.chargedNanoUsd}`, model.settle(id, step.used, Date.now())];
      }
      case "release": {
        const id = this.#asked[step.which] ?? "nobody";
        const end = await this.#stub.release(releaseOf(id));
        return [`${end.state} ${end.chargedNanoUsd}`, model.release(id, Date.now())];
      }
      case "renew": {
        const id = this.#asked[step.which] ?? "nobody";
        const { reported } = step;
        const lives = await this.#stub.renew(call(id), reported === null ? null : progress(reported));
        return [lives ? "live" : "ended", model.renew(id, reported, Date.now(), HOLD_TTL_MS, LONGEST_HOLD_MS)];
      }
      case "credit": {
        const outcome = await credit(this.#stub, step.amount, `r${++this.#made}`);
        return [String(outcome?.kind), model.credit(step.amount)];
      }
      case "limit":
        await this.#limit(step.at, step.some);
        return ["", ""];
      case "block":
        await this.#amend(step.at, { blocked: step.blocked });
        if (step.blocked) model.blocked.add(NAMES[step.at]!);
        else model.blocked.delete(NAMES[step.at]!);
        return ["", ""];
      case "end":
        if (step.at < KEYS.length) await manager(this.#stub).revokeKey(keyId(NAMES[step.at]!));
        else await manager(this.#stub).deleteTeam(teamId(NAMES[step.at]!));
        model.gone.add(NAMES[step.at]!);
        return ["", ""];
      case "rotate":
        return this.#rotate(KEYS[step.key]!.name);
      case "plan":
        await this.#stub.amend({ plan: { markupPercent: step.markup, overrides: {} } });
        model.markup = step.markup;
        return ["", ""];
      case "floor":
        await this.#stub.amend({ billsMonthly: step.credit > 0, creditLimitNanoUsd: step.credit });
        model.floor = 0 - step.credit;
        this.#lowest = Math.min(this.#lowest, model.floor);
        return ["", ""];
      case "wait":
        advance(step.ms);
        return ["", ""];
      case "restart":
        await evictDurableObject(this.#stub);
        return ["", ""];
    }
  }

  async #admit({ key, input, cap, price }: Step & { do: "admit" }): Promise<[string, string]> {
    const { name, team } = KEYS[key]!;
    const id = `call${this.#asked.length}`;
    this.#asked.unshift(id);
    const admission = await this.#stub.admit(
      request(id, input, {
        keyDigest: digestOf(this.#digests.get(name) ?? name),
        // At no price it must be marked free.
        row: row({ costNanoUsd: perToken(price), free: price === 0 }),
        bound: cap === null ? { fixed: { input_tokens: input } } : lowerable(input, cap),
      }),
    );
    const expected = this.#model.admit({ id, key: name, team, input, cap, price }, Date.now(), HOLD_TTL_MS);
    if (admission.ok) return [`ok ${admission.hold.amountNanoUsd} ${admission.hold.outputCap ?? null}`, expected];
    const { refusal } = admission;
    if (refusal.kind === "rate_limit") return [`${refusal.level} ${refusal.limit}`, expected];
    return [refusal.kind === "budget_spent" ? `${refusal.level} budget` : refusal.kind, expected];
  }

  async #limit(at: number, some: Partial<Limits>): Promise<void> {
    const chosen: Limits = { ...NO_LIMITS, ...some };
    await this.#amend(at, { limits: chosen });
    this.#model.limits.set(NAMES[at]!, chosen);
  }

  async #amend(at: number, changes: { limits?: Limits; blocked?: boolean }): Promise<void> {
    const name = NAMES[at]!;
    if (name === "account") await this.#stub.amend(changes);
    else if (at < KEYS.length) await manager(this.#stub).amendKey(keyId(name), changes);
    else await manager(this.#stub).amendTeam(teamId(name), changes);
  }

  /** The old secret is refused from now on, whatever the key is. */
  async #rotate(name: string): Promise<[string, string]> {
    const old = this.#digests.get(name) ?? name;
    const fresh = `${name}-${++this.#made}`;
    const rotated = await manager(this.#stub).rotateKey(keyId(name), digestOf(fresh), "last", 0);
    if (!rotated) return ["revoked", this.#model.gone.has(name) ? "revoked" : "live"];
    this.#digests.set(name, fresh);
    const permission = await this.#stub.authorize(digestOf(old));
    return [permission.ok ? "ok" : permission.refusal.kind, "bad_key"];
  }

  async #check(): Promise<void> {
    this.#model.expire(Date.now());
    const balance = this.#model.balance;
    const held = this.#model.held();
    expect(await this.#stub.audit()).toMatchObject({
      problems: [],
      entriesNanoUsd: balance,
      balanceNanoUsd: balance,
      heldNanoUsd: held,
      operatorLossNanoUsd: this.#model.lost(),
    });
    expect(balance - held).toBeGreaterThanOrEqual(this.#lowest);
  }
}

it(
  "whatever happens, in whatever order, the object answers as the plain model does and its books are in order",
  async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 5, maxLength: 60, size: "max" }), async (steps) => {
        const { stub } = await newAccount({ team: {} });
        await manager(stub).createTeam(teamId("u"), { name: "u", blocked: false, limits: NO_LIMITS });
        for (const { name, team } of KEYS.slice(1))
          await addKey(stub, name, { team: teamId(team), limits: limits({}) });
        const history = new History(stub);
        await history.run({ do: "credit", amount: 2_000 });
        for (const each of steps) await history.run(each);
      }),
      HISTORIES,
    );
  },
  HISTORIES_TIMEOUT_MS,
);
