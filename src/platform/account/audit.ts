/**
 * The audit: recomputes from rows what the ledger, the holds and the mirrors claim, and names each breach. It reads
 * every entry once (in SQL); it is for the operator and for tests, not for the path of a call.
 */

import { MINUTE, TrailingCount } from "../../core/limits.ts";
import type { Audit } from "../../core/tenant.ts";
import type { Books } from "./books.ts";
import type { Sql } from "./schema.ts";
import type { Subject } from "./subjects.ts";
import { subjectsOf } from "./subjects.ts";

/** Examples named per breach. */
const EXAMPLES = 5;

export function audit(sql: Sql, books: Books, nowMs: number): Audit {
  const entriesNanoUsd = scalar(sql, "SELECT coalesce(sum(amount_nano_usd), 0) AS value FROM entries");
  const { openHolds, heldNanoUsd, oldestHoldAtMs } = sql
    .exec<{ openHolds: number; heldNanoUsd: number; oldestHoldAtMs: number | null }>(
      `SELECT count(*) AS openHolds, coalesce(sum(amount_nano_usd), 0) AS heldNanoUsd,
         min(admitted_at_ms) AS oldestHoldAtMs FROM holds WHERE open = 1`,
    )
    .one();
  const problems = [
    ...moneyProblems(books, entriesNanoUsd, heldNanoUsd, openHolds),
    ...rowProblems(sql),
    ...spendingProblems(sql, books, nowMs),
    ...activityProblems(books, nowMs),
  ];
  return {
    ok: problems.length === 0,
    entriesNanoUsd,
    balanceNanoUsd: books.ledger.balanceNanoUsd,
    heldNanoUsd,
    ...books.operatorBook.totals(),
    openHolds,
    oldestHoldAtMs,
    outbox: books.outbox.count(),
    problems,
  };
}

/** Sums against what is kept in memory, and the one promise of the ledger: balance less holds stays above the floor. */
function moneyProblems(books: Books, entriesNanoUsd: number, heldNanoUsd: number, openHolds: number): string[] {
  const problems: string[] = [];
  const { balanceNanoUsd, floorNanoUsd } = books.money();
  if (entriesNanoUsd !== balanceNanoUsd) {
    problems.push(`the entries add up to ${entriesNanoUsd}, the balance is ${balanceNanoUsd}`);
  }
  if (heldNanoUsd !== books.heldNanoUsd || openHolds !== books.openHolds) {
    problems.push(`${openHolds} open holds of ${heldNanoUsd}; in memory ${books.openHolds} of ${books.heldNanoUsd}`);
  }
  const lowest = Math.min(floorNanoUsd, books.tenants.account().toleratedNanoUsd ?? floorNanoUsd);
  if (balanceNanoUsd - heldNanoUsd < lowest) {
    problems.push(`balance ${balanceNanoUsd} less holds ${heldNanoUsd} is below the floor ${lowest}`);
  }
  return problems;
}

/** What no row may be; each query gives the offenders' ids. */
const ROW_RULES: readonly { readonly rule: string; readonly offenders: string }[] = [
  {
    rule: "an entry's running balance is wrong",
    offenders: `SELECT id FROM (SELECT id, balance_nano_usd AS said, sum(amount_nano_usd) OVER (ORDER BY id) AS true_sum
      FROM entries) WHERE said <> true_sum`,
  },
  {
    rule: "a charge adds money and corrects no other, or names no call",
    offenders: `SELECT id FROM entries WHERE kind = 'charge'
      AND (call_id IS NULL OR (amount_nano_usd > 0 AND counts_at_ms IS NULL))`,
  },
  {
    rule: "a settled hold has no entry of its amount",
    offenders: `SELECT holds.call_id AS id FROM holds LEFT JOIN entries ON entries.id = holds.entry_id
      WHERE state = 'settled' AND (entries.call_id IS NOT holds.call_id OR entries.amount_nano_usd <> -charged_nano_usd)`,
  },
  {
    rule: "an open or released hold has a charge or an entry",
    offenders: `SELECT call_id AS id FROM holds WHERE state IN ('open', 'released')
      AND (charged_nano_usd <> 0 OR entry_id IS NOT NULL OR late_entry_id IS NOT NULL)`,
  },
  {
    rule: "an expired hold's entries are not what it was charged",
    offenders: `SELECT holds.call_id AS id FROM holds
      LEFT JOIN entries AS first ON first.id = entry_id LEFT JOIN entries AS late ON late.id = late_entry_id
      WHERE state = 'expired' AND (charged_nano_usd <> -coalesce(first.amount_nano_usd, 0) - coalesce(late.amount_nano_usd, 0)
        OR (entry_id IS NOT NULL AND first.call_id IS NOT holds.call_id)
        OR (late_entry_id IS NOT NULL AND late.call_id IS NOT holds.call_id))`,
  },
  {
    rule: "an entry of a call is not one that its hold knows",
    offenders: `SELECT entries.id FROM entries JOIN holds ON holds.call_id = entries.call_id
      WHERE entries.id IS NOT entry_id AND entries.id IS NOT late_entry_id`,
  },
  {
    rule: "an expired hold has no operator's loss",
    offenders: `SELECT call_id AS id FROM holds WHERE state = 'expired' AND NOT EXISTS
      (SELECT 1 FROM operator_book WHERE operator_book.call_id = holds.call_id AND kind = 'operator_loss')`,
  },
  {
    rule: "a job that ended still holds money",
    offenders: `SELECT jobs.id FROM jobs JOIN holds ON holds.call_id = jobs.call_id
      WHERE jobs.state <> 'running' AND holds.state = 'open'`,
  },
  {
    rule: "a job was charged otherwise than its hold says",
    offenders: `SELECT jobs.id FROM jobs JOIN holds ON holds.call_id = jobs.call_id
      WHERE jobs.state <> 'running' AND jobs.charged_nano_usd <> holds.charged_nano_usd`,
  },
];

function rowProblems(sql: Sql): string[] {
  return ROW_RULES.flatMap(({ rule, offenders }) => {
    const ids = sql.exec<{ id: string | number }>(`${offenders} LIMIT ${EXAMPLES}`).toArray();
    return ids.length === 0 ? [] : [`${rule}: ${ids.map((row) => row.id).join(", ")}`];
  });
}

/** What budgets are judged by against the ledger, for the account and for all keys together. */
function spendingProblems(sql: Sql, books: Books, nowMs: number): string[] {
  const charged = -scalar(sql, "SELECT coalesce(sum(amount_nano_usd), 0) AS value FROM entries WHERE kind = 'charge'");
  const spent = books.spending.spent("account", "total", nowMs);
  return charged === spent ? [] : [`charges add up to ${charged}, the account's spending to ${spent}`];
}

/** The windows and slots in memory against the hold rows. */
function activityProblems(books: Books, nowMs: number): string[] {
  const fresh = new Map<Subject, { requests: TrailingCount; tokens: TrailingCount; slots: number; held: number }>();
  for (const hold of books.holds.recent(nowMs - MINUTE.spanMs - MINUTE.bucketMs)) {
    for (const subject of subjectsOf(hold)) {
      const sums = fresh.get(subject) ?? {
        requests: new TrailingCount(MINUTE),
        tokens: new TrailingCount(MINUTE),
        slots: 0,
        held: 0,
      };
      fresh.set(subject, sums);
      sums.requests.add(hold.admittedAtMs, 1);
      sums.tokens.add(hold.admittedAtMs, hold.countedTokens);
      if (!hold.open) continue;
      sums.slots += 1;
      sums.held += hold.amountNanoUsd;
    }
  }
  const problems: string[] = [];
  for (const subject of new Set([...fresh.keys(), ...books.activities.subjects()])) {
    const sums = fresh.get(subject);
    const mirror = books.activities.of(subject);
    const rows = [sums?.requests.used(nowMs) ?? 0, sums?.tokens.used(nowMs) ?? 0, sums?.slots ?? 0, sums?.held ?? 0];
    const kept = [mirror.requests.used(nowMs), mirror.tokens.used(nowMs), mirror.slots, mirror.heldNanoUsd];
    if (rows.some((value, index) => value !== kept[index])) {
      problems.push(`${subject}: requests, tokens, slots, held are ${rows.join(", ")}; in memory ${kept.join(", ")}`);
    }
  }
  return problems.slice(0, EXAMPLES);
}

const scalar = (sql: Sql, query: string): number => sql.exec<{ value: number }>(query).one().value;
