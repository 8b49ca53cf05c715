/**
 * The compute service's one object: accounts, capacity, machines, storage, their money and the log of calls.
 *
 * Nothing runs by itself. Each call first lets happen what was due before it, by the clocks of the accounts, so a moved
 * clock and a long sleep have the same effect.
 */
import { DurableObject } from "cloudflare:workers";
import type { SandboxSettings } from "../settings.ts";
import { computeLengths } from "../settings.ts";
import { type ComputeCall, ComputeCallLog, type PodEnd, type WantedCalls } from "./call-log.ts";
import { accessRefusal, dispatch, type Incoming } from "./dispatch.ts";
import { podName } from "./documents.ts";
import { type ComputeExecution, executions } from "./executions.ts";
import { type ComputeFault, ComputeFaults, type MetComputeFaults } from "./faults.ts";
import {
  type AccountRequest,
  accountView,
  forceResource,
  type RegionRequest,
  type ResourceRequest,
  setAccount,
  setRegion,
} from "./forced.ts";
import type { Template } from "./records.ts";
import { type Answer, refuse } from "./route.ts";
import { migrate } from "./schema.ts";
import { fingerprintOf } from "./ssh-keys.ts";
import { catchUp } from "./timeline.ts";
import { World } from "./world.ts";

/** What is to be sent after a wait; or the connection is cut, or the work is done only then. */
export interface Handled {
  readonly callId: number;
  readonly waitMs: number;
  readonly ends: "send" | "cut" | "execute";
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  /** JSON; null: no body. */
  readonly text: string | null;
}

/** A pod that a service path leads to. */
export interface Pod {
  readonly callId: number;
  readonly name: string;
  readonly port: number;
  /** Before the path that the pod is asked for. */
  readonly prefix: string;
  readonly leak: boolean;
  /** Its answer waits so long. */
  readonly lateMs: number;
  /** Its answer never arrives: the connection is cut. */
  readonly lost: boolean;
}

export type Entered = { readonly ok: true; readonly pod: Pod } | { readonly ok: false; readonly handled: Handled };

export class Compute extends DurableObject<SandboxSettings> {
  readonly #world: World;
  readonly #log: ComputeCallLog;
  readonly #faults: ComputeFaults;
  /** Which replica of a cluster is next. */
  #turn = 0;

  constructor(ctx: DurableObjectState, env: SandboxSettings) {
    super(ctx, env);
    migrate(ctx.storage);
    this.#world = new World(ctx.storage, computeLengths(env));
    this.#log = new ComputeCallLog(ctx.storage.sql);
    this.#faults = new ComputeFaults(ctx.storage.sql);
  }

  /** A control call. */
  async call(incoming: Incoming): Promise<Handled> {
    const print = await printOf(incoming);
    const { callId, met } = this.#arrive(incoming, "control");
    if (met.reset) return handled(callId, null, { ends: "cut" });
    if (met.silence) return handled(callId, null, { ends: "cut", waitMs: met.silence.ms });
    const lateMs = met.late?.ms ?? 0;
    if (met.late?.executes === "at_end") {
      this.#delayed.set(callId, met);
      return handled(callId, null, { ends: "execute", waitMs: lateMs });
    }
    return this.#execute(callId, incoming, met, print, lateMs);
  }

  /** The work of a call that waited for it. */
  async executeLate(callId: number, incoming: Incoming): Promise<Handled> {
    const print = await printOf(incoming);
    const met = this.#delayed.get(callId) ?? {};
    this.#delayed.delete(callId);
    return this.#execute(callId, incoming, met, print, 0);
  }

  readonly #delayed = new Map<number, MetComputeFaults>();

  /** A call of a service path: the pod that serves it, or why none does. */
  enter(incoming: Incoming, kind: "instance" | "cluster", id: number): Entered {
    const { callId, met } = this.#arrive(incoming, "service");
    const cut = met.reset || met.silence;
    if (cut) return { ok: false, handled: handled(callId, null, { ends: "cut", waitMs: met.silence?.ms ?? 0 }) };
    const found = met.status ? overridden(met) : this.#pod(incoming, kind, id);
    if ("status" in found) {
      this.#log.end(callId, found.status, id || null, false);
      this.#world.flush();
      return { ok: false, handled: handled(callId, found, { headers: met.status?.headers ?? {} }) };
    }
    this.#log.end(callId, 200, id, false);
    this.#world.flush();
    const [leak, lost] = [met.leak !== undefined, met.lost_answer !== undefined];
    return { ok: true, pod: { callId, ...found, leak, lost, lateMs: met.late?.ms ?? 0 } };
  }

  /** Notes which headers a pod was sent. */
  podSaw(callId: number, headers: Readonly<Record<string, string>>): void {
    this.#log.podHeaders(callId, headers);
  }

  podEnded(callId: number, how: PodEnd): void {
    this.#log.podEnded(callId, how);
  }

  // What follows is for tests.

  now(account: string | null): number {
    return this.#world.now(account === null ? null : (this.#world.account(account) ?? null));
  }

  /** Moves the clock of one account, or of all. False: there is no such account. */
  advance(byMs: number, account: string | null): boolean {
    if (account === null) this.#world.advance(byMs);
    else {
      const found = this.#world.account(account);
      if (!found) return false;
      found.clockAheadMs += byMs;
      this.#world.touch(found);
    }
    this.#settle();
    return true;
  }

  calls(wanted: WantedCalls): string {
    const rows: ComputeCall[] = this.#log.list(wanted);
    return JSON.stringify(rows);
  }

  executions(account: string | null): ComputeExecution[] {
    this.#settle();
    return executions(this.#world, account);
  }

  /** The account as it is then. */
  putAccount(request: AccountRequest): ReturnType<typeof accountView> {
    this.#settle();
    const account = setAccount(this.#world, request);
    this.#settle();
    return accountView(account);
  }

  accounts(): ReturnType<typeof accountView>[] {
    this.#settle();
    return this.#world.accounts().map(accountView);
  }

  putTemplate(template: Template): void {
    this.#world.putTemplate(template);
  }

  putRegion(request: RegionRequest): string {
    const region = setRegion(this.#world, request);
    this.#world.flush();
    return JSON.stringify(region);
  }

  regions(): string {
    this.#settle();
    return JSON.stringify(this.#world.regions().map((region) => ({ ...region, free: this.#world.freeGpus(region) })));
  }

  /** Null, or why a resource cannot be forced. */
  force(id: number, request: ResourceRequest): string | null {
    this.#settle();
    const error = forceResource(this.#world, id, request);
    this.#settle();
    return error;
  }

  /** `fault` and the answers are JSON, since a fault may carry any value. */
  addFault(fault: string): string {
    return JSON.stringify(this.#faults.add(JSON.parse(fault) as ComputeFault));
  }

  listFaults(): string {
    return JSON.stringify(this.#faults.list());
  }

  clearFaults(account: string | null): void {
    this.#faults.clear(({ match }) => account === null || match.account === account);
  }

  #settle(): void {
    catchUp(this.#world);
    this.#world.flush();
  }

  #arrive(incoming: Incoming, kind: "control" | "service"): { callId: number; met: MetComputeFaults } {
    const { method, path, key, body, requestId } = incoming;
    const holder = key === null ? undefined : this.#world.holderOf(key);
    const account = holder?.account.account ?? null;
    const met = this.#faults.meet({ account, key, method, path }, (name) => concerns(name, kind));
    const arrival = { account, key, user: holder?.key.user ?? null, kind, method, path, body, requestId };
    const callId = this.#log.start(arrival, this.#world.now(holder?.account ?? null), Object.keys(met));
    return { callId, met };
  }

  #execute(callId: number, incoming: Incoming, met: MetComputeFaults, print: string | null, waitMs: number): Handled {
    if (met.status && !met.status.executed)
      return handled(callId, overridden(met), { waitMs, headers: met.status.headers });
    catchUp(this.#world);
    const holder = incoming.key === null ? undefined : this.#world.holderOf(incoming.key);
    const { answer, launched, lists } = dispatch(this.#world, this.#log, holder, incoming, callId, print);
    this.#log.end(callId, answer.status, answer.about ?? null, launched);
    this.#world.flush();
    if (met.status) return handled(callId, overridden(met), { waitMs, headers: met.status.headers });
    const sent = lists && met.omit ? { ...answer, body: without(answer.body, met.omit.ids) } : answer;
    return handled(callId, sent, { waitMs, ends: met.lost_answer ? "cut" : "send" });
  }

  #pod({ key }: Incoming, kind: "instance" | "cluster", id: number): Answer | Pick<Pod, "name" | "port" | "prefix"> {
    catchUp(this.#world);
    const holder = key === null ? undefined : this.#world.holderOf(key);
    const refusal = accessRefusal(holder, "compute");
    if (refusal || !holder) return refusal ?? refuse(401, "There is no such key.");
    const machine = this.#world.find(holder.account, kind, id);
    if (!machine || machine.phase === "lost") return refuse(404, `There is no GPU ${kind} ${id} on this account.`);
    if (machine.servicePort === null)
      return refuse(409, `The ${kind} exposes no port. Launch it with \`service_port\`.`);
    if (machine.phase !== "running") return refuse(409, `The ${kind} is not running.`);
    const name = podName(machine, this.#turn++ % machine.replicas);
    return { name, port: machine.servicePort, prefix: `/gpu-${kind}s/${id}/service` };
  }
}

/** The fingerprint of the public key that a body holds. */
async function printOf({ body }: Incoming): Promise<string | null> {
  if (body === null || !body.includes("public_key")) return null;
  try {
    const { public_key, ssh_public_key } = JSON.parse(body) as Record<string, unknown>;
    const line = public_key ?? ssh_public_key;
    return typeof line === "string" ? await fingerprintOf(line) : null;
  } catch {
    return null;
  }
}

/** Only service paths can leak, and only they leave lists alone. */
const concerns = (fault: ComputeFault["fault"], kind: "control" | "service"): boolean =>
  fault === "leak" ? kind === "service" : fault !== "omit" || kind === "control";

const without = (list: unknown, ids: readonly number[] | undefined): unknown =>
  Array.isArray(list) ? list.filter((one: { id: number }) => ids !== undefined && !ids.includes(one.id)) : list;

const overridden = ({ status }: MetComputeFaults): Answer => ({
  status: status?.status ?? 500,
  body: status?.body ?? { error: "This answer is a fault." },
});

function handled(
  callId: number,
  answer: Answer | null,
  how: { waitMs?: number; ends?: Handled["ends"]; headers?: Readonly<Record<string, string>> | undefined },
): Handled {
  const retry = answer?.retryAfterS === undefined ? {} : { "retry-after": String(answer.retryAfterS) };
  return {
    callId,
    waitMs: how.waitMs ?? 0,
    ends: how.ends ?? "send",
    status: answer?.status ?? 0,
    headers: { ...retry, ...how.headers },
    text: answer === null || answer.body === null ? null : JSON.stringify(answer.body),
  };
}
