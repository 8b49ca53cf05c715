/** Credits by the operator. Each reference counts once, and a negative credit cannot take what open holds need. */
import { mayCredit } from "../../core/account/ledger.ts";
import type { Credit, CreditOutcome } from "../../core/account/tenant.ts";
import { toUsd } from "../../core/pricing/money.ts";
import { turnUnpaid } from "./compute/resource-rows.ts";
import type { AccountState } from "./state.ts";

export function bookCredit(state: AccountState, credit: Credit, nowMs: number): CreditOutcome {
  const known = state.ledger.byReference(credit.reference);
  if (known) {
    const same =
      known.amountNanoUsd === credit.amountNanoUsd &&
      known.kind === credit.kind &&
      known.callId === (credit.callId ?? null);
    return { kind: same ? "already_booked" : "reference_conflict", entry: known };
  }
  if (!mayCredit(state.money(), credit.kind, credit.amountNanoUsd)) return { kind: "out_of_range" };
  const entry = state.ledger.credit(credit, nowMs);
  state.spending.entered(entry.id);
  const { kind, reference } = credit;
  const data = {
    kind,
    amount_usd: toUsd(credit.amountNanoUsd),
    balance_usd: toUsd(entry.balanceNanoUsd),
    reference,
  };
  state.alerts.tell(state.tenants.account().id, { type: "credit.booked", data }, nowMs);
  turnUnpaid(state, nowMs);
  return { kind: "booked", entry };
}
