/** Records that a call of a known key was refused, and which limit it met. Writes no row (refused-buffer.ts). */
import type { FreeCall } from "../../core/account/free-calls.ts";
import type { Admission, AdmitRequest, Permission } from "../../core/account/hold.ts";
import type { Inquired, Inquiry } from "../../core/account/precheck.ts";
import type { AskedAbout, Met } from "../../core/account/refused-call.ts";
import { toHttp } from "../../core/http-refusal.ts";
import type { KeyDigest } from "../../core/ids.ts";
import type { Outcome } from "../../core/outcome.ts";
import type { LimitLevel, Refusal } from "../../core/refusal.ts";
import { admit, authorize } from "./admission.ts";
import { inquire } from "./precheck.ts";
import type { AccountState } from "./state.ts";
import type { HoldTimes } from "./tables/holds.ts";
import type { Scope } from "./tables/limit-scopes.ts";

/** A call as it was asked about; `model` is null until it was found. */
interface Asked extends AskedAbout {
  readonly model: string | null;
}

export const admitNoting = (state: AccountState, request: AdmitRequest, nowMs: number, times: HoldTimes): Admission =>
  noted(state, request.keyDigest, request, admit(state, request, nowMs, times), nowMs);

export const inquireNoting = (state: AccountState, inquiry: Inquiry, nowMs: number): Inquired =>
  noted(state, inquiry.keyDigest, inquiry, inquire(state, inquiry, nowMs), nowMs);

export const authorizeNoting = (
  state: AccountState,
  digest: KeyDigest,
  free: FreeCall | undefined,
  about: AskedAbout | undefined,
  nowMs: number,
): Permission => noted(state, digest, about && { ...about, model: null }, authorize(state, digest, free, nowMs), nowMs);

/** Records the refusal of an answer, if it is one; gives the answer. */
function noted<Answer extends Outcome<object, object>>(
  state: AccountState,
  digest: KeyDigest,
  asked: Asked | undefined,
  answer: Answer,
  nowMs: number,
): Answer {
  if (!asked) return answer;
  const refusal = answer.ok ? undefined : (answer as { readonly refusal: Refusal }).refusal;
  if (refusal || asked.refused) note(state, digest, asked, refusal, nowMs);
  return answer;
}

/** Without a `refusal` the key is live, and the pipeline's own reason stands. */
function note(state: AccountState, digest: KeyDigest, asked: Asked, refusal: Refusal | undefined, nowMs: number): void {
  const key = state.keys.find(digest)?.key;
  if (!key) return;
  const { callId, endpoint, model, startedAtMs } = asked;
  const reason = refusal ? reasonOf(refusal) : (asked.refused?.reason ?? "internal");
  const [level, limit] = refusal ? limitIn(refusal) : ([null, ""] as const);
  state.refused.add({ key: key.id, level: level ?? "", limit, reason }, nowMs, () => {
    const team = (key.team !== null && state.tenants.team(key.team)) || null;
    return {
      callId,
      atMs: nowMs,
      startedAtMs,
      key: key.id,
      team: key.team,
      endpoint,
      model,
      status: refusal ? toHttp(refusal).status : (asked.refused?.status ?? 500),
      reason,
      param: refusal ? null : (asked.refused?.param ?? null),
      met: refusal ? metBy(state, { key, team }, refusal, nowMs) : null,
    };
  });
}

/** A dead key says why it is dead. */
const reasonOf = (refusal: Refusal): string => (refusal.kind === "bad_key" ? `key_${refusal.why}` : refusal.kind);

/** Cheap: it is asked for each refusal of a flood. */
function limitIn(refusal: Refusal): readonly [level: LimitLevel | null, limit: string] {
  switch (refusal.kind) {
    case "rate_limit":
      return [refusal.level, refusal.limit];
    case "budget_spent":
      return [refusal.level, "max_budget"];
    case "no_credit":
      return ["account", "balance"];
    case "named_limit":
      return [refusal.limit.per, refusal.limit.name];
    default:
      return [null, ""];
  }
}

function metBy(state: AccountState, scope: Scope, refusal: Refusal, nowMs: number): Met | null {
  const [level, limit] = limitIn(refusal);
  if (level === null) return null;
  const id = { key: scope.key?.id, team: scope.team?.id, account: state.tenants.account().id }[level] ?? "";
  const freesIn = (ms: number | null) => (ms === null ? null : nowMs + ms);
  const of = { level, id, limit };
  switch (refusal.kind) {
    case "rate_limit":
      return {
        ...of,
        used: usedOf(state, scope, refusal, nowMs),
        allowed: refusal.allowed,
        freesAtMs: freesIn(refusal.retryAfterMs),
      };
    case "budget_spent": {
      const budget = state.budgets(scope, nowMs).find((use) => use.level === level);
      const used = budget ? budget.spentNanoUsd + budget.heldNanoUsd : null;
      return { ...of, used, allowed: refusal.budgetNanoUsd, freesAtMs: freesIn(refusal.retryAfterMs) };
    }
    case "no_credit":
      return {
        ...of,
        used: refusal.heldNanoUsd,
        allowed: refusal.heldNanoUsd + refusal.availableNanoUsd,
        freesAtMs: null,
      };
    case "named_limit":
      return {
        ...of,
        used: refusal.limit.count,
        allowed: refusal.limit.count,
        freesAtMs: freesIn(refusal.retryAfterMs),
      };
    default:
      return null;
  }
}

function usedOf(
  state: AccountState,
  scope: Scope,
  { level, limit }: Extract<Refusal, { kind: "rate_limit" }>,
  nowMs: number,
): number | null {
  if (limit === "free_rpm_limit") {
    return (
      state
        .freeLevels(scope, "upstream", nowMs)
        .find((use) => use.level === level)
        ?.calls.used(nowMs) ?? null
    );
  }
  const use = state.levels(scope, nowMs).find((one) => one.level === level);
  if (!use) return null;
  if (limit === "max_parallel_requests") return use.slots;
  const count = { rpm_limit: use.requests, tpm_limit: use.tokens, rpd_limit: use.dayRequests }[limit];
  return count?.used(nowMs) ?? null;
}
