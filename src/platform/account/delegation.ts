/**
 * What a tenant's own key does to the keys and teams of its account. The check of who acts and the change run in one
 * transaction.
 */
import {
  type DelegatedAction,
  type DelegationOutcome,
  denialOf,
  generalDenialOf,
  rolesAbove,
  sees,
  type TeamTarget,
} from "../../core/account/permissions.ts";
import type { Key, Team, TooMany } from "../../core/account/tenant.ts";
import type { KeyDigest } from "../../core/ids.ts";
import { authenticate } from "./admission.ts";
import type { Caps } from "./settings.ts";
import type { Books } from "./state.ts";

export function delegate(
  books: Books,
  digest: KeyDigest,
  action: DelegatedAction,
  nowMs: number,
  caps: Caps,
): DelegationOutcome {
  const found = authenticate(books, digest, nowMs);
  if (!found.ok) return { kind: "refused", refusal: found.refusal };
  const holder = found.caller.key;
  const general = generalDenialOf(holder, action);
  if (general) return { kind: "denied", denial: general };
  const target = targetOf(books, holder, action);
  if (target === "unknown") return { kind: "unknown" };
  const denial = denialOf(holder, action, target);
  if (denial) return { kind: "denied", denial };
  const tooMany = tooManyFor(books, action, caps);
  return tooMany ?? act(books, action, target, nowMs);
}

/**
 * The key or team that the action is on, if any. It is unknown if the holder may not see it, or if it is to be changed
 * but is revoked or deleted.
 */
function targetOf(books: Books, holder: Key, action: DelegatedAction): Key | TeamTarget | undefined | "unknown" {
  if (action.kind === "amend_team" || action.kind === "delete_team") {
    const team = books.tenants.team(action.id);
    if (!team || (action.kind === "amend_team" && team.deletedAtMs !== null)) return "unknown";
    const above = rolesAbove(holder.role);
    return { team, hasHigherRole: above.length > 0 && books.keys.teamHas(team.id, above) };
  }
  if (action.kind !== "amend_key" && action.kind !== "revoke_key" && action.kind !== "rotate_key") return undefined;
  const key = books.keys.key(action.id);
  if (!key || !sees(holder, key.team)) return "unknown";
  return action.kind !== "revoke_key" && key.revokedAtMs !== null ? "unknown" : key;
}

/** Refuses one more key or team beyond the cap. An id that already exists is not made again, so it passes. */
export function tooManyFor(
  { keys, tenants }: Pick<Books, "keys" | "tenants">,
  action: DelegatedAction,
  caps: Caps,
): TooMany | undefined {
  const noKeyLeft = action.kind === "create_key" && !keys.key(action.id) && keys.atLeast(caps.keys);
  if (noKeyLeft) return { kind: "too_many", most: caps.keys };
  const noTeamLeft = action.kind === "create_team" && !tenants.team(action.id) && tenants.atLeastTeams(caps.teams);
  return noTeamLeft ? { kind: "too_many", most: caps.teams } : undefined;
}

function act(
  books: Books,
  action: DelegatedAction,
  target: Key | TeamTarget | undefined,
  nowMs: number,
): DelegationOutcome {
  if (target !== undefined && "hasHigherRole" in target) return actOnTeam(books, action, target.team, nowMs);
  switch (action.kind) {
    case "create_key":
      if (!books.tenants.mayHold(action.fields.team)) return { kind: "no_team" };
      books.keys.create(action.id, action.digest, action.lastFour, action.fields, nowMs);
      break;
    case "amend_key":
      if (action.changes.team !== target?.team && !books.tenants.mayHold(action.changes.team)) {
        return { kind: "no_team" };
      }
      if (target) books.keys.amend(target, action.changes);
      break;
    case "revoke_key":
      books.keys.revoke(action.id, nowMs);
      break;
    case "rotate_key": {
      const digests = books.keys.digests(action.id);
      books.keys.rotate(action.id, action.digest, action.lastFour, nowMs + Math.max(0, action.graceMs));
      return keyOutcome(books, action, digests);
    }
    case "create_team": {
      books.tenants.createTeam(action.id, action.fields, nowMs);
      const team = books.tenants.team(action.id);
      return team ? { kind: "team", team } : { kind: "unknown" };
    }
    default:
      return { kind: "unknown" };
  }
  return keyOutcome(books, action, books.keys.digests(action.id));
}

function actOnTeam({ tenants }: Books, action: DelegatedAction, team: Team, nowMs: number): DelegationOutcome {
  if (action.kind === "amend_team") tenants.amendTeam(team, action.changes);
  if (action.kind === "delete_team") tenants.deleteTeam(team.id, nowMs);
  return { kind: "team", team: tenants.team(team.id) ?? team };
}

/** `digests`: secrets that the edge should drop because the action ends them. */
function keyOutcome(
  books: Books,
  action: Extract<DelegatedAction, { kind: "create_key" | "amend_key" | "revoke_key" | "rotate_key" }>,
  digests: readonly KeyDigest[],
): DelegationOutcome {
  const key = books.keys.key(action.id);
  return key ? { kind: "key", key, digests } : { kind: "unknown" };
}
