/**
 * What the operator, or a tenant's own key, does to the keys and teams of an account. The check of who acts and the
 * change run in one transaction.
 */
import {
  type Actor,
  type Ceiling,
  denialOf,
  generalDenialOf,
  isOnTeam,
  type KeyAction,
  type ManageAction,
  type ManagedKey,
  type ManagedTeam,
  type NotManaged,
  rolesAbove,
  sees,
  type TeamAction,
  type TeamTarget,
} from "../../core/account/permissions.ts";
import type { Key, Scope, TooMany } from "../../core/account/tenant.ts";
import type { Outcome } from "../../core/outcome.ts";
import { authenticate } from "./admission.ts";
import { keyNamed, tellBudget } from "./alerting.ts";
import type { Caps } from "./settings.ts";
import type { AccountState, LiveCaller } from "./state.ts";

export function manage(
  state: AccountState,
  actor: Actor,
  action: ManageAction,
  nowMs: number,
  caps: Caps,
): ManagedKey | ManagedTeam {
  const found = ceilingOf(state, actor, nowMs);
  if (!found.ok) return { kind: "refused", refusal: found.refusal };
  if (state.tenants.account().deletedAtMs !== null) return { kind: "account_deleted" };
  const { ceiling } = found;
  const denial = generalDenialOf(ceiling, action);
  if (denial) return { kind: "denied", denial };
  return isOnTeam(action)
    ? manageTeam(state, ceiling, action, nowMs, caps)
    : manageKey(state, ceiling, action, nowMs, caps);
}

/** Who acts: a live key, or the operator, whom the API has let in. */
function ceilingOf(state: AccountState, actor: Actor, nowMs: number): Outcome<{ ceiling: Ceiling }> {
  if (actor.by === "operator") return { ok: true, ceiling: null };
  const found: Outcome<{ caller: LiveCaller }> = authenticate(state, actor.digest, nowMs);
  return found.ok ? { ok: true, ceiling: found.caller.key } : found;
}

/** For a key, what has ended is as if it were not there. */
const ended = (ceiling: Ceiling): NotManaged => (ceiling === null ? { kind: "ended" } : { kind: "unknown" });

function manageKey(state: AccountState, ceiling: Ceiling, action: KeyAction, nowMs: number, caps: Caps): ManagedKey {
  const target = action.kind === "create_key" ? undefined : state.keys.key(action.id);
  if (action.kind !== "create_key") {
    if (!target || !sees(ceiling, target.team)) return { kind: "unknown" };
    if (action.kind !== "revoke_key" && target.revokedAtMs !== null) return ended(ceiling);
  }
  const denial = denialOf(ceiling, action, target);
  if (denial) return { kind: "denied", denial };
  return actOnKey(state, action, target, nowMs, caps);
}

function actOnKey(
  state: AccountState,
  action: KeyAction,
  target: Key | undefined,
  nowMs: number,
  caps: Caps,
): ManagedKey {
  const { keys, tenants } = state;
  const digests = keys.digests(action.id);
  let anew = true;
  switch (action.kind) {
    case "create_key": {
      if (!tenants.mayHold(action.fields.team)) return { kind: "no_team" };
      // Asked twice, it is made once, and what is made already needs no room.
      if (keys.key(action.id)) {
        anew = false;
        break;
      }
      if (grantsCompute(state, action.fields.scopes)) return { kind: "compute_not_enabled" };
      if (keys.atLeast(caps.keys)) return tooMany(caps.keys);
      keys.create(action.id, action.digest, action.lastFour, action.fields, nowMs);
      break;
    }
    case "amend_key":
      if (action.changes.team !== target?.team && !tenants.mayHold(action.changes.team)) return { kind: "no_team" };
      if (grantsCompute(state, action.changes.scopes, target)) return { kind: "compute_not_enabled" };
      if (target) keys.amend(target, action.changes, nowMs);
      tellBudget(state, "key", action.id, nowMs);
      break;
    case "revoke_key":
      keys.revoke(action.id, nowMs);
      if (target?.revokedAtMs === null) tellOfKey(state, "key.revoked", target, nowMs);
      break;
    case "rotate_key":
      anew = keys.rotate(action, nowMs + Math.max(0, action.graceMs));
      break;
  }
  const key = keys.key(action.id);
  if (key && anew && action.kind === "create_key") tellOfKey(state, "key.created", key, nowMs);
  return key ? { kind: "key", key, digests, anew } : { kind: "unknown" };
}

const tellOfKey = (state: AccountState, type: "key.created" | "key.revoked", key: Key, nowMs: number): void =>
  state.alerts.tell(state.tenants.account().id, { type, data: keyNamed(key) }, nowMs);

/** Whether a key would get the compute scope while its account is not enabled for compute. What it has stays. */
function grantsCompute({ tenants }: AccountState, scopes: readonly Scope[] | undefined, target?: Key): boolean {
  const gets = scopes?.includes("compute") && !target?.scopes.includes("compute");
  return gets === true && !tenants.account().computeEnabled;
}

function manageTeam(state: AccountState, ceiling: Ceiling, action: TeamAction, nowMs: number, caps: Caps): ManagedTeam {
  const target = action.kind === "create_team" ? undefined : teamTarget(state, ceiling, action);
  if (action.kind !== "create_team") {
    if (!target) return { kind: "unknown" };
    if (action.kind === "amend_team" && target.team.deletedAtMs !== null) return ended(ceiling);
  }
  const denial = denialOf(ceiling, action, target);
  if (denial) return { kind: "denied", denial };
  const { tenants } = state;
  if (action.kind === "create_team" && !tenants.team(action.id)) {
    if (tenants.atLeastTeams(caps.teams)) return tooMany(caps.teams);
    tenants.createTeam(action.id, action.fields, nowMs);
  }
  if (action.kind === "amend_team" && target) {
    tenants.amendTeam(target.team, action.changes);
    tellBudget(state, "team", action.id, nowMs);
  }
  if (action.kind === "delete_team") tenants.deleteTeam(action.id, nowMs);
  const team = tenants.team(action.id);
  return team ? { kind: "team", team } : { kind: "unknown" };
}

function teamTarget({ keys, tenants }: AccountState, ceiling: Ceiling, { id }: TeamAction): TeamTarget | undefined {
  const team = tenants.team(id);
  const above = ceiling === null ? [] : rolesAbove(ceiling.role);
  return team && { team, hasHigherRole: above.length > 0 && keys.teamHas(id, above) };
}

const tooMany = (most: number): TooMany => ({ kind: "too_many", most });
