/** What every self-service route gets: the key's holder, the key's status, and the account's object. */
import type { AccountService } from "../../core/account/account-service.ts";
import type { Standing } from "../../core/account/key-status.ts";
import type { ArchivedLedger } from "../../core/archive/archived-ledger.ts";
import type { AccountId, KeyId, TeamId } from "../../core/ids.ts";
import type { BodyPlace } from "../../gateway/http/upload-slot.ts";
import type { Caller } from "../../gateway/ports.ts";
import type { PlatformPorts } from "../../platform/ports.ts";
import type { AdminContext } from "../kit/context.ts";
import type { ApiRoutes } from "../kit/route.ts";

/** What self-service needs of the account's object, once the key is known to be live. */
type TenantObject = Pick<AccountService, "view" | "manage" | "keys" | "key" | "teams" | "team" | "entries"> &
  Pick<ArchivedLedger, "ledgerParts">;

/** The holder of the calling key, and what its handler works with. */
export interface Tenant {
  readonly context: AdminContext;
  readonly caller: Caller;
  readonly standing: Standing;
  /** Of the call's body: a tenant's bodies have bounded room wherever they are sent. */
  readonly place: BodyPlace;
  readonly object: TenantObject;
}
export interface SelfServiceBindings {
  Bindings: Env & { ports: PlatformPorts };
  Variables: { tenant: Tenant };
}
export type SelfServiceRoutes = ApiRoutes<Tenant, SelfServiceBindings>;

/** Whose calls a key may read: a member's key its own, an owner's or admin's its account's or team's. */
export const visibleTo = ({ account, key }: Standing): { account: AccountId; team?: TeamId; key?: KeyId } => ({
  account: account.id,
  ...(key.role === "member" ? { key: key.id } : key.team !== null && { team: key.team }),
});
