/** Credits, ledger entries and audits in bodies and answers. */
import * as z from "zod/mini";
import { ENTRY_KINDS } from "../../core/account/tenant.ts";
import { characters } from "../../core/shapes.ts";
import { listOf, signedUsd, timeAnswer, usdAnswer } from "../kit/fields.ts";

export const CreditBody = z
  .strictObject({
    amount_usd: signedUsd,
    reference: characters(1, 200).check(z.describe("Counts once per account: repeat it safely")),
    kind: z
      ._default(z.enum(["top_up", "refund", "correction"]), "top_up")
      .check(
        z.describe(
          "`top_up`: money came in, above zero. `refund`: money was paid back to the tenant, below zero. `correction`: either sign",
        ),
      ),
    call_id: z
      .nullish(z.string().check(z.regex(/^[\x21-\x7e]{1,200}$/, "must be the id of a call, as `x-request-id` has it")))
      .check(z.describe("Of a correction: the call that it is about")),
    note: z.nullish(z.string().check(z.maxLength(1000))),
  })
  .register(z.globalRegistry, { id: "CreditBody" });

export const EntryAnswer = z
  .object({
    id: z.int(),
    kind: z.enum(ENTRY_KINDS),
    amount_usd: usdAnswer,
    balance_usd: usdAnswer.check(z.describe("The balance after this entry")),
    at: timeAnswer,
    call_id: z.nullable(z.string()),
    model: z.nullable(z.string()),
    key: z.nullable(z.string()),
    reference: z.nullable(z.string()),
    resource: z
      .nullable(z.object({ kind: z.string(), id: z.int(), name: z.string() }))
      .check(z.describe("What was rented; null: not an entry of compute")),
    note: z.nullable(z.string()),
  })
  .register(z.globalRegistry, { id: "LedgerEntry" });

export const LedgerAnswer = z.object({
  ...listOf(EntryAnswer).shape,
  source: z.enum(["object", "archive"]),
});

export const AuditAnswer = z
  .object({
    ok: z.boolean().check(z.describe("True only where `problems` is empty")),
    entries_usd: usdAnswer.check(z.describe("Sum of all entries")),
    balance_usd: usdAnswer,
    held_usd: usdAnswer,
    overrun_usd: usdAnswer,
    operator_loss_usd: usdAnswer,
    open_holds: z.int(),
    open_leases: z.int(),
    oldest_hold_at: z.nullable(timeAnswer),
    outbox: z.int().check(z.describe("Usage events not yet known to stand in the reports")),
    problems: z.array(z.string()),
  })
  .register(z.globalRegistry, { id: "Audit" });
