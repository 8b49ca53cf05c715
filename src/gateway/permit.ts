/** Asks the account object whether a key is live, and may have what costs nothing. */
import type { FreeReach } from "../core/account/free-calls.ts";
import type { Permission } from "../core/account/hold.ts";
import type { OwnedRef } from "../core/owned.ts";
import type { Refusal } from "../core/refusal.ts";
import { ask } from "./ask.ts";
import type { Caller, Ports } from "./ports.ts";

/** `owned`: ids that the call names; each must be the account's. An object that cannot be asked permits nothing. `reach`: counts it. */
export async function permit(
  caller: Caller,
  owned: readonly OwnedRef[],
  ports: Ports,
  reach?: FreeReach,
): Promise<Permission> {
  try {
    return await ask(ports, caller.number, (account) => account.permit(caller.digest, owned, reach));
  } catch (error) {
    ports.log({ event: "admission_failed", error: String(error) });
    return { ok: false, refusal: { kind: "admission_unavailable" } };
  }
}

/** What to tell of a call that is refused before it is admitted: that its key is dead comes before what is wrong with it. */
export async function refusalTo(caller: Caller, refusal: Refusal, ports: Ports): Promise<Refusal> {
  const permission = await permit(caller, [], ports);
  return permission.ok ? refusal : permission.refusal;
}
