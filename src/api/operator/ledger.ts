/** `/admin/accounts/{account}/credits`, its ledger, and `/admin/audit/{account}`: the account's money. */

import * as z from "zod/mini";
import { signFits } from "../../core/account/ledger.ts";
import { READERS } from "../../core/account/operators.ts";
import type { Audit, Credit, LedgerEntry } from "../../core/account/tenant.ts";
import { asId, type CallId } from "../../core/ids.ts";
import { formatUsd, toUsd } from "../../core/pricing/money.ts";
import { auditSeries } from "../../platform/archive/bucket-audit.ts";
import { listCallParts } from "../../platform/d1/call-parts.ts";
import type { AccountObject } from "../kit/account-object.ts";
import { type AdminRoutes, known, type OperatorContext, theAccount, theLiveAccount } from "../kit/context.ts";
import { moment, numberedPage, pageRequest } from "../kit/fields.ts";
import { ledgerPage } from "../kit/ledger-page.ts";
import { conflict, invalid } from "../kit/problem.ts";
import { answers, created, ok, route } from "../kit/route.ts";
import { toIso, toIsoOrNull } from "../kit/serializers.ts";

import { AuditAnswer, CreditBody, EntryAnswer, LedgerAnswer } from "./ledger-schema.ts";

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
  open_leases: audit.openLeases,
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
  query: z.strictObject({
    ...numberedPage,
    from: z.optional(moment).check(z.describe("Inclusive, of the time of booking")),
    to: z.optional(moment).check(z.describe("Exclusive")),
  }),
  answers: { 200: answers("Entries; `source` says where they were read", LedgerAnswer) },
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
    const page = await entriesIn(context.archive, object, query);
    const { data, nextCursor, source } = known(page, "account", id);
    return ok({ data: data.map(serializeEntry), next_cursor: nextCursor, source });
  });

  api.add(audit, async ({ work: context, params }) => {
    const { account: id } = params;
    const { row, object } = await theAccount(context, id);
    const found = known(await object.audit(), "account", id);
    const problems = [...found.problems, ...(await archiveProblems(context, row.number, object))];
    return ok(serializeAudit({ ...found, ok: problems.length === 0, problems }));
  });
}

interface Asked {
  readonly limit: number;
  readonly cursor?: string | undefined;
  readonly from?: number | undefined;
  readonly to?: number | undefined;
}

/** A page of the entries between two times; it may be short. */
async function entriesIn(archive: R2Bucket | undefined, object: AccountObject, query: Asked) {
  const { from: fromMs = 0, to: toMs = Number.MAX_SAFE_INTEGER } = query;
  const asked = pageRequest(query);
  if (query.from === undefined && query.to === undefined) return ledgerPage(archive, object, asked);
  const bounds = await object.entriesBetween(fromMs, toMs);
  if (!bounds) return undefined;
  const before = Math.min(Number(asked.cursor ?? Number.MAX_SAFE_INTEGER), bounds.throughId + 1);
  const page = await ledgerPage(archive, object, { ...asked, cursor: String(before) });
  if (!page) return undefined;
  const data = page.data.filter(({ id, atMs }) => id > bounds.afterId && atMs >= fromMs && atMs < toMs);
  const goesOn = Number(page.nextCursor ?? 0) - 1 > bounds.afterId;
  return { ...page, data, nextCursor: goesOn ? page.nextCursor : null };
}

async function archiveProblems({ archive, books }: OperatorContext, number: number, object: AccountObject) {
  if (!archive) return [];
  const all = { fromMs: 0, toMs: Number.MAX_SAFE_INTEGER };
  const ledger = auditSeries(
    archive,
    "ledger",
    number,
    async (after) => (await object.ledgerParts({ after, ...all })) ?? [],
  );
  const calls = auditSeries(archive, "calls", number, (n) => listCallParts(books, number, { n }));
  return (await Promise.all([ledger, calls])).flat();
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
