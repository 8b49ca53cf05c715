/**
 * An account's month: what stood at its beginning, what was booked, what was charged by model, and what stood at its
 * end. Balances and credits are the ledger's. The charges by model are those of the usage reports; what the two differ
 * by, as long as events are on their way, stands as `unreported_usd`.
 */
import * as z from "zod/mini";
import type { LedgerSpan } from "../../core/account/account-views.ts";
import type { AccountId } from "../../core/ids.ts";
import { formatUsd } from "../../core/pricing/money.ts";
import { reportUsage } from "../../platform/d1/usage-report.ts";
import type { AccountObject } from "./account-object.ts";
import { known } from "./context.ts";
import { type Cell, csvLine } from "./csv.ts";
import { timeAnswer, usdAnswer } from "./fields.ts";
import { invalid } from "./problem.ts";
import { toIso } from "./serializers.ts";

export const statementQuery = {
  month: z
    .optional(z.string())
    .check(z.meta({ description: "Of UTC, such as `2026-11`; this one where absent", example: "2026-11" })),
  format: z._default(z.enum(["json", "csv"]), "json"),
};

export const StatementAnswer = z
  .object({
    account: z.string(),
    month: z.string(),
    from: timeAnswer,
    to: timeAnswer,
    complete: z.boolean().check(z.describe("False while the month lasts")),
    opening_usd: usdAnswer,
    credits: z
      .array(z.object({ at: timeAnswer, kind: z.string(), amount_usd: usdAnswer, reference: z.nullable(z.string()) }))
      .check(z.describe("Top-ups, refunds and corrections, oldest first; at most 1,000 of `credit_count`")),
    credit_count: z.int(),
    credits_usd: usdAnswer,
    charges: z.array(z.object({ model: z.string(), calls: z.int(), charged_usd: usdAnswer })),
    charges_usd: usdAnswer.check(z.describe("By the ledger; what rentals were given back is taken off")),
    unreported_usd: usdAnswer.check(z.describe("Charged, and not in a usage report yet; 0 some seconds after a call")),
    closing_usd: usdAnswer.check(z.describe("opening + credits - charges")),
  })
  .register(z.globalRegistry, { id: "Statement" });

export interface Month {
  readonly name: string;
  readonly fromMs: number;
  readonly toMs: number;
}

export function monthOf(text: string | undefined, nowMs: number): Month {
  if (text === undefined) return monthOf(toIso(nowMs).slice(0, 7), nowMs);
  const [, year = "0", month = "0"] = /^(2\d{3})-(0[1-9]|1[0-2])$/.exec(text) ?? [];
  const fromMs = Date.UTC(Number(year), Number(month) - 1);
  if (year === "0" || fromMs > nowMs) throw invalid("month", "`month` must be a month such as 2026-11 that has begun.");
  return { name: text, fromMs, toMs: Date.UTC(Number(year), Number(month)) };
}

/** Nano-USD. */
interface Statement {
  readonly account: string;
  readonly month: Month;
  readonly complete: boolean;
  readonly span: LedgerSpan;
  readonly charges: readonly { readonly model: string; readonly calls: number; readonly chargedNanoUsd: bigint }[];
  readonly chargesNanoUsd: bigint;
  readonly unreportedNanoUsd: bigint;
}

const MOST_MODELS = 10_000;

export async function statementOf(
  books: D1Database,
  object: Pick<AccountObject, "view">,
  account: AccountId,
  month: Month,
  nowMs: number,
): Promise<Statement> {
  const { fromMs, toMs } = month;
  const query = { fromMs, toMs, account, groupBy: ["model"], limit: MOST_MODELS, offset: 0 } as const;
  const span = known(await object.view("span", { fromMs, toMs }), "account", account);
  const rows = await reportUsage(books, query);
  const chargesNanoUsd = BigInt(span.openingNanoUsd) + span.creditsNanoUsd - BigInt(span.closingNanoUsd);
  const reported = rows.reduce((sum, { priceNanoUsd }) => sum + priceNanoUsd, 0n);
  return {
    account,
    month,
    complete: toMs <= nowMs,
    span,
    charges: rows.map(({ groups, calls, priceNanoUsd }) => ({
      model: String(groups[0]),
      calls,
      chargedNanoUsd: priceNanoUsd,
    })),
    chargesNanoUsd,
    unreportedNanoUsd: chargesNanoUsd - reported,
  };
}

const usd = (nanoUsd: number | bigint): number => Number(formatUsd(nanoUsd));

export const serializeStatement = (statement: Statement): z.input<typeof StatementAnswer> => {
  const { account, month, complete, span, charges, chargesNanoUsd, unreportedNanoUsd } = statement;
  return {
    account,
    month: month.name,
    from: toIso(month.fromMs),
    to: toIso(month.toMs),
    complete,
    opening_usd: usd(span.openingNanoUsd),
    credits: span.credits.map(({ atMs, kind, amountNanoUsd, reference }) => ({
      at: toIso(atMs),
      kind,
      amount_usd: usd(amountNanoUsd),
      reference,
    })),
    credit_count: span.creditCount,
    credits_usd: usd(span.creditsNanoUsd),
    charges: charges.map(({ model, calls, chargedNanoUsd }) => ({ model, calls, charged_usd: usd(chargedNanoUsd) })),
    charges_usd: usd(chargesNanoUsd),
    unreported_usd: usd(unreportedNanoUsd),
    closing_usd: usd(span.closingNanoUsd),
  };
};

export const STATEMENT_HEAD = csvLine(["account", "month", "line", "at", "name", "calls", "amount_usd"]);

/** The lines of one statement: their amounts add up from `opening` to `closing`. */
export function statementToCsv(statement: Statement): string {
  const { account, month, span, charges, unreportedNanoUsd } = statement;
  const line = (...[kind, at, name, calls, nanoUsd]: [string, number | null, Cell, number | null, number | bigint]) =>
    csvLine([account, month.name, kind, at && toIso(at), name, calls, { decimal: formatUsd(nanoUsd) }]);
  const shown = span.credits.reduce((sum, { amountNanoUsd }) => sum + BigInt(amountNanoUsd), 0n);
  return [
    line("opening", month.fromMs, null, null, span.openingNanoUsd),
    ...span.credits.map(({ kind, atMs, reference, amountNanoUsd }) => line(kind, atMs, reference, null, amountNanoUsd)),
    ...(shown === span.creditsNanoUsd ? [] : [line("more credits", null, null, null, span.creditsNanoUsd - shown)]),
    ...charges.map(({ model, calls, chargedNanoUsd }) => line("charges", null, model, calls, -chargedNanoUsd)),
    ...(unreportedNanoUsd === 0n ? [] : [line("charges", null, "(not reported yet)", null, -unreportedNanoUsd)]),
    line("closing", month.toMs, null, null, span.closingNanoUsd),
  ].join("");
}

export const csvAnswer = (body: string | ReadableStream<Uint8Array>, name: string): Response =>
  new Response(body, {
    headers: {
      "content-type": "text/csv; charset=utf-8",
      "content-disposition": `attachment; filename="${name}.csv"`,
      "cache-control": "no-store",
    },
  });
