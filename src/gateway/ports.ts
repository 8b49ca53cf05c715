/**
 * What the pipeline needs from outside, as interfaces. The platform implements them on Cloudflare, tests in memory.
 * Nothing here knows of KV, D1, queues or Durable Objects.
 */

import type { CallAccess } from "../core/account/call-access.ts";
import type { FreeCall } from "../core/account/free-calls.ts";
import type {
  AdmitRequest,
  HoldEnd,
  Permission,
  Progress,
  QueuedEnd,
  Release,
  Settlement,
} from "../core/account/hold.ts";
import type { LeaseAsk, LeaseReport, LeasingAdmission, ReportAnswer } from "../core/account/lease.ts";
import type { Inquired, Inquiry } from "../core/account/precheck.ts";
import type { AskedAbout } from "../core/account/refused-call.ts";
import type { ComputeAccount } from "../core/compute/calls.ts";
import type { BrokerPort } from "../core/compute/control.ts";
import type { AccountId, AccountNumber, CallId, KeyDigest, KeyId } from "../core/ids.ts";
import type { IsolateLeases } from "../core/leases/isolate-leases.ts";
import type { NewOwned, OwnedRef } from "../core/owned.ts";
import type { RoutingSnapshot, Target, UpstreamRow } from "../core/routing/routes.ts";
import type { Health } from "../core/routing/target-health.ts";
import type { BodyRoom } from "../core/uploads/upload-limiter.ts";
import type { JobView, NewJob } from "../core/video/jobs.ts";

export interface Ports {
  /** The key that signed in to the console, where a session stands in place of the key in the headers. */
  readonly signedIn?: SignedIn;
  readonly directory: Directory;
  readonly secrets: Secrets;
  readonly upstreams: Upstreams;
  readonly services: Services;
  /** This isolate's places for large bodies. */
  readonly bodies: BodyRoom;
  /** This isolate's places for bodies that are neither small nor large. */
  readonly mediumBodies: BodyRoom;
  /** This isolate's room for large answers that are held whole. */
  readonly answers: BodyRoom;
  /** This isolate's leases; null: every call is asked of its object. */
  readonly leases: IsolateLeases | null;
  /** The account object with this number. The number must come from an authenticated key. */
  account(number: AccountNumber): AccountPort;
  /** The broker of an upstream for compute; the upstream is an account's seat. */
  broker(upstream: string): Pick<BrokerPort, "market" | "replicas">;
  /** Unix time, ms. */
  now(): number;
  /** Waits within this call; all of them share one timer. */
  readonly after: After;
  /** A random number in [0, 1). */
  random(): number;
  newCallId(): CallId;
  /** Queues the end of a call that its object could not be told. Rejects where the queue fails too. */
  queueEnd(end: QueuedEnd): Promise<void>;
  /** Keeps the request's context alive until the promise has settled. */
  waitUntil(work: Promise<unknown>): void;
  /** One structured line for the operator: never content, never a key. */
  log(line: LogLine): void;
}

/** Who calls, as far as the edge knows. This speeds and routes; the account object decides. */
export interface Caller {
  readonly account: AccountId;
  readonly number: AccountNumber;
  readonly keyId: KeyId;
  readonly digest: KeyDigest;
}

/** A key by its digest; whether it is live is not said. */
export type SignedIn = Pick<Caller, "digest" | "number">;

/** Keys and routing at the edge: caches of the account objects and the operator's books. */
export interface Directory {
  /** The caller behind a digest. On a miss, asks the account object with that number. Undefined: unknown key. */
  findCaller(number: AccountNumber, digest: KeyDigest): Promise<Caller | undefined>;
  /** The caller behind a digest that `findCaller` found in this isolate within the last 30 s. */
  recentCaller(digest: KeyDigest): Caller | undefined;
  /** The routing snapshot, at most 10 s old in this isolate. */
  routing(): Promise<RoutingSnapshot>;
  /**
   * For a name that the snapshot lacks: reloads from the books, at most once a second for all names together. `asker`:
   * the account that used the name, or what else asks.
   */
  refresh(asker: string): Promise<RoutingSnapshot>;
}

/** What needs `KEY_PEPPER`. */
export interface Secrets {
  /** HMAC-SHA-256(`KEY_PEPPER`, text). */
  hmac(text: string): Promise<Uint8Array>;
}

/** One account's object. A rejected promise means that it could not be asked; a refusal is an answer. */
export interface AccountPort extends Pick<ComputeAccount, "compute" | "openService"> {
  /** `ask`: asks for a lease with it, which is given only where the call is admitted. */
  admit(request: AdmitRequest, ask?: LeaseAsk): Promise<LeasingAdmission>;
  /** Takes in what this isolate admitted out of leases. Each part counts once, however often it comes. */
  report(report: LeaseReport): Promise<ReportAnswer>;
  settle(settlement: Settlement): Promise<HoldEnd>;
  release(release: Release): Promise<HoldEnd>;
  /**
   * Renews the hold for its whole life from now; false when it has ended. `progress`: null until something was read.
   */
  renew(callId: CallId, progress: Progress | null): Promise<boolean>;
  /**
   * Whether the key is live. With `free`, also whether it may make this call and owns the ids; that call is counted.
   */
  authorize(digest: KeyDigest, free?: FreeCall, about?: AskedAbout): Promise<Permission>;
  /** Records that this account owns an id which the service made. The id must not be seen before. */
  recordOwnership(owned: NewOwned): Promise<void>;
  /** The service deleted this id: forgets its owner. */
  forgetOwned(ref: OwnedRef): Promise<void>;
  /** The tenant's prices for a model that this key may call. Counts once per call id. */
  inquire(inquiry: Inquiry): Promise<Inquired>;
  /** Records a job that an upstream accepted; its hold lives on with it. A repeat changes nothing. */
  begin(job: NewJob): Promise<void>;
  /** The account's own job, at most two seconds old. */
  job(digest: KeyDigest, id: string, access: CallAccess): Promise<JobView>;
}

/** Calls `act` once, `ms` from now. What it returns takes that back, and may be called at any time. */
export type After = (ms: number, act: () => void) => () => void;

/** One try at one target. */
export interface UpstreamRequest {
  readonly callId: CallId;
  readonly method: string;
  /** Comes only from stored parts and the endpoint table, never from the tenant's path. */
  readonly path: string;
  readonly contentType: string | null;
  readonly accept: string;
  /** Ordered pieces, so that a large body is not copied together. Null: no body. */
  readonly body: readonly Uint8Array<ArrayBuffer>[] | null;
  /**
   * Holds back the end of the body until the connection had time to be refused: an earlier loss proves non-execution.
   */
  readonly careful: boolean;
  readonly patience: Patience;
  readonly signal: AbortSignal;
}

/**
 * Which time limits apply. `stream`: `firstByteMs` to the first byte. `begin`: `answerMs` to the first byte, since the
 * upstream may make the whole answer before it. `whole`: `answerMs` to the last byte.
 */
export type Patience = "stream" | "begin" | "whole";

/**
 * The result of a try. `refused`: provably not executed, since the upstream never had the whole request. `lost`: the
 * connection broke, so it may have been executed. `unreachable`: the same, and nothing listens there now. `timeout`: no
 * first byte in time. `answer_timeout`: the same for an answer that is not streamed.
 */
export type UpstreamAnswer =
  | {
      readonly kind: "answer";
      readonly response: Response;
      /** Resolves when the request's body is needed no more. An upstream may answer before it has taken all of it. */
      readonly bodyTaken: Promise<void>;
      readonly region: string | null;
      readonly idleMs: number;
      /** Time left for the whole answer, ms. */
      readonly totalMs: number;
    }
  | { readonly kind: "refused" | "lost" | "unreachable" | "timeout" | "answer_timeout" };

/** An answer of an upstream, whatever its status. */
export type Answered = Extract<UpstreamAnswer, { readonly kind: "answer" }>;

export interface Upstreams {
  /** What this isolate knows about the health of targets. */
  readonly health: Health;
  /** Sends with the target's credential, allow-listed headers and time limits; follows no redirect. Never rejects. */
  send(target: Target, request: UpstreamRequest, routing: RoutingSnapshot): Promise<UpstreamAnswer>;
  /** Removes the upstream's credentials, hosts and account ids from a message and cuts it to 1 KB. */
  scrub(message: string, target: Target, routing: RoutingSnapshot): string;
}

/** A request on a service path of an instance or a cluster, as it goes upstream. */
export interface PassedRequest {
  readonly method: string;
  /** Below the upstream's root. */
  readonly path: string;
  /** Without a key. */
  readonly headers: Headers;
  readonly body: ReadableStream<Uint8Array> | null;
  /** What its sender declared; null: unknown. */
  readonly bodyBytes: number | null;
  /** Aborts when the client leaves. */
  readonly signal: AbortSignal;
}

/**
 * `telltale`: whether a text has the key or the upstream's host in it. `unusable`: there is no key that opens. `lost`:
 * no connection, or it broke before an answer. `timeout`: no first byte in time.
 */
export type PassedAnswer =
  | { readonly kind: "answer"; readonly response: Response; telltale(text: string): boolean }
  | { readonly kind: "unusable" | "lost" | "timeout" };

/** Service paths of instances and clusters. */
export interface Services {
  /** Sends it once, with the upstream's key of service paths; follows no redirect. Never rejects. */
  pass(upstream: UpstreamRow, request: PassedRequest): Promise<PassedAnswer>;
}

/** A line of the operator's log: an event with ids and numbers. */
export type LogLine = { readonly event: string } & Readonly<Record<string, string | number | boolean | null>>;
