/**
 * The service's one object: everything that must survive a restart, and the clock for all of it.
 *
 * A call makes two requests to it: `begin` routes, applies faults and opens the log's row; `finish` completes the row.
 * Bodies and streams do not pass through it.
 */
import { DurableObject } from "cloudflare:workers";
import type { Instance, ModelKind, Pod } from "../catalog.ts";
import { countsAsExecuted, type Fault } from "../faults.ts";
import { done, type Outcome, type Refusal, refuse } from "../refusal.ts";
import { type SandboxSettings, videoSubmissions } from "../settings.ts";
import { type Arrival, type Call, CallLog, type Ending, type Wanted } from "./calls.ts";
import { Conversations, type KeptResponse, type NewResponse } from "./conversations.ts";
import { FaultStore } from "./fault-store.ts";
import { Routing } from "./routing.ts";
import { migrate } from "./schema.ts";
import type { StoredRef } from "./stored-ref.ts";
import { type VideoJob, VideoJobs } from "./video-jobs.ts";

/** A call that passed validation and is to be served. */
export interface BeginRequest {
  readonly arrival: Arrival;
  readonly account: string;
  readonly kinds: readonly ModelKind[];
  readonly pinned: string | null;
  /** False for reads, which are logged but use nothing. */
  readonly executes: boolean;
  readonly stored: StoredRef | null;
  /** The custom instance that is called by its id. */
  readonly instanceId: number | null;
}

/** Where and when a call is served. */
export interface Begun {
  readonly callId: number;
  readonly serviceRequestId: string;
  readonly region: string;
  readonly nowMs: number;
  /** `MetFaults` as JSON. */
  readonly faults: string;
  /** The stored thing that the call is about, as JSON. */
  readonly stored: string | null;
  /** The custom instance that is called by its id. */
  readonly instance: Instance | null;
}

export interface NotBegun {
  readonly refusal: Refusal;
  readonly serviceRequestId: string;
}

export type BeginAnswer = { readonly ok: true; readonly begun: Begun } | ({ readonly ok: false } & NotBegun);

export class Service extends DurableObject<SandboxSettings> {
  readonly #calls: CallLog;
  readonly #faults: FaultStore;
  readonly #routing: Routing;
  readonly #conversations: Conversations;
  readonly #videoJobs: VideoJobs;
  #offsetMs: number;

  constructor(ctx: DurableObjectState, env: SandboxSettings) {
    super(ctx, env);
    migrate(ctx.storage);
    this.#calls = new CallLog(ctx.storage.sql);
    this.#faults = new FaultStore(ctx.storage.sql);
    this.#routing = new Routing(ctx.storage.sql);
    this.#conversations = new Conversations(ctx.storage.sql);
    this.#videoJobs = new VideoJobs(ctx.storage.sql);
    this.#offsetMs = ctx.storage.kv.get<number>("clock_offset_ms") ?? 0;
  }

  /** Routes a call, applies its faults and opens its row in the log. */
  begin(request: BeginRequest): BeginAnswer {
    const nowMs = this.now();
    const found = this.#find(request, nowMs);
    if (!found.ok) return { ok: false, ...this.refused(request.arrival, found.refusal) };
    const { region, stored, instance } = found.value;
    const model = instance ? `${instance.name}:${instance.instance_id}` : request.arrival.model;
    const arrival = { ...request.arrival, model };
    const met = this.#faults.meet({ model, region, path: arrival.path });
    const serviceRequestId = newRequestId();
    const executed = request.executes && countsAsExecuted(met);
    const callId = this.#calls.start(arrival, { nowMs, region, serviceRequestId, executed });
    return {
      ok: true,
      begun: { callId, serviceRequestId, region, nowMs, faults: JSON.stringify(met), stored, instance },
    };
  }

  /** Logs a call that is not served. */
  refused(arrival: Arrival, refusal: Refusal): NotBegun {
    const nowMs = this.now();
    const serviceRequestId = newRequestId();
    const id = this.#calls.start(arrival, { nowMs, region: null, serviceRequestId, executed: false });
    this.#calls.end(id, nowMs, {
      status: refusal.status,
      answered: true,
      executed: false,
      bytesSent: 0,
      framesSent: 0,
      closedEarly: false,
      usage: null,
    });
    return { refusal, serviceRequestId };
  }

  finish(callId: number, ending: Ending): void {
    this.#calls.end(callId, this.now(), ending);
  }

  now(): number {
    return Date.now() + this.#offsetMs;
  }

  advance(byMs: number): number {
    this.#offsetMs += byMs;
    this.ctx.storage.kv.put("clock_offset_ms", this.#offsetMs);
    return this.now();
  }

  calls(wanted: Wanted): Call[] {
    for (const job of this.#videoJobs.takeEnded(this.now())) this.#calls.setUsage(job.callId, job.usage);
    return this.#calls.list(wanted);
  }

  /** `fault` and the answers are JSON, since a fault may carry any value. */
  addFault(fault: string): string {
    return JSON.stringify(this.#faults.add(JSON.parse(fault) as Fault));
  }

  listFaults(): string {
    return JSON.stringify(this.#faults.list());
  }

  clearFaults(): void {
    this.#faults.clear();
  }

  instances(): Instance[] {
    return this.#routing.instances();
  }

  putInstance(instance: Instance): void {
    this.#routing.putInstance(instance);
  }

  regions(): Pod[] {
    return this.#routing.regions();
  }

  putRegion(region: string, healthy: boolean): void {
    this.#routing.putRegion(region, healthy);
  }

  /** Stores a response as soon as it begins, and extends the life of its conversation. */
  saveResponse(response: NewResponse): void {
    this.#conversations.save(response, this.now());
  }

  /** True if the response was still being made. */
  cancelResponse(id: string): boolean {
    return this.#conversations.cancel(id);
  }

  deleteResponse(id: string): void {
    this.#conversations.delete(id);
  }

  /** `KeptResponse` as JSON; null if there is none, or no longer. */
  keptResponse(id: string, account: string): string | null {
    const kept = this.#conversations.read(id, account, this.now());
    return kept && JSON.stringify(kept);
  }

  /** Null, or how long the account must wait before it may submit again (ms). */
  addJob(job: VideoJob): number | null {
    return this.#videoJobs.add(job, videoSubmissions(this.env));
  }

  /** The target of a call and the region that serves it. */
  #find(request: BeginRequest, nowMs: number): Outcome<Found> {
    const { account, kinds, pinned, arrival, stored, instanceId } = request;
    if (instanceId !== null) {
      const routed = this.#routing.routeCustom(account, instanceId, pinned, nowMs);
      if (!routed.ok) return routed;
      const [instance, region] = routed.value;
      return done({ region, instance, stored: null });
    }
    const kept = stored && this.#read(stored, account, nowMs);
    if (stored && (!kept || (pinned !== null && pinned !== kept.region))) return notKept(stored.id);
    const home = kept?.region ?? null;
    const routed =
      arrival.model === null
        ? this.#routing.routeHome(pinned, home)
        : this.#routing.route({ account, model: arrival.model, kinds, pinned: home ?? pinned, nowMs });
    if (!routed.ok) return routed;
    return done({ region: routed.value, instance: null, stored: kept && JSON.stringify(kept) });
  }

  #read({ kind, id }: StoredRef, account: string, nowMs: number): Kept | null {
    return kind === "response" ? this.#conversations.read(id, account, nowMs) : this.#videoJobs.read(id, account);
  }
}

/** What region pinning needs to know of a stored thing. */
type Kept = KeptResponse | VideoJob;

interface Found {
  readonly region: string;
  readonly stored: string | null;
  readonly instance: Instance | null;
}

const notKept = (id: string) => refuse(404, "not_found", `There is no \`${id}\`, or no longer.`);
const newRequestId = (): string => `srv_${crypto.randomUUID().replaceAll("-", "")}`;
