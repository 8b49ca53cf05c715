/**
 * Who may do what to the keys and teams of an account. The operator may do anything; a tenant's key has a ceiling:
 * itself. The account object checks this in the transaction that makes the change, so a key that was just revoked or
 * narrowed can do nothing more.
 *
 * The rules for a key. A member manages nothing. No key changes itself. No key creates one with more than it has, gives
 * an existing key more of anything, or rotates a key that has more (rotation reveals the secret). It does not touch
 * keys of a higher role, neither directly nor through a team that such a key is in: it may not delete, block or limit
 * that team. It gives no team more than it has, and does not move a key that has more out of a team that limited it. A
 * key that belongs to a team sees only that team's keys and may not set the limits of teams.
 */

import type { KeyDigest, KeyId, TeamId } from "../ids.ts";
import type { Refusal } from "../refusal.ts";
import { DEFAULT_FREE_RPM } from "./free-calls.ts";
import { allowsModel } from "./model-access.ts";
import {
  BUDGET_DURATIONS,
  type Changes,
  type Key,
  type KeyFields,
  type Limits,
  ROLES,
  type Role,
  type Team,
  type TeamFields,
  type TooMany,
} from "./tenant.ts";

export type KeyChanges = Changes<KeyFields>;
export type TeamChanges = Changes<TeamFields>;

/** Who acts. */
export type Actor = { readonly by: "operator" } | { readonly by: "key"; readonly digest: KeyDigest };
export const OPERATOR: Actor = { by: "operator" };

/** The key that acts: it gives nothing that it does not have. Null: the operator, who has no ceiling. */
export type Ceiling = Key | null;

export type KeyAction =
  | { kind: "create_key"; id: KeyId; digest: KeyDigest; lastFour: string; fields: KeyFields }
  | { kind: "amend_key"; id: KeyId; changes: KeyChanges }
  | { kind: "revoke_key"; id: KeyId }
  /** `ref`: a second rotation with it does nothing. */
  | { kind: "rotate_key"; id: KeyId; digest: KeyDigest; lastFour: string; graceMs: number; ref?: string | null };
export type TeamAction =
  | { kind: "create_team"; id: TeamId; fields: TeamFields }
  | { kind: "amend_team"; id: TeamId; changes: TeamChanges }
  | { kind: "delete_team"; id: TeamId };
export type ManageAction = KeyAction | TeamAction;

/** `exceeds`: the acting key has less than the change would give in this field (named as in the request body). */
export type Denial = { why: "role" | "own_key" | "team_key" } | { why: "exceeds"; field: string };

/**
 * `digests`: the edge records to drop where the action ends the key's secrets. `anew` is false if an earlier attempt
 * had created or rotated it: then the secret of this one opens nothing.
 */
export type ManagedKey = { kind: "key"; key: Key; digests: readonly KeyDigest[]; anew: boolean } | NotManaged;
export type ManagedTeam = { kind: "team"; team: Team } | NotManaged;
export type NotManaged =
  /** The acting key is not live. */
  | { kind: "refused"; refusal: Refusal }
  | { kind: "denied"; denial: Denial }
  /** No such key or team that the actor can see; for a key, no live one. */
  | { kind: "unknown" }
  /** Already revoked or deleted; only the operator gets this answer. */
  | { kind: "ended" }
  | { kind: "account_deleted" }
  /** The named team is not a live one. */
  | { kind: "no_team" }
  /** The compute scope needs an account that is enabled for compute. */
  | { kind: "compute_not_enabled" }
  | TooMany;

const rank = (role: Role): number => ROLES.length - ROLES.indexOf(role);

/** All roles higher than `role`. */
export const rolesAbove = (role: Role): readonly Role[] => ROLES.filter((other) => rank(other) > rank(role));

/** Whether this actor may manage keys and teams at all. */
export const manages = (ceiling: Ceiling): boolean => ceiling === null || ceiling.role !== "member";

/** Whether this actor sees what belongs to a team: a key in a team sees only that team. */
export const sees = (ceiling: Ceiling, team: TeamId | null): boolean =>
  ceiling === null || ceiling.team === null || ceiling.team === team;

/** The team to change, and whether it contains a live key of a higher role than the acting key's. */
export interface TeamTarget {
  readonly team: Team;
  readonly hasHigherRole: boolean;
}

/** Why the actor may not do this at all. Checked before the target is looked up, so that ids cannot be probed. */
export function generalDenialOf(ceiling: Ceiling, action: ManageAction): Denial | undefined {
  if (ceiling === null) return undefined;
  if (!manages(ceiling)) return { why: "role" };
  return isOnTeam(action) && ceiling.team !== null ? { why: "team_key" } : undefined;
}

export const isOnTeam = (action: ManageAction): action is TeamAction =>
  action.kind === "create_team" || action.kind === "amend_team" || action.kind === "delete_team";

/** Why the actor may not do this to `target` (the key or team to change, if any); undefined if it may. */
export function denialOf(
  ceiling: Ceiling,
  action: ManageAction,
  target: Key | TeamTarget | undefined,
): Denial | undefined {
  if (ceiling === null) return undefined;
  const general = generalDenialOf(ceiling, action);
  if (general) return general;
  const team = target !== undefined && "hasHigherRole" in target ? target : undefined;
  const key = target !== undefined && "role" in target ? target : undefined;
  return isOnTeam(action) ? teamDenialOf(ceiling, action, team) : keyDenialOf(ceiling, action, key);
}

function teamDenialOf(holder: Key, action: TeamAction, target: TeamTarget | undefined): Denial | undefined {
  const { limits, blocked } =
    action.kind === "create_team" ? action.fields : action.kind === "amend_team" ? action.changes : {};
  const stops = action.kind === "delete_team" || blocked !== undefined || limits !== undefined;
  if (target?.hasHigherRole && stops) return { why: "exceeds", field: "role" };
  const field =
    limits &&
    (exceedingLimit(holder.limits, wholeBudget(limits, target?.team.limits)) ?? exceedingFree(holder, limits));
  return field === undefined ? undefined : { why: "exceeds", field };
}

function keyDenialOf(holder: Key, action: KeyAction, target: Key | undefined): Denial | undefined {
  if (target?.id === holder.id) return { why: "own_key" };
  if (target && rank(target.role) > rank(holder.role)) return { why: "exceeds", field: "role" };
  const field = exceeding(holder, grantedBy(action, target));
  return field === undefined ? undefined : { why: "exceeds", field };
}

/** What this action gives to a key; the holder must have as much. */
function grantedBy(action: KeyAction, target: Key | undefined): KeyChanges {
  if (action.kind === "create_key") return action.fields;
  if (action.kind === "rotate_key" && target) return target;
  if (action.kind !== "amend_key") return {};
  // Only changed fields are compared: what the key already had is not granted by this action.
  const { limits, ...changes } = action.changes;
  // Outside its old team the key can use all that its own limits allow.
  if (target && changes.team !== undefined && changes.team !== target.team) {
    return { ...changes, limits: { ...target.limits, ...limits } };
  }
  return limits ? { ...changes, limits: wholeBudget(limits, target?.limits) } : changes;
}

/** A budget's amount has a meaning only with its window: if one changes, both are compared. */
function wholeBudget(changes: Partial<Limits>, limits: Limits | undefined): Partial<Limits> {
  if (!limits || (changes.maxBudgetNanoUsd === undefined && changes.budgetDuration === undefined)) return changes;
  return { maxBudgetNanoUsd: limits.maxBudgetNanoUsd, budgetDuration: limits.budgetDuration, ...changes };
}

/** The first field in which `granted` has more than the holder. */
function exceeding(holder: Key, granted: KeyChanges): string | undefined {
  const { role, scopes, models, expiresAtMs, team, limits } = granted;
  if (role !== undefined && rank(role) > rank(holder.role)) return "role";
  if (scopes?.some((scope) => !holder.scopes.includes(scope))) return "scopes";
  if (models !== undefined && !coversModels(holder.models, models)) return "models";
  if (expiresAtMs !== undefined && beyond(holder.expiresAtMs, expiresAtMs)) return "expires_at";
  if (team !== undefined && !sees(holder, team)) return "team";
  if (!limits) return undefined;
  // Null stands for the default limit.
  const { free_rpm_limit = holder.limits.free_rpm_limit } = limits;
  const [mine, theirs] = [holder.limits.free_rpm_limit, free_rpm_limit].map((limit) => limit ?? DEFAULT_FREE_RPM);
  if (mine !== undefined && theirs !== undefined && theirs > mine) return "free_rpm_limit";
  return exceedingLimit(holder.limits, limits);
}

/** A team's limit only caps its keys, so a holder without a limit of its own grants nothing more by setting it. */
function exceedingFree({ limits: mine }: Key, { free_rpm_limit: theirs }: Partial<Limits>): string | undefined {
  return theirs !== undefined && beyond(mine.free_rpm_limit, theirs) ? "free_rpm_limit" : undefined;
}

/** Whether `theirs` is more than `mine`; null is unlimited. */
const beyond = (mine: number | null, theirs: number | null): boolean =>
  mine !== null && (theirs === null || theirs > mine);

function coversModels(mine: readonly string[] | null, theirs: readonly string[] | null): boolean {
  if (mine === null) return true;
  return theirs?.every((entry) => covers(mine, entry)) ?? false;
}

/** A `prefix*` entry is covered only by a shorter or equal prefix, never by a list of names. */
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
  const { maxBudgetNanoUsd, budgetDuration, maxGpus } = theirs;
  if (maxGpus !== undefined && beyond(mine.maxGpus, maxGpus)) return "max_gpus";
  if (maxBudgetNanoUsd !== undefined && beyond(mine.maxBudgetNanoUsd, maxBudgetNanoUsd)) return "max_budget";
  // The same amount in a shorter window allows more spending.
  const shorter =
    budgetDuration !== undefined &&
    BUDGET_DURATIONS.indexOf(budgetDuration) < BUDGET_DURATIONS.indexOf(mine.budgetDuration);
  return mine.maxBudgetNanoUsd !== null && shorter ? "budget_duration" : undefined;
}
