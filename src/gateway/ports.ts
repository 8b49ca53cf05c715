/**
 * What the pipeline needs from outside, as interfaces. The platform implements them on Cloudflare, tests in memory.
 * Nothing here knows of KV, D1, queues or Durable Objects.
 */

import type { CallAccess } from "../core/account/call-access.ts";
import type { FreeCall } from "../core/account/free-calls.ts";
import type {
  Admission,
  AdmitRequest,
  HoldEnd,
  Permission,
  Progress,
  QueuedEnd,
  Release,
  Settlement,
} from "../core/account/hold.ts";
import type { Inquired, Inquiry } from "../core/account/precheck.ts";
import type { AccountId, AccountNumber, CallId, KeyDigest, KeyId } from "../core/ids.ts";
import type { NewOwned, OwnedRef } from "../core/owned.ts";
import type { RoutingSnapshot, Target } from "../core/routing/routes.ts";
import type { Health } from "../core/routing/target-health.ts";
import type { BodyRoom } from "../core/uploads/upload-limiter.ts";
import type { JobView, NewJob } from "../core/video/jobs.ts";

export interface Ports {
  readonly directory: Directory;
  readonly secrets: Secrets;
  readonly upstreams: Upstreams;
  /** Of this isolate: the large bodies that it holds. */
  readonly bodies: BodyRoom;
  /** The same of bodies that are neither small nor large. */
  readonly mediumBodies: BodyRoom;
  /** Of this isolate: what large answers it holds whole. */
  readonly answers: BodyRoom;
  /** The account object with this number; the number comes from an authenticated key only. */
  account(number: AccountNumber): AccountPort;
  /** Unix time, ms. */
  now(): number;
  /** In [0, 1). */
  random(): number;
  newCallId(): CallId;
  /** Hands the end of a call to the queue, for when its object could not be told. Rejects where the queue fails too. */
  queueEnd(end: QueuedEnd): Promise<void>;
  /** Keeps the request's context alive until the promise has settled. */
  waitUntil(work: Promise<unknown>): void;
  /** One structured line for the operator. Never content, never a key. */
  log(line: LogLine): void;
}

/** Who calls, as far as the edge knows: it speeds and routes; only the account object's word is final. */
export interface Caller {
  readonly account: AccountId;
  readonly number: AccountNumber;
  readonly keyId: KeyId;
  readonly digest: KeyDigest;
}

/** Keys and routing at the edge: caches of what the account objects and the operator's books say. */
export interface Directory {
  /** The caller behind a digest; on a miss the account object with that number is asked. Undefined: unknown key. */
  findCaller(number: AccountNumber, digest: KeyDigest): Promise<Caller | undefined>;
  /** The routing snapshot, at most 10 s old in this isolate. */
  routing(): Promise<RoutingSnapshot>;
  /**
   * For a name that the snapshot lacks: asks the books for news, at most once a second for all names, and gives what is
   * known then. `asker`: the account that called it, or what else asks.
   */
  refresh(asker: string): Promise<RoutingSnapshot>;
}

/** What is computed with `KEY_PEPPER`. */
export interface Secrets {
  /** HMAC-SHA-256(`KEY_PEPPER`, text). */
  hmac(text: string): Promise<Uint8Array>;
}

/** One account's object. A rejected promise means that it could not be asked; a refusal is an answer. */
export interface AccountPort {
  admit(request: AdmitRequest): Promise<Admission>;
  settle(settlement: Settlement): Promise<HoldEnd>;
  release(release: Release): Promise<HoldEnd>;
  /** Lets the hold live on for its whole time from now; false when it has ended. `progress`: null until something was read. */
  renew(callId: CallId, progress: Progress | null): Promise<boolean>;
  /** Is this key live? With `free`, also: may it make this call, and are the ids its own? That is counted. */
  authorize(digest: KeyDigest, free?: FreeCall): Promise<Permission>;
  /** Records an id that the service made for this account; before it is recorded nobody may see it. */
  recordOwnership(owned: NewOwned): Promise<void>;
  /** The service has deleted this id: it is nobody's any more. */
  forgetOwned(ref: OwnedRef): Promise<void>;
  /** The tenant's prices for a model that this key may call; said twice by one call id, it counts once. */
  inquire(inquiry: Inquiry): Promise<Inquired>;
  /** Records a job that an upstream accepted; its hold lives on with it. Said twice, it stands once. */
  begin(job: NewJob): Promise<void>;
  /** The account's own job, as the upstream has it now or had it two seconds ago. */
  job(digest: KeyDigest, id: string, access: CallAccess): Promise<JobView>;
}

/** One try at one target. */
export interface UpstreamRequest {
  readonly callId: CallId;
  readonly method: string;
  /** Built from stored parts and the endpoint table only, never from the tenant's path. */
  readonly path: string;
  readonly contentType: string | null;
  readonly accept: string;
  /** In pieces, in order, so that a large one is not copied together; null: none. */
  readonly body: readonly Uint8Array<ArrayBuffer>[] | null;
  /** The end of the body is kept back until a connection had the time to be refused: what is lost before was not executed. */
  readonly careful: boolean;
  readonly patience: Patience;
  readonly signal: AbortSignal;
}

/**
 * Which of an upstream's time limits hold. `stream`: `firstByteMs` to the first byte. `begin`: `answerMs` to the first
 * byte, since the answer may have to be made before it. `whole`: `answerMs` to the last byte.
 */
export type Patience = "stream" | "begin" | "whole";

/**
 * What a try came to. `refused`: provably not executed, since the upstream never had the whole request. `lost`: the
 * connection broke: executed or not, nobody knows. `unreachable`: the same, and nothing listens there now. `timeout`: no
 * first byte in time. `answer_timeout`: the same of an answer that is not streamed.
 */
export type UpstreamAnswer =
  | {
      readonly kind: "answer";
      readonly response: Response;
      readonly region: string | null;
      readonly idleMs: number;
      /** What is left of the time for the whole answer. */
      readonly totalMs: number;
    }
  | { readonly kind: "refused" | "lost" | "unreachable" | "timeout" | "answer_timeout" };

/** An answer of an upstream, whatever its status. */
export type Answered = Extract<UpstreamAnswer, { readonly kind: "answer" }>;

export interface Upstreams {
  /** What this isolate knows of its targets. */
  readonly health: Health;
  /** Sends with the target's credential, allow-listed headers, time limits; follows no redirect. Never rejects. */
  send(target: Target, request: UpstreamRequest, routing: RoutingSnapshot): Promise<UpstreamAnswer>;
  /** Takes credentials, hosts and account ids of the upstream out of a message; at most 1 KB. */
  scrub(message: string, target: Target, routing: RoutingSnapshot): string;
}

/** The operator's log: what happened, by ids and numbers. */
export type LogLine = { readonly event: string } & Readonly<Record<string, string | number | boolean | null>>;
