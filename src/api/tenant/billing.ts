/**
 * `/billing`: balance and transactions in the shape of the compute contract. Needs neither compute access nor a scope.
 */
import * as z from "zod/mini";
import { ENTRY_KINDS, type LedgerEntry } from "../../core/account/tenant.ts";
import { toUsd } from "../../core/pricing/money.ts";
import { known } from "../kit/context.ts";
import { numberedPage, pageRequest, timeAnswer, usdAnswer } from "../kit/fields.ts";
import { ledgerPage } from "../kit/ledger-page.ts";
import { Problem } from "../kit/problem.ts";
import { answers, ok, route } from "../kit/route.ts";
import { toIso } from "../kit/serializers.ts";
import type { SelfServiceRoutes } from "./self-service.ts";

const BalanceAnswer = z
  .object({
    balance: z.number().check(z.describe("USD, less what calls in flight hold")),
    account_id: z.int(),
    bills_monthly: z.boolean(),
  })
  .register(z.globalRegistry, { id: "Balance" });

const TransactionAnswer = z
  .object({
    id: z.int(),
    kind: z.enum(ENTRY_KINDS),
    amount: usdAnswer,
    balance: usdAnswer.check(z.describe("The balance after it")),
    created_at: timeAnswer,
    request_id: z.nullable(z.string()),
    model: z.nullable(z.string()),
    key: z.nullable(z.string()),
    reference: z.nullable(z.string()),
    resource: z
      .nullable(z.object({ kind: z.string(), id: z.int(), name: z.string() }))
      .check(z.describe("What was rented; null: not an entry of compute")),
  })
  .register(z.globalRegistry, { id: "Transaction" });

const balance = route({
  id: "getBalance",
  errors: "compute",
  method: "get",
  path: "/billing/balance",
  summary: "Read the account's balance",
  answers: { 200: answers("The balance", BalanceAnswer) },
});
const transactions = route({
  id: "listTransactions",
  errors: "compute",
  refusals: [403],
  method: "get",
  path: "/billing/transactions",
  summary: "List what was booked, newest first; for owners",
  query: z.strictObject({
    ...numberedPage,
    cursor: numberedPage.cursor.check(z.describe("The id of the last transaction of the page before")),
  }),
  answers: { 200: answers("Transactions", z.array(TransactionAnswer)) },
});

export function addSelfBilling(api: SelfServiceRoutes): void {
  api.add(balance, async ({ work: { standing } }) => {
    const { account } = standing;
    return ok({
      balance: toUsd(account.balanceNanoUsd - account.heldNanoUsd),
      account_id: account.number,
      bills_monthly: account.billsMonthly,
    });
  });

  api.add(
    transactions,
    async ({
      work: {
        standing,
        object,
        context: { archive },
      },
      query,
    }) => {
      if (standing.key.role !== "owner") {
        throw new Problem(403, "role_not_allowed", "Transactions are for account owners. Use an owner's key.");
      }
      const page = known(await ledgerPage(archive, object, pageRequest(query)), "account", standing.account.id);
      return ok(page.data.map(serializeTransaction));
    },
  );
}

/** Leaves out the operator's notes. */
const serializeTransaction = (entry: LedgerEntry) => ({
  id: entry.id,
  kind: entry.kind,
  amount: toUsd(entry.amountNanoUsd),
  balance: toUsd(entry.balanceNanoUsd),
  created_at: toIso(entry.atMs),
  request_id: entry.callId,
  model: entry.model,
  key: entry.keyId,
  reference: entry.reference,
  resource: entry.resource ?? null,
});
