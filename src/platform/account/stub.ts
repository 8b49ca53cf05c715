/** From an account's number to its object. The number comes from an authenticated key or from the operator's books. */

import type { AccountService } from "../../core/account/account-service.ts";
import type { ArchivedLedger } from "../../core/archive/archived-ledger.ts";
import type { ComputeAccount } from "../../core/compute/calls.ts";
import type { AccountNumber } from "../../core/ids.ts";
import type { AccountPort } from "../../gateway/ports.ts";

/** A new stub each time, because a stub that threw is broken for good. */
export function accountObject(
  env: Pick<Env, "ACCOUNTS">,
  number: AccountNumber,
): AccountPort & AccountService & ArchivedLedger & ComputeAccount {
  // Only plain values cross the RPC, and the object implements both interfaces.
  return env.ACCOUNTS.getByName(String(number)) as unknown as AccountPort &
    AccountService &
    ArchivedLedger &
    ComputeAccount;
}
