/**
 * The compute service in the memory of a test: the sandbox's own rules, without its object and its HTTP, on the test's
 * clock. Whatever is sent to `fetch` for its address is answered here, or meets a fault.
 */
import { type CallCounts, dispatch } from "../../../sandbox/compute/dispatch.ts";
import { executions, type MachineExecution, type StorageExecution } from "../../../sandbox/compute/executions.ts";
import { forceResource, type ResourceRequest, setAccount, setRegion } from "../../../sandbox/compute/forced.ts";
import { catchUp } from "../../../sandbox/compute/timeline.ts";
import { type Lengths, World } from "../../../sandbox/compute/world.ts";
import type { Json } from "./operator.ts";

export const SERVICE_URL = "https://compute-service.test";

/**
 * What happens to a call in place of a plain answer. `parked`: executed at once, answered when `letGo` is called.
 * `slow`: executed only then, and not answered.
 */
export type CallFault = "lost_answer" | "reset" | "parked" | "slow" | "refused" | "failing" | "unauthorized";

interface WaitingFault {
  readonly fault: CallFault;
  readonly account: string;
  readonly matches: (method: string, path: string) => boolean;
  times: number;
}

/** A call as it arrived, for the judge. */
export interface ServiceCall {
  readonly atMs: number;
  readonly account: string;
  readonly method: string;
  readonly path: string;
  /** The service's own; null: not executed. */
  readonly status: number | null;
  /** When the caller got the answer; null: never. */
  toldMs: number | null;
  /** What the answer showed, by id: lists, reads and changes. */
  readonly shown: ReadonlyMap<number, string>;
}

const NOTHING_SHOWN: ReadonlyMap<number, string> = new Map();
const EXECUTED: ReadonlySet<CallFault> = new Set(["lost_answer", "parked"]);

export class MemoryService {
  readonly world: World;
  readonly calls: ServiceCall[] = [];
  /** Whether calls keep what they showed; a thousand machines in thousands of lists are too much. */
  keepsShown = true;
  readonly #faults: WaitingFault[] = [];
  /** Ids that lists leave out, by account; `all`: every one. */
  readonly #omitted = new Map<string, ReadonlySet<number> | "all">();
  readonly #parked = new Set<() => void>();
  readonly #slow: (() => void)[] = [];
  #log = new Counts();
  /** What an answer shows in place of each machine: none, itself, or something else. */
  lie: (machine: Json) => Json[] = (machine) => [machine];
  /** What is answered in place of the whole answer, to a call that was executed; undefined: the answer itself. */
  forge: (call: ServiceCall, text: string | null, signal?: AbortSignal | null) => Response | undefined = () =>
    undefined;

  constructor(lengths: Lengths) {
    this.world = new World(NO_STORAGE, lengths);
  }

  account(account: string, key: string, balanceUsd: number): void {
    setAccount(this.world, { account, balance_usd: balanceUsd, keys: [{ key }] });
  }

  /** Another balance of the account, holds apart. */
  balance(account: string, balanceUsd: number): void {
    catchUp(this.world);
    setAccount(this.world, { account, balance_usd: balanceUsd });
    catchUp(this.world);
  }

  region(id: string, gpuType: string, rateUsd: number, nodes = 1_000): void {
    setRegion(this.world, {
      id,
      gpu_type: gpuType,
      node_count: nodes,
      hourly_rate_usd: rateUsd,
      interruptible_hourly_rate_usd: rateUsd / 2,
    });
  }

  fault(
    account: string,
    fault: CallFault,
    times: number,
    matches: WaitingFault["matches"] = (method) => method !== "GET",
  ): void {
    this.#faults.push({ fault, account, times, matches });
  }

  clearFaults(): void {
    this.#faults.length = 0;
    this.#omitted.clear();
    this.letGo();
  }

  omit(account: string, ids: ReadonlySet<number> | "all" | null): void {
    if (ids === null) this.#omitted.delete(account);
    else this.#omitted.set(account, ids);
  }

  get parked(): number {
    return this.#parked.size;
  }

  /** The caller's clock was moved; the service's own was not. */
  callersClockMoved(byMs: number): void {
    this.world.advance(0 - byMs);
    this.#log = new Counts();
  }

  /** Parked answers arrive now, and slow work is done. */
  letGo(): void {
    for (const work of this.#slow.splice(0)) work();
    for (const go of this.#parked) go();
    this.#parked.clear();
  }

  /** Null, or why it cannot be forced. */
  force(id: number, force: ResourceRequest["force"]): string | null {
    catchUp(this.world);
    const error = forceResource(this.world, id, { force });
    catchUp(this.world);
    return error;
  }

  executions(account: string | null = null): MachineExecution[] {
    catchUp(this.world);
    return executions(this.world, account)
      .filter((one): one is MachineExecution => one.kind === "instance" || one.kind === "cluster")
      .map((one) => ({ ...one, state: one.state.replace(" (stuck)", "") }));
  }

  storage(account: string | null = null): StorageExecution[] {
    catchUp(this.world);
    return executions(this.world, account).filter(
      (one): one is StorageExecution => one.kind === "drive" || one.kind === "filesystem",
    );
  }

  async answer(request: Request, signal?: AbortSignal | null): Promise<Response> {
    const { pathname: path } = new URL(request.url);
    const { method } = request;
    const key = (request.headers.get("authorization") ?? "").replace("Bearer ", "");
    const body = request.body === null ? null : await request.text();
    const account = this.world.holderOf(key)?.account.account ?? "";
    const fault = this.#meet(account, method, path);
    if (fault !== undefined && fault !== "slow" && !EXECUTED.has(fault)) {
      this.#record(account, method, path, null, fault !== "reset", new Map());
      if (fault === "reset") throw new Error("Network connection lost.");
      const status = fault === "refused" ? 503 : fault === "failing" ? 500 : 401;
      return Response.json({ error: "A fault." }, { status });
    }
    if (fault === "slow") {
      this.#slow.push(() => {
        const { status, shown } = this.#execute(account, method, path, key, body);
        this.#record(account, method, path, status, false, shown);
      });
      await this.#park(signal);
      throw signal?.aborted ? signal.reason : new Error("Network connection lost.");
    }
    const { status, text, shown } = this.#execute(account, method, path, key, body);
    const call = this.#record(account, method, path, status, fault === undefined, shown);
    if (fault === "lost_answer") throw new Error("Network connection lost.");
    const forged = this.forge(call, text, signal);
    if (forged) return forged;
    if (fault === "parked") {
      await this.#park(signal);
      if (signal?.aborted) throw signal.reason;
      call.toldMs = Date.now();
    }
    return new Response(text, { status, headers: { "content-type": "application/json" } });
  }

  #execute(account: string, method: string, path: string, key: string, body: string | null) {
    catchUp(this.world);
    const incoming = { method, path, origin: SERVICE_URL, key, body, requestId: null };
    const holder = this.world.holderOf(key);
    const { answer, launched, lists } = dispatch(this.world, this.#log, holder, incoming, 0, null);
    if (launched) this.#log.launched(account);
    const omitted = lists ? this.#omitted.get(account) : undefined;
    const kept = omitted && Array.isArray(answer.body) ? answer.body.filter(keeps(omitted)) : answer.body;
    const shownBody = answer.status < 300 && /^.gpu-(instances|clusters)/.test(path) ? this.#shown(kept) : kept;
    const shown = answer.status < 300 ? statesOf(shownBody) : new Map<number, string>();
    return { status: answer.status, text: answer.body === null ? null : JSON.stringify(shownBody), shown };
  }

  #shown(body: Json): Json {
    if (Array.isArray(body)) return body.flatMap((one) => (typeof one?.status === "string" ? this.lie(one) : [one]));
    if (body?.instance) return { ...body, instance: this.lie(body.instance)[0] };
    return typeof body?.status === "string" ? this.lie(body)[0] : body;
  }

  #meet(account: string, method: string, path: string): CallFault | undefined {
    const met = this.#faults.find((one) => one.account === account && one.times > 0 && one.matches(method, path));
    if (met) met.times -= 1;
    return met?.fault;
  }

  #record(
    account: string,
    method: string,
    path: string,
    status: number | null,
    told: boolean,
    shown: ReadonlyMap<number, string>,
  ): ServiceCall {
    const atMs = Date.now();
    const kept = this.keepsShown ? shown : NOTHING_SHOWN;
    const call: ServiceCall = { atMs, account, method, path, status, toldMs: told ? atMs : null, shown: kept };
    this.calls.push(call);
    return call;
  }

  /** Waits in the caller's own context: its timers may not be another's. */
  async #park(signal: AbortSignal | null | undefined): Promise<void> {
    let gone = false;
    const go = () => {
      gone = true;
    };
    this.#parked.add(go);
    while (!gone && !signal?.aborted) await new Promise((resolve) => setTimeout(resolve, 2));
    this.#parked.delete(go);
  }
}

const keeps = (omitted: ReadonlySet<number> | "all") => (one: { id: number }) =>
  omitted !== "all" && !omitted.has(one.id);

/** The states of the machines that an answer shows. */
function statesOf(body: unknown): Map<number, string> {
  const outer = Array.isArray(body) ? body : [body];
  return new Map(
    outer.flatMap((item: { id?: number; status?: string; instance?: { id: number; status: string } } | null) => {
      const { id, status } = item?.instance ?? item ?? {};
      return id === undefined || status === undefined ? [] : [[id, status] as const];
    }),
  );
}

/** The service's limits a minute. */
class Counts implements CallCounts {
  readonly #calls = new Map<string, number[]>();
  readonly #launches = new Map<string, number[]>();

  count(_: number, key: string, nowMs: number, most: number): number | null {
    const waitMs = wait(this.#calls, key, nowMs, most);
    if (waitMs === null) this.#calls.get(key)?.push(nowMs);
    return waitMs;
  }

  launchWait(account: string, nowMs: number, most: number): number | null {
    return wait(this.#launches, account, nowMs, most);
  }

  launched(account: string): void {
    this.#launches.get(account)?.push(Date.now());
  }
}

function wait(kept: Map<string, number[]>, of: string, nowMs: number, most: number): number | null {
  const times = (kept.get(of) ?? []).filter((atMs) => atMs > nowMs - 60_000);
  kept.set(of, times);
  const oldest = times[times.length - most];
  return oldest === undefined ? null : oldest + 60_000 - nowMs;
}

/** The world keeps everything in memory; nothing outlives the test. */
const NO_STORAGE = {
  kv: { get: () => undefined, put: () => undefined },
  sql: { exec: () => ({ toArray: () => [] }) },
} as unknown as DurableObjectStorage;
