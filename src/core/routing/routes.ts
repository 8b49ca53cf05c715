/**
 * Routing: which targets may serve a call, in which order they are tried, and what a failure means for the next try.
 * Pure over given tables, times and randomness; sending is the gateway's. It knows no accounts beyond their id, and no
 * money.
 *
 * This file: the operator's routing tables as plain data, and the resolution of a model name.
 */

import type { AccountId } from "../ids.ts";
import type { LaunchTemplate } from "../launch-templates.ts";
import type { Outcome } from "../outcome.ts";
import type { Owned } from "../owned.ts";
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

/** Where a call may go, and the price row that applies. */
export interface Route {
  /** The name that the tenant used. */
  readonly model: string;
  readonly alias: string | null;
  /** At least one. */
  readonly targets: readonly Target[];
  readonly row: ModelRow;
  readonly retryOn: readonly (500 | 502)[];
  /** True on the owner's own instance: its 402 and 404 pass. */
  readonly ownInstance: boolean;
  /** Ids of instances among the targets whose time has to be paid. */
  readonly hourly?: readonly number[];
  /** The upstream's path, if it differs from the endpoint's. */
  readonly upstreamPath?: string;
}

/** The only target that knows an id of the service; later calls with that id go there. */
export const pinnedTo = (owned: Pick<Owned, "upstream" | "targetModel">): readonly Target[] => [
  { upstream: owned.upstream, model: owned.targetModel, priority: 0, weight: 1 },
];

/** `missing`: the snapshot lacks the name; look it up in the operator's books before answering this refusal. */
export type Resolution = Outcome<{ route: Route }, { missing: boolean }>;

/** `<name>:<instance_id>`; the id is a positive integer as the service writes it. */
const INSTANCE = /^(.+):([1-9]\d{0,14})$/;

export function parseInstanceModel(model: string): { name: string; instanceId: number } | undefined {
  const match = INSTANCE.exec(model);
  return match?.[1] && match[2] ? { name: match[1], instanceId: Number(match[2]) } : undefined;
}

/** The price book row of a model that is valid now. */
export function rowOf(routing: Pick<RoutingSnapshot, "models">, model: string, nowMs: number): ModelRow | undefined {
  return own(routing.models, model)?.find((row) => row.fromMs <= nowMs);
}

/** Own properties only: a model may be named `constructor`. */
function own<T>(record: Readonly<Record<string, T>>, name: string): T | undefined {
  return Object.hasOwn(record, name) ? record[name] : undefined;
}

/** What an endpoint serves. */
export interface Serves {
  readonly kinds: readonly ModelKind[];
  /** Whether user instances may be called there. */
  readonly instances: boolean;
}

/**
 * Resolves a called name in the order of docs/design.md, section 2: the account's own alias, an alias,
 * `<name>:<integer>` (always an instance), a model row with an upstream.
 */
export function resolveModel(
  routing: RoutingSnapshot,
  account: AccountId,
  model: string,
  serves: Serves,
  nowMs: number,
): Resolution {
  const alias = own(routing.aliases, aliasKey(account, model)) ?? own(routing.aliases, aliasKey(null, model));
  if (alias) return resolveAlias(routing, alias, serves, nowMs);
  const instance = parseInstanceModel(model);
  if (instance) return resolveInstance(routing, account, model, instance, serves, nowMs);
  const row = rowOf(routing, model, nowMs);
  if (!row?.upstream) return { ok: false, missing: true, refusal: { kind: "model_not_found", model } };
  return priced(model, null, [{ upstream: row.upstream, model, priority: 0, weight: 1 }], row, serves.kinds);
}

export function resolveAlias(routing: RoutingSnapshot, alias: AliasRow, serves: Serves, nowMs: number): Resolution {
  if (!serves.instances && alias.targets.some((target) => parseInstanceModel(target.model))) {
    return wrongKind(alias.alias, "user inference instances");
  }
  const first = alias.targets.reduce((best, target) => (target.priority < best.priority ? target : best));
  const row = rowOf(routing, alias.alias, nowMs) ?? rowOfTarget(routing, first.model, nowMs);
  return withHourly(routing, priced(alias.alias, alias.alias, alias.targets, row, serves.kinds, alias.retryOn));
}

/** Sent as the output cap of an hourly chat instance without a row of its own. */
const HOURLY_OUTPUT_TOKENS = 4_096;

/** The row that a target's calls are priced by. Those of an instance by the hour cost nothing, with a row or without. */
export function rowOfTarget(routing: RoutingSnapshot, model: string, nowMs: number): ModelRow | undefined {
  const row = rowOf(routing, model, nowMs);
  const named = parseInstanceModel(model);
  const instance = named && own(routing.instances, String(named.instanceId));
  if (!instance?.hourly) return row;
  const { kind } = instance;
  const none = { model, kind, fromMs: 0, costNanoUsd: {}, priceNanoUsd: {}, maxOutputTokens: HOURLY_OUTPUT_TOKENS };
  return { ...(row ?? none), free: true };
}

function withHourly(routing: RoutingSnapshot, resolution: Resolution): Resolution {
  if (!resolution.ok) return resolution;
  const hourly = resolution.route.targets.flatMap(({ model }) => {
    const id = parseInstanceModel(model)?.instanceId;
    return id !== undefined && own(routing.instances, String(id))?.hourly ? [id] : [];
  });
  return hourly.length === 0 ? resolution : { ok: true, route: { ...resolution.route, hourly } };
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

/** Unknown ids and other accounts' ids get the same answer after the same look-ups, so ids cannot be probed. */
const notYourInstance: Resolution = { ok: false, missing: true, refusal: { kind: "not_your_instance" } };

function resolveInstance(
  routing: RoutingSnapshot,
  account: AccountId,
  model: string,
  called: { name: string; instanceId: number },
  serves: Serves,
  nowMs: number,
): Resolution {
  const instance = own(routing.instances, String(called.instanceId));
  if (!instance || instance.account !== account || instance.name !== called.name) {
    return notYourInstance;
  }
  if (!serves.instances) return wrongKind(model, "user inference instances");
  if (!serves.kinds.includes(instance.kind)) return wrongKind(model, instance.kind);
  const targets = instance.upstreams.map((upstream) => ({ upstream, model, priority: 0, weight: 1 }));
  const row = rowOfTarget(routing, model, nowMs);
  const resolution = withHourly(routing, priced(model, null, targets, row, serves.kinds));
  return resolution.ok ? { ok: true, route: { ...resolution.route, ownInstance: true } } : resolution;
}

/**
 * Resolves a custom instance by the id in a path. The requested path must equal, letter by letter, the one
 * made of its stored id and path; other spellings are not served.
 */
export function resolveCustomInstance(
  routing: RoutingSnapshot,
  account: AccountId,
  asked: { readonly id: string; readonly askedPath: string },
  nowMs: number,
): Resolution {
  const instance = /^[1-9]\d{0,14}$/.test(asked.id) ? own(routing.instances, asked.id) : undefined;
  if (!instance || instance.account !== account) {
    return notYourInstance;
  }
  const model = `${instance.name}:${instance.instanceId}`;
  if (instance.kind !== "custom" || instance.customApiPath === null) return wrongKind(model, instance.kind);
  const upstreamPath = `/inference-instances/${instance.instanceId}/proxy/${instance.customApiPath}`;
  if (asked.askedPath !== upstreamPath) {
    const message = `This instance is served at ${upstreamPath} only, as it stands and without a query.`;
    return { ok: false, missing: false, refusal: { kind: "invalid_request", message, param: "custom_api_path" } };
  }
  const targets = instance.upstreams.map((upstream) => ({ upstream, model, priority: 0, weight: 1 }));
  const resolution = withHourly(routing, priced(model, null, targets, rowOfTarget(routing, model, nowMs), ["custom"]));
  if (!resolution.ok) return resolution;
  return { ok: true, route: { ...resolution.route, ownInstance: true, upstreamPath } };
}

function priced(
  model: string,
  alias: string | null,
  targets: readonly Target[],
  row: ModelRow | undefined,
  kinds: readonly ModelKind[],
  retryOn: readonly (500 | 502)[] = [],
): Resolution {
  if (!row) return { ok: false, missing: true, refusal: { kind: "model_not_priced", model } };
  if (!kinds.includes(row.kind)) return wrongKind(model, row.kind);
  return { ok: true, route: { model, alias, targets, row, retryOn, ownInstance: false } };
}

function wrongKind(model: string, kind: string): Resolution {
  return {
    ok: false,
    missing: false,
    refusal: {
      kind: "invalid_request",
      message: `The model \`${model}\` does not support this endpoint (it is for ${kind}).`,
      param: "model",
      code: "model_not_supported",
    },
  };
}
