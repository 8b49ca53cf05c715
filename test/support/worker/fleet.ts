/**
 * Tenants who rent machines, on a clock of the test's own: the real account objects and brokers behind the real Worker,
 * and the service in memory. `run` lets time pass: each alarm fires at its time, nothing else moves.
 */
import {
  createExecutionContext,
  evictDurableObject,
  runDurableObjectAlarm,
  runInDurableObject,
  waitOnExecutionContext,
} from "cloudflare:test";
import { env } from "cloudflare:workers";
import { vi } from "vitest";
import type { LedgerEntry } from "../../../src/core/account/tenant.ts";
import worker from "../../../src/index.ts";
import type { Worker } from "./counting.ts";
import { longTimersSet, simulateLongTimers, turn, waitingTurns } from "./long-timers.ts";
import { MemoryService, SERVICE_URL } from "./memory-service.ts";
import { done, type Json, settled } from "./operator.ts";

/** Far ahead, so that no alarm fires but by the test's hand. */
const START_MS = Date.UTC(2060, 0, 1);
/** Alarms of one `run` in which nothing ends: something wakes for ever. */
const MOST_ALARMS = 100_000;
/** What is not over after so long, in true ms, waits, whatever for. */
const WAITS_AFTER_MS = 400;
/** What waits for the clock by a timer or a parked answer, and does nothing else for so many turns, only waits. */
const QUIET_TURNS = 8;

export interface Renter {
  readonly account: string;
  readonly number: number;
  readonly key: string;
  readonly seat: string;
}

interface Answer {
  readonly status: number;
  readonly body: Json;
}

interface Alarmed {
  readonly name: string;
  readonly seat: string | null;
  readonly stub: DurableObjectStub<undefined>;
}

/** Each fleet is later than those before: what they left in caches is old. */
let latestMs = START_MS;

export class Fleet {
  readonly service: MemoryService;
  readonly renters: Renter[] = [];
  readonly #seats = new Set<string>();
  #nowMs: number;
  #fired = 0;
  /** Objects whose alarm waits for time to pass. */
  readonly #inAlarm = new Set<string>();

  constructor() {
    this.#nowMs = latestMs + 86_400_000;
    vi.useFakeTimers({ now: this.#nowMs, toFake: ["Date"] });
    simulateLongTimers();
    this.service = new MemoryService({
      hourMs: Number(env.COMPUTE_HOUR_MS),
      dayMs: Number(env.COMPUTE_DAY_MS),
    });
    vi.spyOn(globalThis, "fetch").mockImplementation((input, init) =>
      this.service.answer(new Request(input as RequestInfo, init as RequestInit), init?.signal),
    );
  }

  get nowMs(): number {
    return this.#nowMs;
  }

  /** Alarms fired so far. */
  get fired(): number {
    return this.#fired;
  }

  /** Whether this is an account of this fleet. What names no account counts as this fleet's too. */
  isOf(account: string | undefined): boolean {
    return account === undefined || this.renters.some((renter) => renter.account === account);
  }

  /** A GPU type that the service rents at `costUsd` and the operator at `priceUsd`, an hour. */
  async region(id: string, costUsd: number, priceUsd: number): Promise<void> {
    this.service.region(id, `GPU ${id}`, costUsd);
    const prices = {
      gpu_hours: { cost_usd: costUsd, price_usd: priceUsd },
      interruptible_gpu_hours: { cost_usd: costUsd / 2, price_usd: priceUsd / 2 },
    };
    await done("PUT", `/models/${encodeURIComponent(`gpu/${encodeURIComponent(`GPU ${id}`)}`)}`, {
      kind: "gpu",
      prices,
    });
  }

  /** An upstream account for compute. */
  async seat(seat: string, shared: boolean, balanceUsd = 1_000_000): Promise<void> {
    this.#seats.add(seat);
    this.service.account(seat, `key-${seat}`, balanceUsd);
    await done("PUT", `/upstreams/${seat}`, { base_url: SERVICE_URL, api_key: `key-${seat}`, shared });
  }

  async renter(
    account: string,
    seat: string,
    balanceUsd: number,
    fields: object = {},
    keyFields: object = {},
  ): Promise<Renter> {
    const body = { id: account, name: account, balance_usd: balanceUsd, compute_enabled: true, ...fields };
    const { number } = await done("POST", "/accounts", { ...body, compute_upstream: seat });
    const { key } = await done("POST", `/accounts/${account}/keys`, { name: "k", scopes: ["compute"], ...keyFields });
    await settled();
    const renter = { account, number, key, seat };
    this.renters.push(renter);
    return renter;
  }

  /** One request of a tenant, to the end of what it left running. */
  async call(renter: Renter, method: string, path: string, body?: unknown, headers = {}): Promise<Answer> {
    return (await this.finish(this.send(renter, method, path, body, headers))) as Answer;
  }

  /** The same, for a call that may wait for what the test does next. */
  async send({ key }: Renter, method: string, path: string, body?: unknown, headers = {}): Promise<Answer> {
    const context = createExecutionContext();
    const request = new Request(`https://gateway.test${path}`, {
      method,
      headers: { authorization: `Bearer ${key}`, "content-type": "application/json", ...headers },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
    const response = await (worker as unknown as Worker).fetch(request as never, env, context);
    const text = await response.text();
    await waitOnExecutionContext(context);
    return { status: response.status, body: text === "" ? null : JSON.parse(text) };
  }

  launch(renter: Renter, region: string, fields: object = {}): Promise<Answer> {
    const machine = { region_id: region, gpu_type: `GPU ${region}`, gpu_count: 1, container_image: "ubuntu:24" };
    return this.call(renter, "POST", "/gpu-instances", { ...machine, ...fields });
  }

  async instance(renter: Renter, id: number): Promise<Json> {
    return (await this.call(renter, "GET", `/gpu-instances/${id}`)).body.instance;
  }

  accountStub({ number }: Renter) {
    return env.ACCOUNTS.getByName(String(number));
  }

  brokerStub(seat: string) {
    return env.BROKERS.getByName(seat);
  }

  /** All entries of its ledger, the newest first. */
  async entries(renter: Renter): Promise<LedgerEntry[]> {
    const all: LedgerEntry[] = [];
    let cursor: string | null = null;
    do {
      const page = await this.accountStub(renter).entries({ limit: 1_000, cursor });
      all.push(...(page?.data ?? []));
      cursor = page?.nextCursor ?? null;
    } while (cursor !== null);
    return all;
  }

  evictAccount(renter: Renter): Promise<void> {
    return this.#evict(() => evicted(this.accountStub(renter)));
  }

  evictBroker(seat: string): Promise<void> {
    return this.#evict(() => evicted(this.brokerStub(seat)));
  }

  /** What waits for an answer, or for its turn to call, keeps an object: the answer comes, and time passes. */
  async #evict(evict: () => Promise<boolean>): Promise<void> {
    for (let tries = 0; !(await evict()); tries++) {
      if (tries === 3) throw new Error("an object can't be evicted");
      this.service.letGo();
      await this.run(5_000);
    }
  }

  /** Lets so much time pass. */
  async run(forMs: number): Promise<void> {
    const untilMs = this.#nowMs + forMs;
    const alarms = new Map<Alarmed, number | null>();
    await read(alarms, this.#objects());
    for (let fired = 0; fired < MOST_ALARMS; fired++) {
      const next = this.#soonest(alarms, untilMs);
      if (!next) {
        // Whatever else went on may have set another.
        await read(alarms, this.#objects());
        if (this.#soonest(alarms, untilMs)) continue;
        return this.#setClock(untilMs);
      }
      this.#setClock(Math.max(this.#nowMs, alarms.get(next) ?? 0));
      this.#fired += 1;
      this.#inAlarm.add(next.name);
      await this.#overOrWaiting(runDurableObjectAlarm(next.stub).finally(() => this.#inAlarm.delete(next.name)));
      // A broker tells its accounts, an account tells its broker.
      await read(
        alarms,
        [...alarms.keys()].filter(({ name, seat }) => name === next.name || seat === next.name || name === next.seat),
      );
    }
    throw new Error(`${MOST_ALARMS} alarms in ${forMs} ms`);
  }

  #soonest(alarms: ReadonlyMap<Alarmed, number | null>, untilMs: number): Alarmed | undefined {
    let soonest: { readonly of: Alarmed; readonly atMs: number } | undefined;
    for (const [of, atMs] of alarms) {
      if (atMs === null || atMs > untilMs || this.#inAlarm.has(of.name)) continue;
      if (!soonest || atMs < soonest.atMs) soonest = { of, atMs };
    }
    return soonest?.of;
  }

  #objects(): Alarmed[] {
    return [
      ...[...this.#seats].map((seat) => ({ name: brokerOf(seat), seat: null, stub: this.brokerStub(seat) as never })),
      ...this.renters.map((renter) => ({
        name: `account ${renter.account}`,
        seat: brokerOf(renter.seat),
        stub: this.accountStub(renter) as never,
      })),
    ];
  }

  /** Lets time pass until something is so; fails after `withinMs`. */
  async until(
    what: string,
    isSo: () => boolean | Promise<boolean>,
    withinMs = 600_000,
    everyMs = 1_000,
  ): Promise<void> {
    for (const endMs = this.#nowMs + withinMs; this.#nowMs < endMs; await this.run(everyMs)) if (await isSo()) return;
    if (!(await isSo())) throw new Error(`not within ${withinMs} ms: ${what}`);
  }

  /** Waits for what goes on by itself; time passes where it waits for that. */
  async finish<T>(work: Promise<T>, isParked: () => boolean = () => false): Promise<T | "parked"> {
    let over = false;
    const done = work.finally(() => {
      over = true;
    });
    done.catch(() => undefined);
    if ((await this.#overOrWaiting(done, isParked)) === "parked") return "parked";
    while (!over) {
      if (isParked()) return "parked";
      await this.run(500);
      await Promise.race([done, turn()]);
    }
    return done;
  }

  /** Until it is over, or goes on only when time passes. */
  async #overOrWaiting(
    work: Promise<unknown>,
    isParked: () => boolean = () => false,
  ): Promise<"over" | "waiting" | "parked"> {
    const ended = work.then(
      () => "over" as const,
      () => "over" as const,
    );
    const { service } = this;
    const waits = () => service.parked + waitingTurns();
    const before = waits();
    let done = "";
    let quiet = 0;
    for (const untilMs = performance.now() + WAITS_AFTER_MS; performance.now() < untilMs; ) {
      if (isParked()) return "parked";
      if ((await Promise.race([ended, turn()])) === "over") return "over";
      const doneBefore = done;
      done = `${service.calls.length} ${service.parked} ${longTimersSet()}`;
      quiet = waits() > before && done === doneBefore ? quiet + 1 : 0;
      if (quiet >= QUIET_TURNS) return "waiting";
    }
    return "waiting";
  }

  /** A call that would wait for its turn costs true time: so time passes first. */
  async roomForCalls(): Promise<void> {
    const { calls } = this.service;
    const launches = ({ method, path }: { method: string; path: string }) =>
      method === "POST" && /^\/gpu-(instances|clusters)$/.test(path);
    for (let waits = 0; waits < 12; waits++) {
      const recent = calls.slice(-300).filter(({ atMs }) => atMs > this.#nowMs - 60_000);
      const isBusy = this.renters.some(({ seat }) => {
        const its = recent.filter(({ account }) => account === seat);
        return its.length > 36 || its.filter(launches).length > 8;
      });
      if (!isBusy) return;
      await this.run(5_000);
    }
  }

  /** Our clock jumps; upstream's does not. */
  jump(ms: number): void {
    this.#setClock(this.#nowMs + ms);
    this.service.callersClockMoved(ms);
  }

  #setClock(nowMs: number): void {
    this.#nowMs = nowMs;
    latestMs = Math.max(latestMs, nowMs);
    vi.setSystemTime(nowMs);
  }
}

/** A seat may have the name of its account. */
const brokerOf = (seat: string) => `broker ${seat}`;

/** Learns when these are due. */
async function read(alarms: Map<Alarmed, number | null>, objects: readonly Alarmed[]): Promise<void> {
  const known = new Map([...alarms.keys()].map((one) => [one.name, one]));
  await Promise.all(
    objects.map(async (one) => {
      const atMs = await runInDurableObject(one.stub, (_, { storage }) => storage.getAlarm());
      alarms.set(known.get(one.name) ?? one, atMs);
    }),
  );
}

/** False where what it waits for keeps it. */
async function evicted(stub: Parameters<typeof evictDurableObject>[0]): Promise<boolean> {
  try {
    await evictDurableObject(stub);
    return true;
  } catch (error) {
    const message = String(error);
    if (message.includes("active references")) return false;
    // Nobody has called it since the last time.
    if (!message.includes("not currently running")) throw error;
    return true;
  }
}
