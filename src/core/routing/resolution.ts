/** A called model name becomes a route: the targets it may go to, and the row that prices it. */
import type { AccountId } from "../ids.ts";
import type { Outcome } from "../outcome.ts";
import type { Owned } from "../owned.ts";
import type { ModelKind, ModelRow } from "../pricing/prices.ts";
import {
  type AliasRow,
  aliasKey,
  own,
  parseInstanceModel,
  type RoutingSnapshot,
  rowOf,
  type Target,
} from "./routes.ts";

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
  // A target that is drained still sets the price: to drain one moves traffic, and no price.
  const row = rowOf(routing, alias.alias, nowMs) ?? rowOfTarget(routing, first.model, nowMs);
  const targets = alias.targets.filter(({ drain }) => !drain);
  if (targets.length === 0) {
    return { ok: false, missing: false, refusal: { kind: "no_healthy_upstream", retryAfterMs: null } };
  }
  return withHourly(routing, priced(alias.alias, alias.alias, targets, row, serves.kinds, alias.retryOn));
}

/** Sent as the output cap of an hourly chat instance without a row of its own. */
const HOURLY_OUTPUT_TOKENS = 4_096;

/**
 * The row that a target's calls are priced by. Those of an instance by the hour cost nothing, with a row or without.
 */
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
