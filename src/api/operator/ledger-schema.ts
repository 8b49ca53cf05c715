/** Credits, ledger entries and audits in bodies and answers. */
import * as z from "zod";
import { ENTRY_KINDS } from "../../core/account/tenant.ts";
import { signedUsd, timeAnswer, usdAnswer } from "../kit/fields.ts";

export const CreditBody = z
  .strictObject({
    amount_usd: signedUsd,
    reference: z.string().min(1).max(200).meta({ description: "Counts once per account: repeat it safely" }),
    kind: z.enum(["top_up", "refund", "correction"]).default("top_up").meta({
      description:
        "`top_up`: money came in, above zero. `refund`: money was paid back to the tenant, below zero. `correction`: either sign",
    }),
    call_id: z
      .string()
      .regex(/^[\x21-\x7e]{1,200}$/, "must be the id of a call, as `x-request-id` has it")
      .nullable()
      .optional()
      .meta({ description: "Of a correction: the call that it is about" }),
    note: z.string().max(1000).nullable().optional(),
  })
  .meta({ id: "CreditBody" });

export const EntryAnswer = z
  .object({
    id: z.int(),
    kind: z.enum(ENTRY_KINDS),
    amount_usd: usdAnswer,
    balance_usd: usdAnswer.meta({ description: "The balance after this entry" }),
    at: timeAnswer,
    call_id: z.string().nullable(),
    model: z.string().nullable(),
    key: z.string().nullable(),
    reference: z.string().nullable(),
    resource: z
      .object({ kind: z.string(), id: z.int(), name: z.string() })
      .nullable()
      .meta({ description: "What was rented; null: not an entry of compute" }),
    note: z.string().nullable(),
  })
  .meta({ id: "LedgerEntry" });

export const AuditAnswer = z
  .object({
    ok: z.boolean().meta({ description: "True only where `problems` is empty" }),
    entries_usd: usdAnswer.meta({ description: "Sum of all entries" }),
    balance_usd: usdAnswer,
    held_usd: usdAnswer,
    overrun_usd: usdAnswer,
    operator_loss_usd: usdAnswer,
    open_holds: z.int(),
    oldest_hold_at: timeAnswer.nullable(),
    outbox: z.int().meta({ description: "Usage events not yet known to stand in the reports" }),
    problems: z.array(z.string()),
  })
  .meta({ id: "Audit" });
