/**
 * The audit: recomputes from the rows what the ledger, the holds and the state in memory claim, and lists each breach.
 * It reads every ledger entry once (in SQL). It is for the operator and for tests, never part of a call.
 *
 * It runs in slices, with calls served in between. That is sound for two reasons. Entries are only appended while it
 * runs (none is folded), so a sum over the entries so far can be continued later. A rule about a single row holds after
 * every transaction, so each row can be checked in a transaction of its own. The last slice covers what was added
 * meanwhile and compares the sums with the state in memory.
 */

import type { Audit } from "../../core/account/tenant.ts";
import { MINUTE, TrailingCount } from "../../core/account/trailing-count.ts";
import { OVER_MS } from "../../core/leases/slice.ts";
import { checkLeasedCalls, EntryWalk, EXAMPLES, Findings, ROW_TABLES, type RowTable } from "./audit-rules.ts";
import { expireDue } from "./expiry.ts";
import { ENTRIES_PER_SLICE, letOthersIn, ROWS_PER_SLICE } from "./slices.ts";
import type { AccountState } from "./state.ts";
import type { Store } from "./store.ts";
import { HOLD_KEPT_MS } from "./tables/holds.ts";
import type { Subject } from "./tables/limit-scopes.ts";
import { subjectsOf } from "./tables/limit-scopes.ts";
import type { OperatorTotals } from "./tables/operator-losses.ts";

/** Attempts to sum the operator's losses in slices if they change meanwhile; after that they are summed in one go. */
const TRIES = 3;
/** Of a problem in an alert. */
const LONGEST_PROBLEM = 300;

export async function audit(store: Store): Promise<Audit | undefined> {
  store.audits += 1;
  try {
    return await walk(store);
  } finally {
    store.audits -= 1;
  }
}

async function walk(store: Store): Promise<Audit | undefined> {
  const opened = store.transact((state, nowMs) => {
    expireDue(state, nowMs);
    return true;
  });
  if (!opened) return undefined;
  const findings = new Findings();
  const entries = new EntryWalk(store.sql, findings);
  for (const table of ROW_TABLES) await inSlices(store, table, findings);
  const totals = await operatorTotals(store);
  while (store.transact(() => entries.step(ENTRIES_PER_SLICE))) await letOthersIn();
  return store.transact((state, nowMs) => {
    expireDue(state, nowMs);
    while (entries.step(ENTRIES_PER_SLICE));
    return conclude(store, state, entries, findings, totals, nowMs);
  });
}

function conclude(
  { sql }: Store,
  state: AccountState,
  entries: EntryWalk,
  findings: Findings,
  totals: OperatorTotals | undefined,
  nowMs: number,
): Audit {
  const { openHolds, heldNanoUsd, oldestHoldAtMs } = sql
    .exec<{ openHolds: number; heldNanoUsd: number; oldestHoldAtMs: number | null }>(
      `SELECT count(*) AS openHolds, coalesce(sum(amount_nano_usd), 0) AS heldNanoUsd,
         min(admitted_at_ms) AS oldestHoldAtMs FROM holds WHERE open = 1`,
    )
    .one();
  checkLeasedCalls(sql, nowMs + HOLD_KEPT_MS - MINUTE.spanMs, findings);
  const problems = [
    ...moneyProblems(state, entries.nanoUsd, heldNanoUsd, openHolds),
    ...findings.problems(),
    ...spendingProblems(state, entries.chargedNanoUsd, nowMs),
    ...activityProblems(state, nowMs),
  ];
  if (problems.length > 0 && state.alerts.firstToday("audit", nowMs)) {
    const data = { problems: problems.slice(0, EXAMPLES).map((problem) => problem.slice(0, LONGEST_PROBLEM)) };
    state.alerts.tell(state.tenants.account().id, { type: "audit.failed", data }, nowMs);
  }
  const { overrunNanoUsd, operatorLossNanoUsd } =
    totals?.version === state.operatorBook.version ? totals : state.operatorBook.totals("", null);
  return {
    ok: problems.length === 0,
    entriesNanoUsd: entries.nanoUsd,
    balanceNanoUsd: state.ledger.balanceNanoUsd,
    heldNanoUsd,
    overrunNanoUsd,
    operatorLossNanoUsd,
    openHolds,
    openLeases: state.leases.all().length,
    oldestHoldAtMs,
    outbox: state.outbox.count(),
    problems,
  };
}

/** Checks a table's rows by key, a slice at a time. */
async function inSlices(store: Store, table: RowTable, findings: Findings): Promise<void> {
  for (let after = ""; ; ) {
    const through = store.transact(() => {
      const last = table.keyAfter(store.sql, after, ROWS_PER_SLICE);
      table.check(store.sql, after, last, findings);
      return last;
    });
    if (typeof through !== "string") return;
    after = through;
    await letOthersIn();
  }
}

/** Undefined if the table is short or keeps changing; it is then summed in one go. */
async function operatorTotals(store: Store): Promise<OperatorTotals | undefined> {
  for (let time = 0; time < TRIES; time++) {
    const version = store.transact(({ operatorBook }) => operatorBook.version);
    let [after, overrunNanoUsd, operatorLossNanoUsd, slices] = ["", 0, 0, 0];
    for (let through: string | null | undefined = ""; typeof through === "string"; slices++) {
      if (slices > 0) await letOthersIn();
      through = store.transact(({ operatorBook }) => {
        const last = operatorBook.callAfter(after, ROWS_PER_SLICE);
        const part = operatorBook.totals(after, last);
        overrunNanoUsd += part.overrunNanoUsd;
        operatorLossNanoUsd += part.operatorLossNanoUsd;
        after = last ?? after;
        return last;
      });
    }
    if (version && version === store.transact(({ operatorBook }) => operatorBook.version)) {
      return { version, overrunNanoUsd, operatorLossNanoUsd };
    }
  }
  return undefined;
}

/**
 * Compares the sums with the state in memory, and checks the ledger's promise: balance less holds stays above the
 * floor.
 */
function moneyProblems(state: AccountState, entriesNanoUsd: number, heldNanoUsd: number, openHolds: number): string[] {
  const problems: string[] = [];
  const { balanceNanoUsd, floorNanoUsd } = state.money();
  if (entriesNanoUsd !== balanceNanoUsd) {
    problems.push(`the entries add up to ${entriesNanoUsd}, the balance is ${balanceNanoUsd}`);
  }
  if (heldNanoUsd !== state.heldNanoUsd || openHolds !== state.openHolds) {
    problems.push(`${openHolds} open holds of ${heldNanoUsd}; in memory ${state.openHolds} of ${state.heldNanoUsd}`);
  }
  const lowest = Math.min(floorNanoUsd, state.tenants.account().toleratedNanoUsd ?? floorNanoUsd);
  if (balanceNanoUsd - heldNanoUsd < lowest) {
    problems.push(`balance ${balanceNanoUsd} less holds ${heldNanoUsd} is below the floor ${lowest}`);
  }
  return problems;
}

/** Compares the budgets' sums with the ledger, for the account and for all keys together. */
function spendingProblems(state: AccountState, chargedNanoUsd: number, nowMs: number): string[] {
  const spent = state.spending.spent("account", "total", nowMs);
  return chargedNanoUsd === spent ? [] : [`charges add up to ${chargedNanoUsd}, the account's spending to ${spent}`];
}

/** Compares the windows and slots in memory with the hold rows. */
function activityProblems(state: AccountState, nowMs: number): string[] {
  const fresh = new Map<
    Subject,
    { requests: TrailingCount; tokens: TrailingCount; slots: number; held: number; leased: number }
  >();
  for (const hold of state.holds.recent(nowMs - MINUTE.spanMs - MINUTE.bucketMs)) {
    for (const subject of subjectsOf(hold)) {
      const sums = fresh.get(subject) ?? {
        requests: new TrailingCount(MINUTE),
        tokens: new TrailingCount(MINUTE),
        slots: 0,
        held: 0,
        leased: 0,
      };
      fresh.set(subject, sums);
      const { lease } = hold;
      const isCall = hold.rental === null && !lease;
      if (lease && !hold.open) {
        sums.requests.add(hold.admittedAtMs + OVER_MS, lease.requests);
        sums.tokens.add(hold.admittedAtMs + OVER_MS, hold.countedTokens);
      }
      if (isCall) sums.requests.add(hold.admittedAtMs, 1);
      if (isCall) sums.tokens.add(hold.admittedAtMs, hold.countedTokens);
      if (!hold.open) continue;
      sums.slots += lease?.slots ?? (isCall ? 1 : 0);
      sums.leased += lease?.requests ?? 0;
      sums.held += hold.amountNanoUsd;
    }
  }
  const problems: string[] = [];
  for (const subject of new Set([...fresh.keys(), ...state.activities.subjects()])) {
    const sums = fresh.get(subject);
    const mirror = state.activities.of(subject);
    const { requests, tokens, slots, held, leased } = sums ?? {};
    const rows = [requests?.used(nowMs) ?? 0, tokens?.used(nowMs) ?? 0, slots ?? 0, held ?? 0, leased ?? 0];
    const uses = [mirror.requests.used(nowMs), mirror.tokens.used(nowMs)];
    const kept = [...uses, mirror.slots, mirror.heldNanoUsd, mirror.leased.requests];
    if (rows.some((value, index) => value !== kept[index])) {
      problems.push(
        `${subject}: requests, tokens, slots, held, leased are ${rows.join(", ")}; in memory ${kept.join(", ")}`,
      );
    }
  }
  return problems.slice(0, EXAMPLES);
}
