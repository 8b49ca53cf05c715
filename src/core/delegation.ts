/**
 * What an owner's or admin's key may do to the keys and teams of its account. Pure; the account object asks it in the
 * transaction that acts, so a key that was just revoked or narrowed does nothing more.
 *
 * The rules. Members manage nothing. No key changes itself. No key makes one that has more than it has, gives an existing
 * one more of anything, or gets hold of one that has more (rotation shows a secret). It does not touch keys
 * of a higher role. A key that belongs to a team stays in that team: its keys are all it sees, and the limits of teams
 * are not its to set.
 */
import type { KeyDigest, KeyId, TeamId } from "./ids.ts";
import type { Refusal } from "./refusal.ts";
import { allowsModel } from "./routes.ts";
import {
  BUDGET_DURATIONS,
  type Key,
  type KeyFields,
  type Limits,
  ROLES,
  type Team,
  type TeamFields,
} from "./tenant.ts";

/** Fields that are named change; limits that are not named stay. */
export type KeyChanges = Partial<Omit<KeyFields, "limits">> & { readonly limits?: Partial<Limits> };
export type TeamChanges = Partial<Omit<TeamFields, "limits">> & { readonly limits?: Partial<Limits> };

export type DelegatedAction =
  | { kind: "create_key"; id: KeyId; digest: KeyDigest; lastFour: string; fields: KeyFields }
  | { kind: "amend_key"; id: KeyId; changes: KeyChanges }
  | { kind: "revoke_key"; id: KeyId }
  | { kind: "rotate_key"; id: KeyId; digest: KeyDigest; lastFour: string; graceMs: number }
  | { kind: "create_team"; id: TeamId; fields: TeamFields }
  | { kind: "amend_team"; id: TeamId; changes: TeamChanges }
  | { kind: "delete_team"; id: TeamId };

/** `exceeds`: the field, as the bodies call it, in which the holder has less. */
export type Denial = { why: "role" | "own_key" | "team_key" } | { why: "exceeds"; field: string };

export type DelegationOutcome =
  | { kind: "key"; key: Key; digests: readonly KeyDigest[] }
  | { kind: "team"; team: Team }
  /** The acting key itself is not live. */
  | { kind: "refused"; refusal: Refusal }
  | { kind: "denied"; denial: Denial }
  /** No such key or team that this key can see, or no longer a live one. */
  | { kind: "unknown" }
  /** The team named is not a live one. */
  | { kind: "no_team" };

const rank = (role: Key["role"]): number => ROLES.length - ROLES.indexOf(role);

/** Whether a key may manage others at all. */
export const manages = (holder: Key): boolean => holder.role !== "member";

/** Whether a key is in sight: a holder in a team sees that team's alone. */
export const sees = (holder: Key, team: TeamId | null): boolean => holder.team === null || holder.team === team;

/** Why the holder may not do this to `target` (the key acted on, where there is one); undefined: it may. */
export function denialOf(holder: Key, action: DelegatedAction, target: Key | undefined): Denial | undefined {
  if (!manages(holder)) return { why: "role" };
  if (action.kind === "create_team" || action.kind === "amend_team" || action.kind === "delete_team") {
    return holder.team === null ? undefined : { why: "team_key" };
  }
  if (target?.id === holder.id) return { why: "own_key" };
  if (target && rank(target.role) > rank(holder.role)) return { why: "exceeds", field: "role" };
  const field = exceeding(holder, grantedBy(action, target));
  return field === undefined ? undefined : { why: "exceeds", field };
}

/** What a key would have by this action that the holder must have too. */
function grantedBy(action: DelegatedAction, target: Key | undefined): KeyChanges {
  if (action.kind === "create_key") return action.fields;
  if (action.kind === "rotate_key" && target) return target;
  if (action.kind !== "amend_key") return {};
  // Only what changes is held against the holder: what a key had before is not given by this.
  const { limits, ...changes } = action.changes;
  return limits ? { ...changes, limits: wholeBudget(limits, target?.limits) } : changes;
}

/** Amount and window of a budget mean something together only: where one changes, both are looked at. */
function wholeBudget(changes: Partial<Limits>, limits: Limits | undefined): Partial<Limits> {
  if (!limits || (changes.maxBudgetNanoUsd === undefined && changes.budgetDuration === undefined)) return changes;
  return { maxBudgetNanoUsd: limits.maxBudgetNanoUsd, budgetDuration: limits.budgetDuration, ...changes };
}

/** The first field of `granted` in which it has more than the holder. */
function exceeding(holder: Key, granted: KeyChanges): string | undefined {
  const { role, scopes, models, expiresAtMs, team, limits } = granted;
  if (role !== undefined && rank(role) > rank(holder.role)) return "role";
  if (scopes?.some((scope) => !holder.scopes.includes(scope))) return "scopes";
  if (models !== undefined && !coversModels(holder.models, models)) return "models";
  if (expiresAtMs !== undefined && beyond(holder.expiresAtMs, expiresAtMs)) return "expires_at";
  if (team !== undefined && !sees(holder, team)) return "team";
  return limits && exceedingLimit(holder.limits, limits);
}

/** Null is without end: it exceeds whatever ends. */
const beyond = (mine: number | null, theirs: number | null): boolean =>
  mine !== null && (theirs === null || theirs > mine);

function coversModels(mine: readonly string[] | null, theirs: readonly string[] | null): boolean {
  if (mine === null) return true;
  return theirs?.every((entry) => covers(mine, entry)) ?? false;
}

/** A beginning is covered by a beginning of it, never by a list of names. */
function covers(mine: readonly string[], entry: string): boolean {
  if (!entry.endsWith("*")) return allowsModel(mine, entry);
  return mine.some((own) => own.endsWith("*") && entry.slice(0, -1).startsWith(own.slice(0, -1)));
}

const COUNTED = ["rpm_limit", "tpm_limit", "rpd_limit", "max_parallel_requests"] as const;

function exceedingLimit(mine: Limits, theirs: Partial<Limits>): string | undefined {
  const counted = COUNTED.find((name) => {
    const value = theirs[name];
    return value !== undefined && beyond(mine[name], value);
  });
  if (counted) return counted;
  const { maxBudgetNanoUsd, budgetDuration } = theirs;
  if (maxBudgetNanoUsd !== undefined && beyond(mine.maxBudgetNanoUsd, maxBudgetNanoUsd)) return "max_budget";
  // The same amount in a shorter window is more.
  const shorter =
    budgetDuration !== undefined &&
    BUDGET_DURATIONS.indexOf(budgetDuration) < BUDGET_DURATIONS.indexOf(mine.budgetDuration);
  return mine.maxBudgetNanoUsd !== null && shorter ? "budget_duration" : undefined;
}
