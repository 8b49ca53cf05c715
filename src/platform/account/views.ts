/** Answers what the API asks to see of an account: nothing here changes a row. */
import {
  type AccountViews,
  type LedgerSpan,
  type LevelView,
  type LimitView,
  MOST_CREDITS,
  type Used,
  type ViewName,
} from "../../core/account/account-views.ts";
import type { LevelUse } from "../../core/account/limits.ts";
import type { Page, PageRequest } from "../../core/account/tenant.ts";
import type { TrailingCount } from "../../core/account/trailing-count.ts";
import type { AccountState } from "./state.ts";
import type { Scope, Subject } from "./tables/limit-scopes.ts";

type Views = {
  readonly [Name in ViewName]: (
    state: AccountState,
    ask: AccountViews[Name]["ask"],
    nowMs: number,
  ) => AccountViews[Name]["answer"];
};

const VIEWS: Views = {
  span: spanOf,
  limits: limitsOf,
  used: (state, { keys = [], teams = [] }) => [
    ...keys.map((id) => usedBy(state, `key:${id}`)),
    ...teams.map((id) => usedBy(state, `team:${id}`)),
  ],
};

export const viewOf = <Name extends ViewName>(
  state: AccountState,
  name: Name,
  ask: AccountViews[Name]["ask"],
  nowMs: number,
): AccountViews[Name]["answer"] => VIEWS[name](state, ask, nowMs);

function spanOf({ ledger }: AccountState, { fromMs, toMs }: AccountViews["span"]["ask"]): LedgerSpan {
  const [before, last] = [ledger.lastBefore(fromMs), ledger.lastBefore(toMs)];
  return {
    openingNanoUsd: before.balanceNanoUsd,
    closingNanoUsd: last.balanceNanoUsd,
    ...ledger.creditsBetween(before.id, last.id, MOST_CREDITS),
  };
}

/** What a page of limits goes on with: teams or keys after a number. The account stands before all of them. */
const CURSOR = /^(teams|keys):(\d{1,15})$/;

function limitsOf(state: AccountState, { cursor, limit }: PageRequest, nowMs: number): Page<LevelView> {
  const [, kind = "teams", after = null] = CURSOR.exec(cursor ?? "") ?? [];
  const data: LevelView[] = cursor === null ? [levelView(state, { key: null, team: null }, nowMs)] : [];
  if (kind === "teams") {
    const teams = state.tenants.teams({ cursor: after, limit: Math.max(1, limit - data.length) });
    data.push(...teams.data.map((team) => levelView(state, { key: null, team }, nowMs)));
    if (teams.nextCursor !== null) return { data, nextCursor: `teams:${teams.nextCursor}` };
    if (data.length >= limit) return { data, nextCursor: "keys:0" };
  }
  const from = kind === "keys" ? after : null;
  const keys = state.keys.keys({ cursor: from, limit: limit - data.length });
  data.push(...keys.data.map((key) => levelView(state, { key, team: null }, nowMs)));
  return { data, nextCursor: keys.nextCursor && `keys:${keys.nextCursor}` };
}

/** The narrowest level of a scope. */
function levelView(state: AccountState, scope: Scope, nowMs: number): LevelView {
  const [use] = state.levels(scope, nowMs);
  if (!use) throw new Error("an account has a level of its own");
  const account = state.tenants.account();
  const { id, name } = scope.key ?? scope.team ?? account;
  const subject: Subject = scope.key ? `key:${scope.key.id}` : scope.team ? `team:${scope.team.id}` : "account";
  const limits = [...windowsOf(use, nowMs), ...moneyOf(state, scope, nowMs)];
  return { level: use.level, id, name, limits, ...usedBy(state, subject) };
}

function windowsOf({ limits, requests, tokens, dayRequests, slots }: LevelUse, nowMs: number): readonly LimitView[] {
  const trailing = (
    limit: "rpm_limit" | "tpm_limit" | "rpd_limit",
    count: TrailingCount | null,
  ): readonly LimitView[] => {
    const allowed = limits[limit];
    if (allowed === null || count === null) return [];
    const used = count.used(nowMs);
    return [{ limit, allowed, used, freesAtMs: used < allowed ? null : count.fitsAtMs(1, allowed, nowMs) }];
  };
  const parallel = limits.max_parallel_requests;
  return [
    ...trailing("rpm_limit", requests),
    ...trailing("tpm_limit", tokens),
    ...trailing("rpd_limit", dayRequests),
    ...(parallel === null
      ? []
      : [{ limit: "max_parallel_requests", allowed: parallel, used: slots, freesAtMs: null } as const]),
  ];
}

function moneyOf(state: AccountState, scope: Scope, nowMs: number): readonly LimitView[] {
  const [free] = state.freeLevels(scope, "upstream", nowMs);
  const [budget] = state.budgets(scope, nowMs);
  const narrowest = scope.key ? "key" : scope.team ? "team" : "account";
  const views: LimitView[] = [];
  if (free?.level === narrowest) {
    const used = free.calls.used(nowMs);
    const freesAtMs = used < free.allowed ? null : free.calls.fitsAtMs(1, free.allowed, nowMs);
    views.push({ limit: "free_rpm_limit", allowed: free.allowed, used, freesAtMs });
  }
  if (budget?.level === narrowest) {
    const used = budget.spentNanoUsd + budget.heldNanoUsd;
    views.push({ limit: "max_budget", allowed: budget.budgetNanoUsd, used, freesAtMs: budget.endsAtMs });
  }
  return views;
}

const usedBy = ({ spending }: AccountState, subject: Subject): Used => ({
  // Of all time: the window of `total` never renews.
  spentNanoUsd: spending.spent(subject, "total", Number.MAX_SAFE_INTEGER),
  lastUsedAtMs: spending.lastMs(subject),
});
