/** Accounts, keys and calls for the tests of the account object; what a test does not name is a harmless default. */

import { evictDurableObject, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, beforeEach, expect, vi } from "vitest";
import type { CallAccess } from "../../../src/core/account/call-access.ts";
import type { FreeCall, FreeReach } from "../../../src/core/account/free-calls.ts";
import type {
  AdmitRequest,
  Bound,
  Progress,
  Release,
  Settlement,
  UsageMessage,
} from "../../../src/core/account/hold.ts";
import {
  type AccountFields,
  type KeyFields,
  type Limits,
  NEW_KEY,
  NO_LIMITS,
  type TeamFields,
} from "../../../src/core/account/tenant.ts";
import {
  type AccountId,
  type AccountNumber,
  asId,
  type CallId,
  type KeyDigest,
  type KeyId,
  type TeamId,
} from "../../../src/core/ids.ts";
import type { OwnedRef } from "../../../src/core/owned.ts";
import { type ModelRow, NO_PLAN, type UnitPrices } from "../../../src/core/pricing/prices.ts";
import type { Usage } from "../../../src/core/pricing/usage.ts";
import { manager } from "./manager.ts";

export const call = (id: string) => asId<CallId>(id);
export const digestOf = (name: string) => asId<KeyDigest>(`digest-${name}`);
export const keyId = (name: string) => asId<KeyId>(`key-${name}`);
export const teamId = (name: string) => asId<TeamId>(`team-${name}`);

const ACCOUNT: AccountFields = {
  name: "Tenant",
  blocked: false,
  billsMonthly: false,
  creditLimitNanoUsd: 0,
  computeEnabled: true,
  computeUpstream: null,
  storageGraceDays: 7,
  onDisconnect: "cancel",
  plan: NO_PLAN,
  nextPlan: null,
  limits: NO_LIMITS,
};
const KEY: KeyFields = { ...NEW_KEY, name: "key" };

/** What most rows ask of a key. */
export const INFERENCE: CallAccess = { scope: "inference", role: "member" };

/** What a free call asks for. */
export const freeCall = (reach: FreeReach, owned: readonly OwnedRef[] = []): FreeCall => ({
  owned,
  access: INFERENCE,
  reach,
});

export const limits = (some: Partial<Limits>): Limits => ({ ...NO_LIMITS, ...some });

/** Goes on from file to file; accounts that the operator makes have far higher numbers (setup.ts). */
let accounts = 0;

/** The object of a number of its own; nothing is opened. */
export function newObject() {
  const number = asId<AccountNumber>(++accounts);
  const stub = env.ACCOUNTS.get(env.ACCOUNTS.idFromName(String(number)));
  return { number, stub };
}
export type Stub = ReturnType<typeof newObject>["stub"];

/** An open account with a balance (nano-USD) and a key named `k`. */
export async function newAccount(
  options: {
    balance?: number;
    account?: Partial<AccountFields>;
    key?: Partial<KeyFields>;
    team?: Partial<TeamFields>;
  } = {},
) {
  const { number, stub } = newObject();
  await stub.open(asId<AccountId>(`acc-${number}`), number, { ...ACCOUNT, ...options.account });
  if (options.balance) await credit(stub, options.balance, "first");
  const team = options.team ? teamId("t") : null;
  if (team) await manager(stub).createTeam(team, { name: "team", blocked: false, limits: NO_LIMITS, ...options.team });
  await addKey(stub, "k", { team, ...options.key });
  await hush(stub);
  return { number, stub };
}

/** Forgets what was told of making the account, so that tests count what they do themselves. */
async function hush(stub: Stub): Promise<void> {
  await runInDurableObject(stub, async (_, { storage }) => {
    storage.sql.exec("DELETE FROM outbox");
    await storage.deleteAlarm();
  });
  await evictDurableObject(stub);
}

export const credit = (stub: Stub, amountNanoUsd: number, reference: string) =>
  stub.credit({ kind: amountNanoUsd > 0 ? "top_up" : "correction", amountNanoUsd, reference, note: null });

export const addKey = (stub: Stub, name: string, fields: Partial<KeyFields> = {}) =>
  manager(stub).createKey(keyId(name), digestOf(name), name.slice(-4), { ...KEY, ...fields });

/** A model at one nano-USD per token, in and out. */
export const row = (some: Partial<ModelRow> = {}): ModelRow => ({
  model: "m",
  kind: "chat",
  fromMs: 0,
  costNanoUsd: perToken(1),
  priceNanoUsd: {},
  free: false,
  ...some,
});
export const perToken = (nanoUsd: number): UnitPrices => ({
  input_tokens: nanoUsd * 1_000_000,
  output_tokens: nanoUsd * 1_000_000,
});

/** A call that may use `tokens` of input; with `perToken(1)` it holds as many nano-USD. */
export function request(id: string, tokens = 1, some: Partial<AdmitRequest> = {}): AdmitRequest {
  return {
    callId: call(id),
    keyDigest: digestOf("k"),
    endpoint: "chat.completions",
    access: INFERENCE,
    limits: [],
    model: "m",
    alias: null,
    row: row(),
    bound: { fixed: { input_tokens: tokens } },
    owned: [],
    startedAtMs: Date.now(),
    ...some,
  };
}

/** A bound whose output cap admission may lower. */
export const lowerable = (input: number, cap: number, choices = 1): Bound => ({
  fixed: { input_tokens: input },
  output: { cap, choices, lowerable: true },
});

export function settlement(id: string, usage: Usage | number = 0, some: Partial<Settlement> = {}): Settlement {
  return {
    callId: call(id),
    outcome: "completed",
    status: 200,
    reading: { source: "exact", usage: typeof usage === "number" ? { input_tokens: usage } : usage },
    servedBy: { upstream: "u1", model: "m", region: "eu" },
    costNanoUsd: 0,
    latencyMs: 5,
    firstByteMs: 2,
    lostTries: 0,
    ...some,
  };
}

/** What a renewal carries of a call that came to so many input tokens. */
export const progress = (tokens: number, some: Partial<Progress> = {}): Progress => ({
  reading: { source: "own_count", usage: { input_tokens: tokens } },
  servedBy: { upstream: "u1", model: "m", region: "eu" },
  costNanoUsd: 0,
  ...some,
});

export const releaseOf = (id: string, lostTries = 0): Release => ({
  callId: call(id),
  status: 503,
  reason: "no_healthy_upstream",
  lostTries,
  servedBy: null,
  latencyMs: 3,
});

/** Rows of a query inside the object. */
export const rows = (stub: Stub, query: string, ...bindings: unknown[]) =>
  runInDurableObject(stub, (_, state) => state.storage.sql.exec(query, ...bindings).toArray());

/** What the object handed to its queue. Tests decide whether the queue takes it. */
export interface FakeQueue {
  readonly messages: UsageMessage[];
  /** Set: `send` throws that many times. */
  failures: number;
}

/** Puts a queue of the test's own into the object; lost when the object is evicted. `queue`: put in again. */
export async function fakeQueue(stub: Stub, queue: FakeQueue = { messages: [], failures: 0 }): Promise<FakeQueue> {
  const send = async (message: UsageMessage) => {
    if (queue.failures > 0) {
      queue.failures--;
      throw new Error("queue is down");
    }
    queue.messages.push(message);
  };
  await runInDurableObject(stub, (instance) => {
    Object.assign(instance, { env: { ...env, USAGE: { send } } });
  });
  return queue;
}

/** Makes the object's SQL throw where `fails` says so, until the function given back is called. */
export async function breakStorage(stub: Stub, fails: (query: string) => boolean): Promise<() => Promise<void>> {
  await runInDurableObject(stub, (_, { storage: { sql } }) => {
    const exec = sql.exec;
    Object.defineProperty(sql, "exec", {
      configurable: true,
      value: (query: string, ...bindings: unknown[]) => {
        if (fails(query)) throw new Error("disk is full");
        return exec.call(sql, query, ...bindings);
      },
    });
  });
  return () =>
    runInDurableObject(stub, (_, { storage: { sql } }) => {
      Reflect.deleteProperty(sql, "exec");
    });
}

/** Fakes the clock a day ahead, so that no alarm fires but by the test's hand. Gives a function that moves it. */
export function fakeClock(): (byMs: number) => void {
  vi.useFakeTimers({ toFake: ["Date"] });
  let nowMs = Date.now() + 86_400_000;
  vi.setSystemTime(nowMs);
  return (byMs) => {
    nowMs += byMs;
    vi.setSystemTime(nowMs);
  };
}

/** For each test of a file: a clock that stands until it is moved, and a log that nobody sees. */
export function heldClock(): (byMs: number) => void {
  let advance: (byMs: number) => void;
  beforeEach(() => {
    advance = fakeClock();
    vi.spyOn(console, "log").mockImplementation(() => undefined);
  });
  afterEach(() => {
    vi.restoreAllMocks();
    vi.useRealTimers();
  });
  return (byMs) => advance(byMs);
}

/** Fails with what the audit found. */
export async function expectSound(stub: Stub): Promise<void> {
  const audit = await stub.audit();
  expect(audit?.problems).toEqual([]);
}
