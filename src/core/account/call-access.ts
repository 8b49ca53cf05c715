/**
 * What a key must be for a call, as the row of the endpoint table says: made for its API, and of a high enough role.
 */
import type { Refusal } from "../refusal.ts";
import { type KeyFields, ROLES, type Role, type Scope } from "./tenant.ts";

export interface CallAccess {
  /** The API that the key must have been made for; null: any. */
  readonly scope: Scope | null;
  /** The lowest role that may call. */
  readonly role: Role;
}

/** Any live key may call. */
export const ANY_KEY: CallAccess = { scope: null, role: "member" };

export function scopeRefusal(key: Pick<KeyFields, "scopes">, { scope }: CallAccess): Refusal | undefined {
  return scope === null || key.scopes.includes(scope) ? undefined : { kind: "scope_missing", scope };
}

export function roleRefusal(key: Pick<KeyFields, "role">, { role }: CallAccess): Refusal | undefined {
  return ROLES.indexOf(key.role) <= ROLES.indexOf(role) ? undefined : { kind: "role_too_low", role };
}
