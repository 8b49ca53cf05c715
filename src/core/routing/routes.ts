/**
 * Routing: which targets may serve a call, in which order they are tried, and what a failure means for the next try.
 * Pure over given tables, times and randomness; sending is the gateway's. It knows no accounts beyond their id, and no
 * money.
 *
 * This file: the operator's routing tables as plain data.
 */

import type { AccountId } from "../ids.ts";
import type { LaunchTemplate } from "../launch-templates.ts";
import type { ModelKind, ModelRow } from "../pricing/prices.ts";

/** Time limits on one upstream call, ms. */
export interface UpstreamTimeouts {
  /** Until connected, as far as that can be known (docs/decisions/0008-an-upstream-out-of-reach.md). */
  readonly connectMs: number;
  /** From sending to the first byte of a stream. */
  readonly firstByteMs: number;
  /** From sending to the last byte of an answer that is not streamed. */
  readonly answerMs: number;
  /** Between two reads of the body. */
  readonly idleMs: number;
  /** The whole call. */
  readonly totalMs: number;
}
export const DEFAULT_TIMEOUTS: UpstreamTimeouts = {
  connectMs: 10_000,
  firstByteMs: 120_000,
  answerMs: 600_000,
  idleMs: 60_000,
  totalMs: 3_600_000,
};

export interface UpstreamRow {
  readonly id: string;
  /** Service root without a trailing slash or `/v1`. */
  readonly baseUrl: string;
  readonly region: string | null;
  /** Many accounts may have their compute there; else one at most. */
  readonly shared: boolean;
  /** AES-GCM under `MASTER_KEY`; only the platform opens it. */
  readonly sealedApiKey: string;
  /** What service paths need; absent without their key. */
  readonly service?: ServiceAccess;
  readonly timeouts: UpstreamTimeouts;
}

/** The key of service paths, apart from the control key: a tenant's pod may use up its calls. */
interface ServiceAccess {
  /** AES-GCM under `MASTER_KEY`. */
  readonly sealedKey: string;
  /** When a check last showed that pods do not get the key; null: service paths are off. */
  readonly checkedMs: number | null;
}

/** An upstream and a model there. */
export interface Target {
  readonly upstream: string;
  readonly model: string;
  /** 0 is asked first; targets of equal priority share by weight. */
  readonly priority: number;
  readonly weight: number;
  /** True: no new call goes there; what follows up on earlier calls still does. */
  readonly drain?: boolean;
}

export interface AliasRow {
  readonly alias: string;
  /** Set for an account's own alias, which hides a common alias of the same name. */
  readonly account: AccountId | null;
  readonly targets: readonly Target[];
  readonly retryOn: readonly (500 | 502)[];
}

/** The GPUs of an instance by the hour. */
export interface HourlyPlan {
  readonly gpuType: string;
  /** Per replica. */
  readonly gpuCount: number;
  readonly replicas: number;
}

/** A user-deployed model; belongs to one account. */
export interface InstanceRow {
  readonly instanceId: number;
  readonly account: AccountId;
  readonly name: string;
  readonly upstreams: readonly string[];
  readonly kind: Extract<ModelKind, "chat" | "image" | "embedding" | "rerank" | "custom">;
  readonly customApiPath: string | null;
  /** Its account pays its time, and its calls cost nothing. */
  readonly hourly?: HourlyPlan | undefined;
}

/** The routing snapshot: a cache of the operator's books, rebuilt whole. Model rows newest first. */
export interface RoutingSnapshot {
  readonly builtAtMs: number;
  readonly upstreams: Readonly<Record<string, UpstreamRow>>;
  /** By `aliasKey`. */
  readonly aliases: Readonly<Record<string, AliasRow>>;
  readonly models: Readonly<Record<string, readonly ModelRow[]>>;
  /** By instance id. */
  readonly instances: Readonly<Record<string, InstanceRow>>;
  /** Absent in what a version before published. */
  readonly templates?: readonly LaunchTemplate[];
}

export const EMPTY_SNAPSHOT: RoutingSnapshot = { builtAtMs: 0, upstreams: {}, aliases: {}, models: {}, instances: {} };

/** Unambiguous, because neither account ids nor aliases contain spaces. */
export const aliasKey = (account: AccountId | null, alias: string): string => `${account ?? ""} ${alias}`;

/** `<name>:<instance_id>`; the id is a positive integer as the service writes it. */
const INSTANCE = /^(.+):([1-9]\d{0,14})$/;

export function parseInstanceModel(model: string): { name: string; instanceId: number } | undefined {
  const match = INSTANCE.exec(model);
  return match?.[1] && match[2] ? { name: match[1], instanceId: Number(match[2]) } : undefined;
}

/** All rows of a model in the price book, newest first. */
export const rowsOf = (routing: Pick<RoutingSnapshot, "models">, model: string): readonly ModelRow[] =>
  own(routing.models, model) ?? [];

/** The one that is valid now. */
export function rowOf(routing: Pick<RoutingSnapshot, "models">, model: string, nowMs: number): ModelRow | undefined {
  return rowsOf(routing, model).find((row) => row.fromMs <= nowMs);
}

/** Own properties only: a model may be named `constructor`. */
export function own<T>(record: Readonly<Record<string, T>>, name: string): T | undefined {
  return Object.hasOwn(record, name) ? record[name] : undefined;
}

/** The row that an alias is sold by: its own, or else that of the target that is asked first. */
export function pricedAs(
  routing: Pick<RoutingSnapshot, "models">,
  alias: AliasRow,
  nowMs: number,
): ModelRow | undefined {
  const first = alias.targets.reduce((best, target) => (target.priority < best.priority ? target : best));
  return rowOf(routing, alias.alias, nowMs) ?? rowOf(routing, first.model, nowMs);
}
