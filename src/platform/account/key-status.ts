/**
 * Limits, budgets and money of a key, shown to its holder; read in one transaction. Counts as a free call that stays
 * local.
 */

import { CHANGES_A_MINUTE } from "../../core/account/change-record.ts";
import type { LevelStanding, StandingAnswer } from "../../core/account/key-status.ts";
import type { Account } from "../../core/account/tenant.ts";
import { MINUTE, TrailingCount } from "../../core/account/trailing-count.ts";
import type { KeyDigest } from "../../core/ids.ts";
import { refused } from "../../core/outcome.ts";
import type { Refusal } from "../../core/refusal.ts";
import { authenticate } from "./admission.ts";
import { expireDue } from "./expiry.ts";
import type { AccountState } from "./state.ts";

/** Changes that the account's keys tried, refused ones too; forgotten with the state. */
const tried = new WeakMap<AccountState, TrailingCount>();

/** `change`: the caller is about to change keys or teams. */
export function standing(
  state: AccountState,
  digest: KeyDigest,
  purpose: "read" | "change",
  nowMs: number,
): StandingAnswer {
  expireDue(state, nowMs);
  const found = authenticate(state, digest, nowMs);
  if (!found.ok) return found;
  const refusal = state.takeFree(found.caller, "local", nowMs);
  if (refusal) return refused(refusal);
  const often = purpose === "change" ? tooOften(state, nowMs) : undefined;
  if (often) return refused(often);
  const { key, team } = found.caller;
  const freeLevels = state.freeLevels(found.caller, "upstream", nowMs);
  const budgets = state.budgets(found.caller, nowMs);
  const levels = state.levels(found.caller, nowMs).map((use): LevelStanding => {
    const free = freeLevels.find(({ level }) => level === use.level);
    const budget = budgets.find(({ level }) => level === use.level);
    return {
      level: use.level,
      limits: use.limits,
      requests: use.requests.used(nowMs),
      tokens: use.tokens.used(nowMs),
      dayRequests: use.dayRequests?.used(nowMs) ?? null,
      free: free ? { used: free.calls.used(nowMs), allowed: free.allowed } : null,
      slots: use.slots,
      budget: budget
        ? { spentNanoUsd: budget.spentNanoUsd, heldNanoUsd: budget.heldNanoUsd, endsAtMs: budget.endsAtMs }
        : null,
    };
  });
  return { ok: true, standing: { account: accountOf(state), team, key, levels } };
}

function tooOften(state: AccountState, nowMs: number): Refusal | undefined {
  const changes = tried.get(state) ?? new TrailingCount(MINUTE);
  tried.set(state, changes);
  const fitsAtMs = changes.fitsAtMs(1, CHANGES_A_MINUTE, nowMs) ?? nowMs;
  if (fitsAtMs > nowMs) {
    return { kind: "too_many_changes", allowed: CHANGES_A_MINUTE, in: "minute", retryAfterMs: fitsAtMs - nowMs };
  }
  changes.add(nowMs, 1);
  return undefined;
}

function accountOf(state: AccountState): Account {
  const { toleratedNanoUsd: _, ...account } = state.tenants.account();
  return { ...account, balanceNanoUsd: state.ledger.balanceNanoUsd, heldNanoUsd: state.heldNanoUsd };
}
