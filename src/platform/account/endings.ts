/**
 * The three ends of a hold, and its renewal. Each end writes the hold's row, what it means for ledger or operator, and
 * one usage event; all in the caller's transaction. The first end counts; every later word gets what was recorded.
 */
import type { HoldEnd, Release, ServedBy, Settlement, UsageEvent } from "../../core/hold.ts";
import type { CallId } from "../../core/ids.ts";
import { splitCharge } from "../../core/ledger.ts";
import { MAX_NANO_USD } from "../../core/money.ts";
import { costOf } from "../../core/prices.ts";
import { countedTokens } from "../../core/usage.ts";
import type { Books } from "./books.ts";
import type { HoldRow, HoldState } from "./holds.ts";

/** However often it is renewed, a hold ends this long after admission. */
export const LONGEST_HOLD_MS = 3_600_000;
/** Due holds ended in one go. */
const EXPIRE_AT_ONCE = 500;

const UNKNOWN: HoldEnd = { state: "unknown", chargedNanoUsd: 0 };

/**
 * Charges min(actual, held). After expiry the tenant pays nothing: the operator's loss gets its true figure. A hold whose
 * time is over but that nothing has expired yet is still open: its money is still set aside, so it is charged.
 */
export function settle(books: Books, settlement: Settlement, nowMs: number): HoldEnd {
  const hold = books.holds.find(settlement.callId);
  if (!hold) return UNKNOWN;
  const { usage } = settlement.reading;
  const actualNanoUsd = Math.min(costOf(usage, hold.prices), MAX_NANO_USD);
  if (hold.state !== "open") {
    if (hold.state === "expired") {
      books.operatorBook.correctLoss(hold.callId, actualNanoUsd + lossOf(hold, settlement));
      books.idempotency.correct(hold.callId, settlement);
    }
    return recorded(hold.state, hold);
  }
  const { chargedNanoUsd, overrunNanoUsd } = splitCharge(actualNanoUsd, hold.amountNanoUsd);
  const entryId = books.ledger.charge({ ...hold, chargedNanoUsd, atMs: nowMs });
  books.spending.charged(hold, chargedNanoUsd, nowMs, entryId);
  books.end(hold, {
    state: "settled",
    chargedNanoUsd,
    countedTokens: countedTokens(usage),
    endedAtMs: nowMs,
    entryId,
  });
  // Own count and suspiciously low figures may be too low for the bound of the next turn: this turn's bound stands then.
  const { source, lowInput } = settlement.reading;
  if (source === "exact" && !lowInput) books.ownedIds.settled(hold.callId, countedTokens(usage));
  books.idempotency.settled(hold.callId, settlement.status, settlement.outcome);
  if (overrunNanoUsd > 0) {
    books.operatorBook.overrun(hold.callId, overrunNanoUsd, nowMs);
    const chargedTodayNanoUsd = books.spending.spent("account", "day", nowMs);
    books.overrunWatch.overrun(books.tenants.account().id, overrunNanoUsd, chargedTodayNanoUsd, nowMs);
  }
  const lossNanoUsd = lossOf(hold, settlement);
  if (lossNanoUsd > 0) books.operatorBook.loss(hold.callId, lossNanoUsd, nowMs);
  books.outbox.add({
    ...eventOf(books, hold, nowMs),
    upstream: settlement.servedBy.upstream,
    targetModel: settlement.servedBy.model,
    region: settlement.servedBy.region,
    outcome: settlement.outcome,
    status: settlement.status,
    source,
    ...(lowInput && { lowInput }),
    usage,
    priceNanoUsd: chargedNanoUsd,
    costNanoUsd: settlement.costNanoUsd,
    overrunNanoUsd,
    lossNanoUsd,
    latencyMs: settlement.latencyMs,
    firstByteMs: settlement.firstByteMs,
  });
  return { state: "settled", chargedNanoUsd };
}

/**
 * No charge and no entry; the request stays counted, its tokens do not. After expiry: not executed means nothing was lost.
 */
export function release(books: Books, released: Release, nowMs: number): HoldEnd {
  const hold = books.holds.find(released.callId);
  if (!hold) return UNKNOWN;
  const notExecuted = released.lostTries === 0;
  if (hold.state !== "open") {
    if (hold.state === "expired" && notExecuted) {
      books.operatorBook.correctLoss(hold.callId, 0);
      books.idempotency.correct(hold.callId, "not_executed");
    }
    return recorded(hold.state, hold);
  }
  const lossNanoUsd = lossOf(hold, released);
  if (lossNanoUsd > 0) books.operatorBook.loss(hold.callId, lossNanoUsd, nowMs);
  books.idempotency.released(released);
  books.end(hold, { state: "released", chargedNanoUsd: 0, countedTokens: 0, endedAtMs: nowMs, entryId: null });
  books.outbox.add({
    ...eventOf(books, hold, nowMs),
    upstream: released.servedBy?.upstream ?? null,
    targetModel: released.servedBy?.model ?? null,
    region: released.servedBy?.region ?? null,
    outcome: "failed",
    reason: released.reason,
    status: released.status,
    lossNanoUsd,
    latencyMs: released.latencyMs,
  });
  return { state: "released", chargedNanoUsd: 0 };
}

/** Lets an open hold live on for `ttlMs`, up to the longest; false where it has ended. */
export function renew(books: Books, callId: CallId, nowMs: number, ttlMs: number): boolean {
  const hold = books.holds.find(callId);
  if (hold?.state !== "open") return false;
  const expiresAtMs = Math.min(nowMs + ttlMs, hold.admittedAtMs + LONGEST_HOLD_MS);
  if (expiresAtMs > hold.expiresAtMs) books.renew(callId, expiresAtMs);
  return true;
}

/**
 * Ends the holds whose time is over: the tenant pays nothing, the operator's book gets the held amount as the most that
 * was lost. Called by the alarm and at the start of what reads money, so that a dead alarm blocks nobody.
 */
export function expireDue(books: Books, nowMs: number): void {
  if (books.nextExpiryMs === null || nowMs < books.nextExpiryMs) return;
  for (const hold of books.holds.due(nowMs, EXPIRE_AT_ONCE)) expire(books, hold, "hold_expired", nowMs, null);
  books.readNextExpiry();
}

/** Ends an open hold of which nobody knows what became. */
export function expire(books: Books, hold: HoldRow, reason: string, nowMs: number, servedBy: ServedBy | null): void {
  const { callId, amountNanoUsd, countedTokens } = hold;
  books.end(hold, { state: "expired", chargedNanoUsd: 0, countedTokens, endedAtMs: nowMs, entryId: null });
  books.operatorBook.loss(callId, amountNanoUsd, nowMs);
  books.idempotency.lost(callId, 0);
  books.outbox.add({
    ...eventOf(books, hold, nowMs),
    upstream: servedBy?.upstream ?? null,
    targetModel: servedBy?.model ?? null,
    region: servedBy?.region ?? null,
    outcome: "expired",
    reason,
    lossNanoUsd: amountNanoUsd,
    latencyMs: nowMs - hold.startedAtMs,
  });
}

/** The held amount is the most that one try can have cost. */
const lossOf = (hold: HoldRow, { lostTries }: Pick<Release, "lostTries">): number =>
  Math.min(lostTries * hold.amountNanoUsd, MAX_NANO_USD);

const recorded = (state: Exclude<HoldState, "open">, hold: HoldRow): HoldEnd => ({
  state,
  chargedNanoUsd: hold.chargedNanoUsd,
});

/** The event of a call of which nothing is known but its hold. */
function eventOf(books: Books, hold: HoldRow, endedAtMs: number): UsageEvent {
  return {
    eventId: hold.callId,
    account: books.tenants.account().id,
    team: hold.teamId,
    key: hold.keyId,
    endpoint: hold.endpoint,
    model: hold.model,
    alias: hold.alias,
    upstream: null,
    targetModel: null,
    region: null,
    outcome: "failed",
    reason: null,
    status: 0,
    source: "none",
    usage: {},
    priceNanoUsd: 0,
    costNanoUsd: 0,
    overrunNanoUsd: 0,
    lossNanoUsd: 0,
    priceRule: hold.priceRule,
    startedAtMs: hold.startedAtMs,
    endedAtMs,
    latencyMs: 0,
    firstByteMs: null,
  };
}
