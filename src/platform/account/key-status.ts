/**
 * Limits, budgets and money of a key, shown to its holder; read in one transaction. Counts as a free call that stays
 * local.
 */

import type { LevelStanding, StandingAnswer } from "../../core/account/key-status.ts";
import type { Account } from "../../core/account/tenant.ts";
import type { KeyDigest } from "../../core/ids.ts";
import { refused } from "../../core/outcome.ts";
import { authenticate } from "./admission.ts";
import { expireDue } from "./expiry.ts";
import type { Books } from "./state.ts";

export function standing(books: Books, digest: KeyDigest, nowMs: number): StandingAnswer {
  expireDue(books, nowMs);
  const found = authenticate(books, digest, nowMs);
  if (!found.ok) return found;
  const refusal = books.takeFree(found.caller, "local", nowMs);
  if (refusal) return refused(refusal);
  const { key, team } = found.caller;
  const freeLevels = books.freeLevels(found.caller, "upstream", nowMs);
  const budgets = books.budgets(found.caller, nowMs);
  const levels = books.levels(found.caller, nowMs).map((use): LevelStanding => {
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
  return { ok: true, standing: { account: accountOf(books), team, key, levels } };
}

function accountOf(books: Books): Account {
  const { toleratedNanoUsd: _, ...account } = books.tenants.account();
  return { ...account, balanceNanoUsd: books.ledger.balanceNanoUsd, heldNanoUsd: books.heldNanoUsd };
}
