/** `/admin/accounts/{account}/credits`, its ledger, and `/admin/audit/{account}`: the account's money. */

import * as z from "zod/mini";
import { signFits } from "../../core/account/ledger.ts";
import { READERS } from "../../core/account/operators.ts";
import type { Audit, Credit, LedgerEntry } from "../../core/account/tenant.ts";
import { asId, type CallId } from "../../core/ids.ts";
import { formatUsd, toUsd } from "../../core/pricing/money.ts";
import { type AdminRoutes, known, theAccount, theLiveAccount } from "../kit/context.ts";
import { listOf, numberedPage, pageRequest } from "../kit/fields.ts";
import { conflict, invalid } from "../kit/problem.ts";
import { answers, created, ok, route } from "../kit/route.ts";
import { toIso, toIsoOrNull } from "../kit/serializers.ts";

import { AuditAnswer, CreditBody, EntryAnswer } from "./ledger-schema.ts";

const serializeEntry = (entry: LedgerEntry) => ({
  id: entry.id,
  kind: entry.kind,
  amount_usd: toUsd(entry.amountNanoUsd),
  balance_usd: toUsd(entry.balanceNanoUsd),
  at: toIso(entry.atMs),
  call_id: entry.callId,
  model: entry.model,
  key: entry.keyId,
  reference: entry.reference,
  resource: entry.resource ?? null,
  note: entry.note,
});

const serializeAudit = (audit: Audit) => ({
  ok: audit.ok,
  entries_usd: toUsd(audit.entriesNanoUsd),
  balance_usd: toUsd(audit.balanceNanoUsd),
  held_usd: toUsd(audit.heldNanoUsd),
  overrun_usd: toUsd(audit.overrunNanoUsd),
  operator_loss_usd: toUsd(audit.operatorLossNanoUsd),
  open_holds: audit.openHolds,
  oldest_hold_at: toIsoOrNull(audit.oldestHoldAtMs),
  outbox: audit.outbox,
  problems: [...audit.problems],
});

const credit = route({
  id: "creditAccount",
  method: "post",
  path: "/admin/accounts/{account}/credits",
  roles: { finance: "all" },
  summary: "Book a top-up, a refund or a correction, once per reference",
  body: CreditBody,
  answers: {
    200: answers("The entry that this reference already has", EntryAnswer),
    201: answers("The new entry", EntryAnswer),
  },
});
const entries = route({
  id: "listLedgerEntries",
  method: "get",
  path: "/admin/accounts/{account}/ledger",
  roles: READERS,
  summary: "Read the ledger, newest first",
  query: z.strictObject(numberedPage),
  answers: { 200: answers("Entries", listOf(EntryAnswer)) },
});
const audit = route({
  id: "auditAccount",
  method: "get",
  path: "/admin/audit/{account}",
  roles: READERS,
  summary: "Recompute the ledger",
  answers: { 200: answers("What the recomputation found", AuditAnswer) },
});

export function addLedger(api: AdminRoutes): void {
  api.add(credit, async ({ work: context, params, body }) => {
    const { account: id } = params;
    const wanted = creditFrom(body);
    const { object } = await theLiveAccount(context, id);
    const outcome = known(await object.credit(wanted), "account", id);
    switch (outcome.kind) {
      case "booked":
        return created(serializeEntry(outcome.entry));
      case "already_booked":
        return ok(serializeEntry(outcome.entry));
      case "reference_conflict":
        throw conflict(
          "reference_conflict",
          `The reference '${wanted.reference}' stands for a ${outcome.entry.kind} of ` +
            `${formatUsd(outcome.entry.amountNanoUsd)} USD${outcome.entry.callId ? ` for the call ${outcome.entry.callId}` : ""}. Use another reference for another credit.`,
          "reference",
        );
      case "out_of_range":
        throw conflict(
          "balance_out_of_range",
          "The balance would fall below what is held, or leave its range.",
          "amount_usd",
        );
    }
  });

  api.add(entries, async ({ work: context, params, query }) => {
    const { account: id } = params;
    const { object } = await theAccount(context, id);
    const page = known(await object.entries(pageRequest(query)), "account", id);
    return ok({ data: page.data.map(serializeEntry), next_cursor: page.nextCursor });
  });

  api.add(audit, async ({ work: context, params }) => {
    const { account: id } = params;
    const { object } = await theAccount(context, id);
    return ok(serializeAudit(known(await object.audit(), "account", id)));
  });
}

function creditFrom(body: z.output<typeof CreditBody>): Credit {
  const { kind, amount_usd: amountNanoUsd, call_id, note } = body;
  if (amountNanoUsd === 0) throw invalid("amount_usd", "`amount_usd` must not be zero.");
  if (!signFits(kind, amountNanoUsd)) throw invalid("amount_usd", WRONG_SIGN[kind]);
  if (call_id && kind !== "correction") {
    throw invalid("call_id", `\`call_id\` is for a correction. Leave it out of a ${kind}, or book a correction.`);
  }
  return {
    kind,
    amountNanoUsd,
    reference: body.reference,
    note: note ?? null,
    callId: call_id ? asId<CallId>(call_id) : null,
  };
}

const WRONG_SIGN: Readonly<Record<Credit["kind"], string>> = {
  top_up:
    "`amount_usd` of a top_up must be above zero. For money paid back to the tenant book a refund, else a correction.",
  refund:
    "`amount_usd` of a refund must be below zero: it is money that was paid back to the tenant. To give credit for a " +
    "call book a correction above zero.",
  correction: "`amount_usd` of a correction must not be zero.",
};
