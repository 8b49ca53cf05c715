/**
 * The end of holds that nobody ended. The tenant is charged what the last renewal reported, nothing where none did; the
 * rest of what was held is the most that the operator may have lost.
 */
import type { ServedBy } from "../../core/account/hold.ts";
import { splitCharge } from "../../core/account/ledger.ts";
import { costOf } from "../../core/pricing/prices.ts";
import { durationMs, eventOf } from "./call-events.ts";
import type { Books } from "./state.ts";
import type { HoldRow } from "./tables/holds.ts";

/** Due holds ended in one go. */
const EXPIRE_AT_ONCE = 500;

/** Called by the alarm and at the start of what reads money, so that a dead alarm blocks nobody. */
export function expireDue(books: Books, nowMs: number): void {
  if (books.nextExpiryMs === null || nowMs < books.nextExpiryMs) return;
  for (const hold of books.holds.due(nowMs, EXPIRE_AT_ONCE)) expire(books, hold, "hold_expired", nowMs, null);
  books.readNextExpiry();
}

/** Ends an open hold of which nobody knows what became. */
export function expire(books: Books, hold: HoldRow, reason: string, nowMs: number, servedBy: ServedBy | null): void {
  const { callId, amountNanoUsd, countedTokens, progress } = hold;
  const reportedNanoUsd = progress ? costOf(progress.reading.usage, hold.prices) : 0;
  const { chargedNanoUsd } = splitCharge(reportedNanoUsd, amountNanoUsd);
  // What was reported was executed: it has an entry, of zero too.
  const entryId = progress ? books.charge(hold, chargedNanoUsd, nowMs) : null;
  const lossNanoUsd = amountNanoUsd - chargedNanoUsd;
  books.end(hold, { state: "expired", chargedNanoUsd, countedTokens, endedAtMs: nowMs, entryId });
  books.operatorBook.loss(callId, lossNanoUsd, nowMs);
  books.idempotency.lost(callId, 0);
  const served = servedBy ?? progress?.servedBy;
  books.outbox.add({
    ...eventOf(books, hold, nowMs),
    upstream: served?.upstream ?? null,
    targetModel: served?.model ?? null,
    region: served?.region ?? null,
    outcome: "expired",
    reason,
    source: progress?.reading.source ?? "none",
    usage: progress?.reading.usage ?? {},
    priceNanoUsd: chargedNanoUsd,
    costNanoUsd: progress?.costNanoUsd ?? 0,
    lossNanoUsd,
    latencyMs: durationMs(hold.startedAtMs, nowMs),
  });
}
