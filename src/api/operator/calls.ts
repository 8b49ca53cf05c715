/**
 * `/admin/calls`: single calls, and the proof of what each was charged. A proof names its ledger entries; they are read
 * from the account's object, which has the last word.
 */
import * as z from "zod/mini";
import { READERS } from "../../core/account/operators.ts";
import type { LedgerEntry } from "../../core/account/tenant.ts";
import { toUsd } from "../../core/pricing/money.ts";
import { proofOf } from "../../core/pricing/proof.ts";
import { UNIT_NAMES } from "../../core/pricing/usage.ts";
import { findArchived } from "../../platform/archive/call-reader.ts";
import { findAccount } from "../../platform/d1/accounts.ts";
import type { CallRow } from "../../platform/d1/call-rows.ts";
import { findCall } from "../../platform/d1/calls.ts";
import { findRefusedCall } from "../../platform/d1/refused-calls.ts";
import { callPage, callQuery, callsOf } from "../kit/call-query.ts";
import { CallAnswer, callFields, quantityShown, serializeCall } from "../kit/call-record.ts";
import { type AdminRoutes, known, type OperatorContext, theAccount } from "../kit/context.ts";
import { timeAnswer, usdAnswer } from "../kit/fields.ts";
import { ledgerPage } from "../kit/ledger-page.ts";
import { notFound } from "../kit/problem.ts";
import { answers, ok, route } from "../kit/route.ts";
import { toIso } from "../kit/serializers.ts";

const ProofAnswer = z
  .object({
    lines: z.array(
      z.object({
        unit: z.enum(UNIT_NAMES),
        quantity: z.number(),
        price_usd: usdAnswer.check(z.describe("For `per` of the unit")),
        per: z.number(),
      }),
    ),
    sum_usd: usdAnswer.check(z.describe("Quantity x price / per, all lines, rounded up once to a nano-USD")),
    held_usd: usdAnswer,
    charged_usd: usdAnswer.check(z.describe("The sum, but never more than was held")),
    price_rule: z.string().check(z.describe("`book:`, `plan:` or `free`, the row that it came from, and its markup")),
    entries: z
      .array(z.object({ id: z.int(), at: timeAnswer, kind: z.string(), amount_usd: usdAnswer, balance_usd: usdAnswer }))
      .check(z.describe("Of the ledger: a charge is negative")),
    source: z.enum(["books", "archive"]).check(z.describe("Where the call's record was read")),
    ok: z.boolean().check(z.describe("The ledger's entries come to what was charged, and that to the sum or the hold")),
  })
  .register(z.globalRegistry, { id: "Proof" });

const list = route({
  id: "listCalls",
  method: "get",
  path: "/admin/calls",
  roles: READERS,
  summary: "List single calls, newest first",
  query: z.strictObject({
    ...callQuery,
    account: z.optional(z.string()),
    team: z.optional(z.string()),
    key: z.optional(z.string()),
    upstream: z.optional(z.string()),
  }),
  answers: { 200: answers("Calls; a page may be short and yet have a cursor", callsOf(CallAnswer)) },
});
const get = route({
  id: "getCall",
  method: "get",
  path: "/admin/calls/{call}",
  roles: READERS,
  summary: "Read a call by its request id, with the proof of its charge",
  query: z.strictObject({
    account: z.optional(z.string()).check(z.describe("Whose call it is: needed for one that left for the archive")),
  }),
  answers: {
    200: answers(
      "The call",
      z
        .object({
          ...callFields,
          proof: z.nullable(ProofAnswer).check(z.describe("Null: its prices were not recorded")),
        })
        .register(z.globalRegistry, { id: "ProvedCall" }),
    ),
  },
});

export function addCalls(api: AdminRoutes): void {
  api.add(list, async ({ work: { books, archive }, query }) => {
    const { account, team, key, upstream } = query;
    return ok(await callPage({ books, archive }, query, { account, team, key, upstream }, serializeCall));
  });

  api.add(get, async ({ work: context, params, query }) => {
    const found = (await findCall(context.books, params.call)) ?? (await findRefusedCall(context.books, params.call));
    const call = known(found ?? (await findGone(context, params.call, query.account)), "call", params.call);
    if (query.account !== undefined && call.account !== query.account) throw notFound("call", params.call);
    if (!("eventId" in call)) return ok({ ...serializeCall(call), proof: null });
    const source = found ? "books" : "archive";
    return ok({ ...serializeCall(call), proof: await proof(context, call, source) });
  });
}

/** A call that left the books. */
async function findGone({ archive, books }: OperatorContext, id: string, account: string | undefined) {
  const row = archive && account !== undefined ? await findAccount(books, account) : undefined;
  return archive && row && findArchived({ books, bucket: archive, account: row.number }, id);
}

type Source = "books" | "archive";

async function proof(
  context: OperatorContext,
  call: CallRow,
  source: Source,
): Promise<z.input<typeof ProofAnswer> | null> {
  if (!call.detail) return null;
  const { heldNanoUsd, prices } = call.detail;
  const { lines, sumNanoUsd } = proofOf(call.usage, prices);
  const entries = await entriesOf(context, call);
  const bookedNanoUsd = entries.reduce((sum, { amountNanoUsd }) => sum - amountNanoUsd, 0);
  // A late end is charged what balance and budgets leave by then.
  const due = Math.min(sumNanoUsd, heldNanoUsd);
  const asDue = call.parts.length > 1 ? call.priceNanoUsd <= sumNanoUsd : call.priceNanoUsd === due;
  return {
    lines: lines.map(({ unit, quantity, rateNanoUsd, per }) => ({
      unit,
      quantity: quantityShown(unit, quantity),
      price_usd: toUsd(rateNanoUsd),
      per: quantityShown(unit, per),
    })),
    sum_usd: toUsd(sumNanoUsd),
    held_usd: toUsd(heldNanoUsd),
    charged_usd: toUsd(call.priceNanoUsd),
    price_rule: call.priceRule,
    entries: entries.map((entry) => ({
      id: entry.id,
      at: toIso(entry.atMs),
      kind: entry.kind,
      amount_usd: toUsd(entry.amountNanoUsd),
      balance_usd: toUsd(entry.balanceNanoUsd),
    })),
    source,
    ok: asDue && bookedNanoUsd === call.priceNanoUsd,
  };
}

async function entriesOf(context: OperatorContext, call: CallRow): Promise<readonly LedgerEntry[]> {
  const ids = call.parts.flatMap(({ detail }) => detail?.entry ?? []);
  if (ids.length === 0) return [];
  const { object } = await theAccount(context, call.account);
  const { archive } = context;
  const pages = await Promise.all(ids.map((id) => ledgerPage(archive, object, { cursor: String(id + 1), limit: 1 })));
  return pages.flatMap((page) => page?.data ?? []).filter(({ callId, id }) => ids.includes(id) && callId !== null);
}
