/**
 * Decides a compute call in one transaction: who calls, whether the key may, its limits, the row's rule; and stores
 * what was decided before anything is sent upstream (docs/design.md, compute: order of checks).
 */

import { roleRefusal, scopeRefusal } from "../../../core/account/call-access.ts";
import type { IdempotencyRef } from "../../../core/account/idempotency.ts";
import { namedLimitRefusal } from "../../../core/account/named-limits.ts";
import type { ComputeAnswer, ComputeRequest } from "../../../core/compute/calls.ts";
import { type AnyCall, type Facts, type GpuPrices, type Region, refuse } from "../../../core/compute/facts.ts";
import { gpuTypeOf, modelOf, storageModel } from "../../../core/compute/market.ts";
import { isMachine, type ResourceRow, type StorageKind } from "../../../core/compute/resource.ts";
import { rowIsShown } from "../../../core/compute/rows.ts";
import { mountedBy } from "../../../core/compute/storage-life.ts";
import type { ComputeEndpoint } from "../../../core/endpoints/compute/compute-endpoint.ts";
import type { KeyId } from "../../../core/ids.ts";
import { type Outcome, type Refused, refused } from "../../../core/outcome.ts";
import { planAt, tenantPrices } from "../../../core/pricing/prices.ts";
import { authenticate } from "../admission.ts";
import { expireDue } from "../expiry.ts";
import { countedFor } from "../named-counts.ts";
import type { AccountState, LiveCaller } from "../state.ts";
import type { Placed } from "../tables/resources.ts";
import { store } from "./resource-rows.ts";

/** Ended ones are shown for this long. */
const LISTED_FOR_MS = 7 * 86_400_000;
/** Rows in a list. */
const MOST_LISTED = 1_000;

/** A caller that may make the call, within its limit of calls. */
export interface Admitted {
  readonly caller: LiveCaller;
  readonly upstream: string;
  /** By the price book's row. */
  readonly prices: ReadonlyMap<string, GpuPrices & { readonly rule: string }>;
}

/** What upstream offers, as far as the call needs to know. */
export interface Offered {
  /** Of calls that do not depend on it: by a copy. */
  readonly shared: boolean;
  readonly registered: readonly string[];
  readonly regions: readonly Region[];
  readonly storageRegions: readonly string[];
}

/** Authority, scope, seat, and the calls of a minute, which this one counts against. */
export function admitCompute(
  state: AccountState,
  request: ComputeRequest,
  endpoint: ComputeEndpoint,
  nowMs: number,
): Outcome<{ admitted: Admitted }> {
  const found = authenticate(state, request.keyDigest, nowMs);
  if (!found.ok) return found;
  const { caller } = found;
  const account = state.tenants.account();
  if (!account.computeEnabled) return refuse({ kind: "not_enabled" });
  const scope = scopeRefusal(caller.key, endpoint.access);
  if (scope) return refused(scope);
  const upstream = account.computeUpstream;
  if (upstream === null) return refuse({ kind: "no_seat" });
  const calls = endpoint.limits.find(({ name }) => name === "compute_calls");
  const tooMany = calls && namedLimitRefusal(calls, countedFor(state, calls, endpoint.id, caller.key.id, nowMs), nowMs);
  if (tooMany) return refused(tooMany);
  state.countComputeCall(caller.key.id, nowMs);
  if (!request.body.ok) return request.body;
  return { ok: true, admitted: { caller, upstream, prices: pricesFor(state, request, nowMs) } };
}

function pricesFor(state: AccountState, { bookRows }: ComputeRequest, nowMs: number): Admitted["prices"] {
  const plan = planAt(state.tenants.account(), nowMs);
  return new Map(
    bookRows.map((row) => {
      const { prices: price, rule } = tenantPrices(row, plan, row.model);
      return [row.model, { price, cost: row.costNanoUsd, rule }] as const;
    }),
  );
}

/** The key and idempotency key under which a call was recorded. */
export interface Repeatable {
  readonly keyId: KeyId;
  readonly ref: IdempotencyRef;
}

/** What is to be sent for a row, once the transaction stands. `repeat`: forgotten if upstream refuses it. */
export interface Decided {
  readonly answer: Extract<ComputeAnswer, { ok: true }>;
  readonly send: { readonly placed: Placed; readonly call: AnyCall; readonly repeat: Repeatable | null } | null;
}

/** Reads, or applies the row's rule and stores what it decides. `offered`: for launches and new storage. */
export function decideCompute(
  state: AccountState,
  request: ComputeRequest,
  endpoint: ComputeEndpoint,
  { upstream, prices }: Admitted,
  offered: Offered,
  nowMs: number,
): Outcome<{ decided: Decided }> {
  // A launch has waited for the regions: the key may have been revoked since it was admitted.
  const found = authenticate(state, request.keyDigest, nowMs);
  if (!found.ok) return found;
  const { caller } = found;
  // Its seat may have moved too.
  if (state.tenants.account().computeUpstream !== upstream) return refuse({ kind: "unavailable", retryAfterMs: null });
  expireDue(state, nowMs);
  const gpuPrices = gpuPricesOf(prices);
  const { shared } = offered;
  const storagePrices = shared ? [] : [...storagePricesOf(prices)];
  const answer = (rows: readonly ResourceRow[]) =>
    ({ ok: true, upstream, rows, mounted: mountedOf(state, rows), gpuPrices, storagePrices, shared }) as const;
  const named = namedRow(state, request, endpoint);
  if (!named.ok) return named;
  const role = roleRefusal(caller.key, endpoint.access);
  if (role) return refused(role);
  const { decide } = endpoint;
  if (!decide || !request.body.ok) {
    const rows = named.placed ? [named.placed.row] : listed(state, endpoint, nowMs);
    return { ok: true, decided: { answer: answer([...rows, ...attachedRows(state, named.placed)]), send: null } };
  }
  const earlier = request.idempotency && state.resources.repeated(caller.key.id, request.idempotency, nowMs);
  if (earlier === "other_body") return refused({ kind: "idempotency", why: "other_body" });
  const repeated = earlier && state.resources.find(earlier.resource);
  if (repeated) return { ok: true, decided: { answer: answer([repeated.row]), send: null } };

  const facts = factsOf(state, request, { caller, upstream, prices }, named.placed, offered, nowMs);
  const decision = decide(facts, request.id ?? 0, request.body.body);
  const launches = launchRefusal(state, endpoint, caller, decision, nowMs);
  if (launches) return launches;
  if (!decision.ok) return decision;
  const { row } = decision;
  const placed = named.placed ? { ...named.placed, row } : placedNew(row, upstream, prices);
  const stored = store(state, placed, decision.acts, nowMs);
  for (const { row: other, acts } of decision.also ?? []) {
    const known = state.resources.find(other.id);
    store(state, known ? { ...known, row: other } : placedNew(other, upstream, prices), acts, nowMs);
  }
  const repeat = request.idempotency ? { keyId: caller.key.id, ref: request.idempotency } : null;
  if (repeat) state.resources.recordRepeatable(repeat.keyId, repeat.ref, row.id, nowMs);
  const send = decision.call && { placed: { ...placed, row: stored }, call: decision.call, repeat };
  return { ok: true, decided: { answer: answer([stored]), send } };
}

const gpuPricesOf = (prices: Admitted["prices"]): [string, GpuPrices][] =>
  [...prices].flatMap(([model, { price, cost }]) =>
    model.startsWith("gpu/") ? [[gpuTypeOf(model), { price, cost }] satisfies [string, GpuPrices]] : [],
  );

export const STORAGE_KINDS: readonly StorageKind[] = ["drive", "filesystem"];

const storagePricesOf = (prices: Admitted["prices"]): Facts["storagePrices"] =>
  new Map(
    STORAGE_KINDS.flatMap((kind) => {
      const found = prices.get(storageModel(kind));
      return found?.price.storage_gb_days ? [[kind, found] as const] : [];
    }),
  );

function placedNew(row: ResourceRow, upstream: string, prices: Admitted["prices"]): Placed {
  const model = "rental" in row ? modelOf(row) : "";
  return { upstream, priceRule: prices.get(model)?.rule ?? model, row };
}

/** The storage of a machine that a read by id shows. */
function attachedRows(state: AccountState, named: Placed | undefined): ResourceRow[] {
  if (!named || !isMachine(named.row)) return [];
  const { drives, filesystems } = named.row.launched;
  return [...drives, ...filesystems].flatMap(({ id }) => state.resources.find(id)?.row ?? []);
}

function mountedOf(state: AccountState, rows: readonly ResourceRow[]): number[] {
  if (rows.every(isMachine)) return [];
  const machines = state.resources.live().flatMap(({ row }) => (isMachine(row) ? [row] : []));
  return rows.filter(({ id }) => machines.some((machine) => mountedBy(machine, id))).map(({ id }) => id);
}

/** The row that the path names. Unknown, another account's, of another kind: one 404. */
function namedRow(
  state: AccountState,
  { id }: ComputeRequest,
  { on }: ComputeEndpoint,
): Outcome<{ placed: Placed | undefined }> {
  if (on === null) return { ok: true, placed: undefined };
  const placed = typeof id === "number" ? state.resources.find(id) : undefined;
  if (!placed || placed.row.kind !== on || !rowIsShown(placed.row)) return refuse({ kind: "not_found", what: on });
  return { ok: true, placed };
}

function listed(state: AccountState, { lists }: ComputeEndpoint, nowMs: number): ResourceRow[] {
  if (lists === null) return [];
  return state.resources
    .listed(lists, nowMs - LISTED_FOR_MS, MOST_LISTED)
    .map(({ row }) => row)
    .filter((row) => row.hiddenAtMs === null && rowIsShown(row));
}

/** Launches of a minute: said after what is wrong with the body, before state and money. */
function launchRefusal(
  state: AccountState,
  { limits, id }: ComputeEndpoint,
  { key }: LiveCaller,
  decision: ReturnType<NonNullable<ComputeEndpoint["decide"]>>,
  nowMs: number,
): Refused | undefined {
  const limit = limits.find(({ name }) => name === "launches");
  if (!limit || (!decision.ok && comesFirst(decision))) return undefined;
  const refusal = namedLimitRefusal(limit, countedFor(state, limit, id, key.id, nowMs), nowMs);
  return refusal && refused(refusal);
}

const comesFirst = ({ refusal }: Refused): boolean =>
  refusal.kind === "compute" && (refusal.refusal.kind === "invalid" || refusal.refusal.kind === "not_found");

function factsOf(
  state: AccountState,
  { deployment, random, sshFingerprint }: ComputeRequest,
  { caller, prices }: Admitted,
  named: Placed | undefined,
  offered: Offered,
  nowMs: number,
): Facts {
  const account = state.tenants.account();
  const live = state.resources.live().map(({ row }) => row);
  const rows = named && !live.some(({ id }) => id === named.row.id) ? [...live, named.row] : live;
  const { key, team } = caller;
  const launcher = named && named.row.by.keyId !== key.id ? state.keys.key(named.row.by.keyId) : undefined;
  const launchersTeam = launcher?.team ? (state.tenants.team(launcher.team) ?? null) : null;
  return {
    ...state.lengths,
    nowMs,
    account: account.number,
    deployment,
    by: { keyId: key.id, teamId: key.team, user: key.user },
    nextId: state.resources.nextId(),
    random,
    sshFingerprint,
    rows,
    maxGpus: {
      key: key.limits.maxGpus,
      team: team?.limits.maxGpus ?? null,
      account: account.limits.maxGpus,
    },
    money: state.money(),
    budgets: [
      ...state.budgets(caller, nowMs),
      ...(launcher ? state.budgets({ key: launcher, team: launchersTeam }, nowMs) : []),
    ],
    ...offered,
    gpuPrices: new Map(gpuPricesOf(prices)),
    storagePrices: storagePricesOf(prices),
  };
}
