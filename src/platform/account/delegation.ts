/**
 * What a tenant's own key does to the keys and teams of its account: who acts is judged and acts in one transaction.
 */
import {
  type DelegatedAction,
  type DelegationOutcome,
  denialOf,
  type KeyChanges,
  sees,
} from "../../core/delegation.ts";
import type { KeyDigest, TeamId } from "../../core/ids.ts";
import type { Key, KeyFields } from "../../core/tenant.ts";
import { authenticate } from "./admission.ts";
import type { Books } from "./books.ts";

export function delegate(books: Books, digest: KeyDigest, action: DelegatedAction, nowMs: number): DelegationOutcome {
  const found = authenticate(books, digest, nowMs);
  if (!found.ok) return { kind: "refused", refusal: found.refusal };
  const holder = found.caller.key;
  const target = targetOf(books, holder, action);
  if (target === "unknown") return { kind: "unknown" };
  const denial = denialOf(holder, action, target);
  if (denial) return { kind: "denied", denial };
  return act(books, action, target, nowMs);
}

/** The key acted on, where the action is on one. Out of the holder's sight is unknown; so is a revoked one to change. */
function targetOf(books: Books, holder: Key, action: DelegatedAction): Key | undefined | "unknown" {
  if (action.kind !== "amend_key" && action.kind !== "revoke_key" && action.kind !== "rotate_key") return undefined;
  const key = books.keys.key(action.id);
  if (!key || !sees(holder, key.team)) return "unknown";
  return action.kind !== "revoke_key" && key.revokedAtMs !== null ? "unknown" : key;
}

function act(books: Books, action: DelegatedAction, target: Key | undefined, nowMs: number): DelegationOutcome {
  switch (action.kind) {
    case "create_key":
      if (!isLive(books, action.fields.team)) return { kind: "no_team" };
      books.keys.create(action.id, action.digest, action.lastFour, action.fields, nowMs);
      break;
    case "amend_key":
      if (action.changes.team !== target?.team && !isLive(books, action.changes.team)) return { kind: "no_team" };
      if (target) books.keys.amend(target, changed(target, action.changes));
      break;
    case "revoke_key":
      books.keys.revoke(action.id, nowMs);
      break;
    case "rotate_key": {
      const digests = books.keys.digests(action.id);
      books.keys.rotate(action.id, action.digest, action.lastFour, nowMs + Math.max(0, action.graceMs));
      return keyOutcome(books, action, digests);
    }
    default:
      return actOnTeam(books, action, nowMs);
  }
  return keyOutcome(books, action, books.keys.digests(action.id));
}

function actOnTeam(
  books: Books,
  action: Extract<DelegatedAction, { kind: "create_team" | "amend_team" | "delete_team" }>,
  nowMs: number,
): DelegationOutcome {
  const { tenants } = books;
  if (action.kind === "create_team") tenants.createTeam(action.id, action.fields, nowMs);
  const team = tenants.team(action.id);
  if (!team) return { kind: "unknown" };
  if (action.kind === "amend_team") {
    if (team.deletedAtMs !== null) return { kind: "unknown" };
    const { limits, ...changes } = action.changes;
    tenants.amendTeam(team, limits ? { ...changes, limits: { ...team.limits, ...limits } } : changes);
  }
  if (action.kind === "delete_team") tenants.deleteTeam(action.id, nowMs);
  return { kind: "team", team: tenants.team(action.id) ?? team };
}

/** `digests`: the secrets that the edge should forget, where the action ends them. */
function keyOutcome(
  books: Books,
  action: Extract<DelegatedAction, { kind: "create_key" | "amend_key" | "revoke_key" | "rotate_key" }>,
  digests: readonly KeyDigest[],
): DelegationOutcome {
  const key = books.keys.key(action.id);
  return key ? { kind: "key", key, digests } : { kind: "unknown" };
}

const changed = (key: Key, { limits, ...changes }: KeyChanges): Partial<KeyFields> =>
  limits ? { ...changes, limits: { ...key.limits, ...limits } } : changes;

/** A key may name a live team or none; `undefined` leaves it as it is. */
function isLive(books: Books, team: TeamId | null | undefined): boolean {
  if (team === null || team === undefined) return true;
  return books.tenants.team(team)?.deletedAtMs === null;
}
