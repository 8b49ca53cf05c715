/**
 * What the operator does to one account's keys and teams, a call each; undefined where there is nothing live to do it
 * to.
 */
import type { AccountService } from "../../../src/core/account/account-service.ts";
import {
  type KeyAction,
  type KeyChanges,
  OPERATOR,
  type TeamAction,
  type TeamChanges,
} from "../../../src/core/account/permissions.ts";
import type { KeyFields, TeamFields } from "../../../src/core/account/tenant.ts";
import type { KeyDigest, KeyId, TeamId } from "../../../src/core/ids.ts";

/** `stub`: an account object's; its own type has one shape of `manage` only. */
export function manager(stub: unknown) {
  const object = stub as AccountService;
  const key = async (action: KeyAction) => {
    const managed = await object.manage(OPERATOR, action);
    if (managed?.kind === "key") return { key: managed.key, digests: managed.digests };
    if (managed?.kind === "no_team") return "no_team" as const;
    return managed?.kind === "too_many" ? managed : undefined;
  };
  const team = async (action: TeamAction) => {
    const managed = await object.manage(OPERATOR, action);
    if (managed?.kind === "team") return managed.team;
    return managed?.kind === "too_many" ? managed : undefined;
  };
  const keyAlone = async (action: KeyAction) => {
    const managed = await key(action);
    return typeof managed === "object" && "key" in managed ? managed.key : managed;
  };
  return {
    createKey: (id: KeyId, digest: KeyDigest, lastFour: string, fields: KeyFields) =>
      keyAlone({ kind: "create_key", id, digest, lastFour, fields }),
    amendKey: (id: KeyId, changes: KeyChanges) => keyAlone({ kind: "amend_key", id, changes }),
    revokeKey: (id: KeyId) => key({ kind: "revoke_key", id }),
    rotateKey: (id: KeyId, digest: KeyDigest, lastFour: string, graceMs: number) =>
      key({ kind: "rotate_key", id, digest, lastFour, graceMs }),
    createTeam: (id: TeamId, fields: TeamFields) => team({ kind: "create_team", id, fields }),
    amendTeam: (id: TeamId, changes: TeamChanges) => team({ kind: "amend_team", id, changes }),
    deleteTeam: (id: TeamId) => team({ kind: "delete_team", id }),
  };
}
