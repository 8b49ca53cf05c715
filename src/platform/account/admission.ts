/**
 * Admission: authenticates the caller, checks permissions, limits, budgets and money, and writes the hold. Runs in the
 * caller's transaction, so the decision and the rows cannot differ. The decision itself is `decideAdmission` in core.
 */
import { type AdmissionFacts, decideAdmission } from "../../core/account/admission.ts";
import { type CallAccess, roleRefusal, scopeRefusal } from "../../core/account/call-access.ts";
import type { FreeCall } from "../../core/account/free-calls.ts";
import { type Admission, type AdmitRequest, continuing, type Hold, type Permission } from "../../core/account/hold.ts";
import { earlierRefusal } from "../../core/account/idempotency.ts";
import { ratesOf } from "../../core/account/limits.ts";
import { allowsModel } from "../../core/account/model-access.ts";
import { namedLimitRefusal } from "../../core/account/named-limits.ts";
import type { KeyDigest, KeyId } from "../../core/ids.ts";
import { type Outcome, type Refused, refused } from "../../core/outcome.ts";
import { earlierTokens, type Owned, type OwnedKind, type OwnedRef } from "../../core/owned.ts";
import { type FixedPrices, planAt, tenantPrices } from "../../core/pricing/prices.ts";
import type { LimitLevel, Refusal } from "../../core/refusal.ts";
import { unpaidRefusal } from "./compute/inference.ts";
import { expireDue } from "./expiry.ts";
import { countedFor } from "./named-counts.ts";
import type { AccountState, LiveCaller } from "./state.ts";
import type { HoldRow, HoldTimes, NewHold } from "./tables/holds.ts";
import { subjectOf } from "./tables/limit-scopes.ts";

export function admit(state: AccountState, request: AdmitRequest, nowMs: number, times: HoldTimes): Admission {
  expireDue(state, nowMs);
  const found = authenticate(state, request.keyDigest, nowMs);
  if (!found.ok) return found;
  const { caller } = found;
  const forbidden = forbid(caller, request.access, request.model);
  if (forbidden) return refused(forbidden);
  const named = findOwned(state, request.owned, nowMs);
  if (!named.ok) return named;
  const { owned } = named;
  const other = owned.find((one) => one.model !== request.model);
  if (other) return refused(anotherModel(other));
  const known = state.holds.find(request.callId);
  if (known) return admitAgain(state, caller, known, owned, nowMs, times);
  const earlier = sentBefore(state, caller, request, nowMs);
  if (earlier) return refuseRepeat(state, caller, earlier, nowMs);

  const unpaid = unpaidRefusal(state, request.hourly ?? [], nowMs);
  if (unpaid) return refused(unpaid);
  const facts = factsOf(state, caller, request, owned, nowMs);
  const { levels, fixed } = facts;
  const tooMany = namedRefusal(state, request, caller.key.id, nowMs);
  if (tooMany) return { ok: false, refusal: tooMany, rates: ratesOf(levels, nowMs) };
  const decision = decideAdmission(facts);
  if (!decision.ok) {
    const { refusal } = decision;
    return refusal.kind === "rate_limit" ? { ok: false, refusal, rates: ratesOf(levels, nowMs) } : refused(refusal);
  }
  const hold: NewHold = {
    callId: request.callId,
    keyId: caller.key.id,
    teamId: caller.key.team,
    endpoint: request.endpoint,
    model: request.model,
    alias: request.alias,
    ...decision.grant,
    prices: fixed.prices,
    priceRule: fixed.rule,
    startedAtMs: request.startedAtMs,
    admittedAtMs: nowMs,
    expiresAtMs: nowMs + times.ttlMs,
    rental: null,
  };
  state.hold(hold);
  if (request.job) state.returnFreeCall(caller, "upstream", nowMs);
  if (request.idempotency) state.idempotency.begin(caller.key.id, request.idempotency, request.callId, nowMs);
  return { ok: true, hold: toHold(state, hold, times, nowMs), rates: ratesOf(levels, nowMs), owned };
}

type Facts = AdmissionFacts & { readonly fixed: FixedPrices };

const factsOf = (
  state: AccountState,
  caller: LiveCaller,
  { model, bound, row }: AdmitRequest,
  owned: readonly Owned[],
  nowMs: number,
): Facts => {
  const fixed = tenantPrices(row, planAt(state.tenants.account(), nowMs), model);
  return {
    model,
    bound: continuing(bound, earlierTokens(owned), row.contextTokens),
    prices: fixed.prices,
    fixed,
    free: row.free,
    levels: state.levels(caller, nowMs),
    budgets: state.budgets(caller, nowMs),
    money: state.money(),
    nowMs,
  };
};

/** Whether the call is refused now, and would not be if nothing were leased out that may soon come back. */
export function waitsForLeases(state: AccountState, request: AdmitRequest, nowMs: number): boolean {
  if (!state.leases.soonClosed(nowMs)) return false;
  const found = authenticate(state, request.keyDigest, nowMs);
  if (!found.ok || state.holds.find(request.callId)) return false;
  if (unpaidRefusal(state, request.hourly ?? [], nowMs) && state.leases.paused(nowMs)) return true;
  const { caller } = found;
  const named = findOwned(state, request.owned, nowMs);
  const facts = factsOf(state, caller, request, named.ok ? named.owned : [], nowMs);
  if (decideAdmission(facts).ok) return false;
  const leased = (level: LimitLevel) => state.leases.of(subjectOf(caller, level));
  const { money } = facts;
  return decideAdmission({
    ...facts,
    levels: facts.levels.map(({ leased: _, ...use }) => ({ ...use, slots: use.slots - leased(use.level).slots })),
    budgets: facts.budgets.map((use) => ({ ...use, heldNanoUsd: use.heldNanoUsd - leased(use.level).nanoUsd })),
    money: { ...money, heldNanoUsd: money.heldNanoUsd - leased("account").nanoUsd },
  }).ok;
}

/** Admission of a free call, which is counted. Without `free` only the key is checked, and nothing is counted. */
export function authorize(
  state: AccountState,
  digest: KeyDigest,
  free: FreeCall | undefined,
  nowMs: number,
): Permission {
  const found = authenticate(state, digest, nowMs);
  if (!found.ok) return found;
  const named: Found = free ? findReadable(state, found.caller, free, nowMs) : { ok: true, owned: [] };
  // Refused calls count too, so that a client cannot probe ids without limit.
  const tooMany = free && state.takeFree(found.caller, named.ok ? free.reach : "local", nowMs);
  if (tooMany) return refused(tooMany);
  if (!named.ok) return named;
  const { key } = found.caller;
  return {
    ok: true,
    keyId: key.id,
    teamId: key.team,
    accountId: state.tenants.account().id,
    models: key.models,
    rates: ratesOf(state.levels(found.caller, nowMs), nowMs),
    owned: named.owned,
  };
}

/** The name of each kind in error messages. */
const KIND_WORDS: Record<OwnedKind, "response" | "video job"> = { response: "response", video_job: "video job" };

type Found = Outcome<{ owned: readonly Owned[] }>;

/** Every id must belong to this account. Foreign and unknown ids get the same refusal: neither is in the table. */
function findOwned(state: AccountState, refs: readonly OwnedRef[], nowMs: number): Found {
  const owned: Owned[] = [];
  for (const ref of refs) {
    const found = ref.kind === "video_job" ? findJobAsOwned(state, ref, nowMs) : state.ownedIds.find(ref, nowMs);
    if (!found) return refused({ kind: "id_not_found", what: KIND_WORDS[ref.kind] });
    owned.push(found);
  }
  return { ok: true, owned };
}

/** A job lives where it was submitted. It brings no tokens along. */
function findJobAsOwned(state: AccountState, ref: OwnedRef, nowMs: number): Owned | undefined {
  const job = state.jobs.findKept(ref.id, nowMs);
  return job && { ...ref, upstream: job.upstream, targetModel: job.targetModel, model: job.model, totalTokens: 0 };
}

/** Like `findOwned`, for reading. The key must also be allowed the call, and the models that made the ids. */
function findReadable(state: AccountState, caller: LiveCaller, { owned, access }: FreeCall, nowMs: number): Found {
  const named = findOwned(state, owned, nowMs);
  if (!named.ok) return named;
  const refusal = forbid(caller, access, ...named.owned.map(({ model }) => model));
  return refusal ? refused(refusal) : named;
}

const anotherModel = ({ kind, model }: Owned): Refusal => ({
  kind: "invalid_request",
  message: `This ${KIND_WORDS[kind]} was made with \`${model}\`. Keep the same model across a conversation.`,
  param: "model",
});

type Authentication = Outcome<{ caller: LiveCaller }>;

/** Finds the live key, team and account behind a digest, or refuses with the reason. */
export function authenticate(state: AccountState, digest: KeyDigest, nowMs: number): Authentication {
  const refuse = (why: "unknown" | "revoked" | "expired" | "blocked"): Authentication => ({
    ok: false,
    refusal: { kind: "bad_key", why },
  });
  const found = state.keys.find(digest);
  if (!found) return refuse("unknown");
  const { key, validUntilMs } = found;
  if (key.revokedAtMs !== null || (validUntilMs !== null && nowMs >= validUntilMs)) return refuse("revoked");
  if (key.expiresAtMs !== null && nowMs >= key.expiresAtMs) return refuse("expired");
  const account = state.tenants.account();
  if (key.blocked || account.blocked || account.deletedAtMs !== null) return refuse("blocked");
  if (key.team === null) return { ok: true, caller: { key, team: null } };
  const team = state.tenants.team(key.team);
  if (!team || team.blocked || team.deletedAtMs !== null) return refuse("blocked");
  return { ok: true, caller: { key, team } };
}

/** Why the key may not make the call, or not with one of these models. */
export function forbid({ key }: LiveCaller, access: CallAccess, ...models: readonly string[]): Refusal | undefined {
  const model = models.find((one) => !allowsModel(key.models, one));
  return (
    scopeRefusal(key, access) ??
    roleRefusal(key, access) ??
    (model === undefined ? undefined : { kind: "model_not_allowed", model })
  );
}

/** The first of the row's own limits that is used up. */
export function namedRefusal(
  state: AccountState,
  { limits, endpoint }: Pick<AdmitRequest, "limits" | "endpoint">,
  key: KeyId,
  nowMs: number,
): Refusal | undefined {
  for (const limit of limits) {
    const refusal = namedLimitRefusal(limit, countedFor(state, limit, endpoint, key, nowMs), nowMs);
    if (refusal) return refusal;
  }
  return undefined;
}

/**
 * Refuses a call whose idempotency key was used before, naming the earlier call. It gets no hold and counts against no
 * limit.
 */
export function sentBefore(
  state: AccountState,
  { key }: LiveCaller,
  { idempotency }: Pick<AdmitRequest, "idempotency">,
  nowMs: number,
): (Admission & { ok: false }) | undefined {
  const earlier = idempotency && state.idempotency.find(key.id, idempotency, nowMs);
  if (!earlier) return undefined;
  if (earlier === "other_body") return refused({ kind: "idempotency", why: "other_body" });
  return { ok: false, refusal: earlierRefusal(earlier), earlier };
}

/**
 * Counts a repeated call as a free call, because it holds nothing. It reaches the upstream if its answer is read back.
 * While the first call runs, clients poll it; those polls are not counted, the final one is.
 */
export function refuseRepeat<Repeat extends NonNullable<ReturnType<typeof sentBefore>>>(
  state: AccountState,
  caller: LiveCaller,
  repeat: Repeat,
  nowMs: number,
): Repeat | Refused {
  const { earlier } = repeat;
  if (earlier?.state === "running") return repeat;
  const readBack = earlier?.state === "completed" && earlier.created?.kind === "response";
  const refusal = state.takeFree(caller, readBack ? "upstream" : "local", nowMs);
  return refusal ? refused(refusal) : repeat;
}

/**
 * The caller sent the same call id again because it lost our answer. Returns the existing hold; throws if that hold has
 * ended.
 */
function admitAgain(
  state: AccountState,
  caller: LiveCaller,
  known: HoldRow,
  owned: readonly Owned[],
  nowMs: number,
  times: HoldTimes,
): Admission {
  if (known.state !== "open" || known.keyId !== caller.key.id) throw new Error(`call ${known.callId} was used before`);
  const hold = toHold(state, known, times, nowMs);
  return { ok: true, hold, rates: ratesOf(state.levels(caller, nowMs), nowMs), owned };
}

function toHold(state: AccountState, hold: NewHold, times: HoldTimes, nowMs: number): Hold {
  return {
    callId: hold.callId,
    keyId: hold.keyId,
    amountNanoUsd: hold.amountNanoUsd,
    ...(hold.outputCap !== undefined && { outputCap: hold.outputCap }),
    livesMs: hold.expiresAtMs - nowMs,
    // One TTL shorter than the hold's longest life, so a call always ends before its hold does.
    longestCallMs: times.longestMs - times.ttlMs,
    onDisconnect: state.tenants.account().onDisconnect,
  };
}
