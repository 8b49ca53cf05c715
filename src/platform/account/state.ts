/**
 * The state of one account object: the classes of its tables with their mirrors in memory, loaded together.
 *
 * SQL is the truth. Mirrors change in the same transaction as the rows; if one fails, the whole state is dropped and
 * loaded again, so the two cannot differ. Loading reads the open holds, the holds of the last minute and a bounded
 * number of rows that are not in the roll-ups yet, never all keys, holds or entries.
 */

import { type BudgetUse, budgetWindow } from "../../core/account/budgets.ts";
import { type FreeReach, freeAllowance } from "../../core/account/free-calls.ts";
import { floorOf, type Money } from "../../core/account/ledger.ts";
import type { LevelUse } from "../../core/account/limits.ts";
import type { Key } from "../../core/account/tenant.ts";
import { MINUTE } from "../../core/account/trailing-count.ts";
import type { Lengths } from "../../core/compute/rental.ts";
import type { CallId, KeyId } from "../../core/ids.ts";
import type { Refusal } from "../../core/refusal.ts";
import { earliest } from "./earliest.ts";
import type { RefusedBuffer } from "./refused-buffer.ts";
import type { Sql } from "./schema.ts";
import { ComputeRequests } from "./tables/compute-requests.ts";
import { DayRequests } from "./tables/day-requests.ts";
import { FreeCalls, type FreeLevel } from "./tables/free-calls.ts";
import { type Ending, goesAtMs, type HoldRow, Holds, type NewHold } from "./tables/holds.ts";
import { IdempotencyKeys } from "./tables/idempotency.ts";
import { InferenceRentals } from "./tables/inference-rentals.ts";
import { Jobs } from "./tables/jobs.ts";
import { Keys } from "./tables/keys.ts";
import { Ledger } from "./tables/ledger.ts";
import { limitedBy, type Scope } from "./tables/limit-scopes.ts";
import { MarginWatch } from "./tables/margin-watch.ts";
import { Leases, type OpenLease } from "./tables/open-leases.ts";
import { OperatorBook } from "./tables/operator-losses.ts";
import { Outbox } from "./tables/outbox.ts";
import { OverrunWatch } from "./tables/overrun-watch.ts";
import { OwnedIds } from "./tables/owned-ids.ts";
import { Activities } from "./tables/rate-windows.ts";
import { Resources } from "./tables/resources.ts";
import { Spending } from "./tables/spending.ts";
import { Tenants } from "./tables/tenants.ts";
import { Alerts } from "./tables/told.ts";

/** Pruning waits until this much can go at once, ms. */
const PRUNE_EVERY_MS = 600_000;
/** Clocks of two machines may differ by this much, ms. */
const CLOCK_SLACK_MS = 60_000;

/** A caller whose key, team and account are live. */
export interface LiveCaller extends Scope {
  readonly key: Key;
}

export class AccountState {
  readonly tenants: Tenants;
  readonly keys: Keys;
  readonly holds: Holds;
  readonly leases: Leases;
  readonly activities = new Activities();
  readonly dayRequests: DayRequests;
  readonly ledger: Ledger;
  readonly spending: Spending;
  readonly operatorBook: OperatorBook;
  readonly overrunWatch: OverrunWatch;
  readonly marginWatch: MarginWatch;
  readonly outbox: Outbox;
  readonly refused: RefusedBuffer;
  readonly alerts: Alerts;
  readonly ownedIds: OwnedIds;
  readonly jobs: Jobs;
  readonly idempotency: IdempotencyKeys;
  readonly freeCalls: FreeCalls;
  readonly resources: Resources;
  readonly inference: InferenceRentals;
  readonly computeRequests: ComputeRequests;
  readonly lengths: Lengths;
  #heldNanoUsd = 0;
  #openHolds = 0;
  /** The latest time in what was read at load: when a hold was admitted, or a resource was changed or asked for. */
  readonly latestMs: number;
  /** No open hold is due before this time; null: none is open. */
  #nextExpiryMs: number | null;
  #nextPruneMs: number | null;

  constructor(sql: Sql, nowMs: number, lengths: Lengths, refused: RefusedBuffer) {
    this.lengths = lengths;
    this.refused = refused;
    this.tenants = new Tenants(sql);
    this.keys = new Keys(sql);
    this.holds = new Holds(sql);
    this.leases = new Leases(sql, this.activities, nowMs);
    this.dayRequests = new DayRequests(sql);
    this.ledger = new Ledger(sql);
    this.spending = new Spending(sql);
    this.operatorBook = new OperatorBook(sql);
    this.outbox = new Outbox(sql);
    this.alerts = new Alerts(sql, this.outbox);
    this.overrunWatch = new OverrunWatch(this.operatorBook, this.alerts);
    this.marginWatch = new MarginWatch(this.alerts);
    this.ownedIds = new OwnedIds(sql);
    this.jobs = new Jobs(sql, nowMs);
    this.idempotency = new IdempotencyKeys(sql);
    this.freeCalls = new FreeCalls(sql);
    this.resources = new Resources(sql);
    this.inference = new InferenceRentals(sql);
    this.computeRequests = new ComputeRequests(sql);
    let latestMs = this.resources.latestMs();
    const minuteMs = nowMs - MINUTE.spanMs - MINUTE.bucketMs;
    for (const hold of this.holds.recent(Math.min(this.dayRequests.rolledUpAtMs, minuteMs) - CLOCK_SLACK_MS)) {
      this.activities.load(hold);
      this.dayRequests.load(hold);
      if (hold.open) this.#occupy(1, hold.amountNanoUsd);
      latestMs = Math.max(latestMs, hold.admittedAtMs);
    }
    this.latestMs = latestMs;
    this.#nextExpiryMs = this.holds.nextExpiryMs();
    this.#nextPruneMs = this.#oldestGoesMs();
  }

  get heldNanoUsd(): number {
    return this.#heldNanoUsd;
  }
  get openHolds(): number {
    return this.#openHolds;
  }
  get nextExpiryMs(): number | null {
    return this.#nextExpiryMs;
  }

  money(): Money {
    return {
      balanceNanoUsd: this.ledger.balanceNanoUsd,
      heldNanoUsd: this.#heldNanoUsd,
      floorNanoUsd: floorOf(this.tenants.account()),
    };
  }

  /** The limits of key, team and account with their use, narrowest first. */
  levels(caller: Scope, nowMs: number): readonly LevelUse[] {
    return limitedBy(caller, this.tenants.account().limits).map(({ level, subject, limits }) => {
      const { requests, tokens, slots, leased } = this.activities.of(subject);
      const dayRequests = limits.rpd_limit === null ? null : this.dayRequests.window(subject, nowMs);
      return { level, limits, requests, tokens, dayRequests, slots, leased };
    });
  }

  /** The levels that limit free calls, narrowest first. Each allows at least `least`. */
  freeLevels(caller: Scope, reach: FreeReach, nowMs: number, least = 0): readonly FreeLevel[] {
    return limitedBy(caller, this.tenants.account().limits).flatMap(({ level, subject, limits }) => {
      const allowed = freeAllowance(level, limits.free_rpm_limit, reach);
      if (allowed === null) return [];
      return [
        { level, subject, allowed: Math.max(allowed, least), calls: this.freeCalls.calls(subject, reach, nowMs) },
      ];
    });
  }

  /** Counts a free call, or refuses it. */
  takeFree(caller: LiveCaller, reach: FreeReach, nowMs: number, least = 0): Refusal | undefined {
    return this.freeCalls.take(this.freeLevels(caller, reach, nowMs, least), reach, nowMs);
  }

  /** Counts a compute call of a key. */
  countComputeCall(key: KeyId, nowMs: number): void {
    this.computeRequests.count(key, nowMs);
    this.#nextPruneMs ??= nowMs + PRUNE_EVERY_MS;
  }

  /** Takes back the count of a free call that turned out to be paid for. */
  returnFreeCall(caller: LiveCaller, reach: FreeReach, nowMs: number): void {
    this.freeCalls.giveBack(this.freeLevels(caller, reach, nowMs), reach, nowMs);
  }

  /** The budgets that are set, narrowest first. */
  budgets(caller: Scope, nowMs: number): readonly BudgetUse[] {
    return limitedBy(caller, this.tenants.account().limits).flatMap(({ level, subject, limits }) => {
      if (limits.maxBudgetNanoUsd === null) return [];
      const duration = limits.budgetDuration;
      const { endsAtMs } = budgetWindow(duration, nowMs);
      const spentNanoUsd = this.spending.spent(subject, duration, nowMs);
      const { heldNanoUsd } = this.activities.of(subject);
      return [{ level, budgetNanoUsd: limits.maxBudgetNanoUsd, duration, endsAtMs, spentNanoUsd, heldNanoUsd }];
    });
  }

  /** Writes a hold and counts it. */
  hold(hold: NewHold): void {
    this.holds.insert(hold, this.dayRequests.nextSeq);
    this.dayRequests.admitted(hold, hold.admittedAtMs);
    this.activities.admitted(hold);
    this.#occupy(1, hold.amountNanoUsd);
    this.#nextExpiryMs = Math.min(this.#nextExpiryMs ?? hold.expiresAtMs, hold.expiresAtMs);
  }

  /** Writes the hold of a rental's period: money alone, without a slot, a request or an expiry. */
  holdRental(hold: NewHold): void {
    this.holds.insert(hold, 0);
    this.activities.held(hold, hold.amountNanoUsd);
    this.#occupy(1, hold.amountNanoUsd);
  }

  grantLease(lease: OpenLease, dueMs: number): void {
    this.leases.insert(lease, dueMs);
    this.#occupy(1, lease.slice.nanoUsd);
    this.#nextExpiryMs = Math.min(this.#nextExpiryMs ?? dueMs, dueMs);
  }

  /** Writes what is left of a lease, and its calls that have ended. */
  writeLease(id: CallId, dueMs: number): void {
    this.#occupy(0, this.leases.write(id, dueMs));
  }

  closeLease(id: CallId, nowMs: number): void {
    this.#occupy(-1, 0 - this.leases.close(id, nowMs));
    this.#freed(goesAtMs({ state: "released", endedAtMs: nowMs }));
  }

  /** Sets the amount of a rental's open hold. */
  resizeRental(hold: HoldRow, amountNanoUsd: number): void {
    this.holds.resize(hold.callId, amountNanoUsd);
    this.activities.held(hold, amountNanoUsd - hold.amountNanoUsd);
    this.#occupy(0, amountNanoUsd - hold.amountNanoUsd);
  }

  /** Ends an open hold: updates its row and frees its slot, money and tokens. */
  end(hold: HoldRow, ending: Ending): void {
    this.holds.end(hold.callId, ending);
    if (hold.lease) this.leases.ended(hold.callId);
    else if (hold.rental === null) this.activities.ended(hold, ending.countedTokens);
    else this.activities.held(hold, -hold.amountNanoUsd);
    this.#occupy(-1, -hold.amountNanoUsd);
    this.#freed(goesAtMs(ending));
  }

  /** Enters a charge for a hold (negative: gives back) and returns the entry's id. `countsAtMs`: see `Charge`. */
  charge(hold: NewHold, chargedNanoUsd: number, atMs: number, countsAtMs: number | null = null): number {
    const entryId = this.ledger.charge({ ...hold, chargedNanoUsd, atMs, countsAtMs });
    this.spending.charged(hold, chargedNanoUsd, countsAtMs ?? atMs, entryId);
    return entryId;
  }

  /** Records what a call cost beyond its hold, and logs it if the day's overruns are too high. */
  overrun(callId: CallId, overrunNanoUsd: number, nowMs: number): void {
    if (overrunNanoUsd === 0) return;
    this.operatorBook.overrun(callId, overrunNanoUsd, nowMs);
    const chargedTodayNanoUsd = this.spending.spent("account", "day", nowMs);
    this.overrunWatch.overrun(this.tenants.account().id, overrunNanoUsd, chargedTodayNanoUsd, nowMs);
  }

  /** Call it after due holds were ended. */
  readNextExpiry(): void {
    this.#nextExpiryMs = this.holds.nextExpiryMs();
  }

  /** Deletes rows that are no longer needed, at most `limit` per table. */
  prune(nowMs: number, limit: number): void {
    if (this.#nextPruneMs === null || nowMs < this.#nextPruneMs) return;
    for (const table of this.#pruned) table.prune(nowMs, limit);
    const nextMs = this.#oldestGoesMs();
    // Rows that are due already were left because of the limit, so the next pruning is due now.
    this.#nextPruneMs = nextMs === null || nextMs <= nowMs ? nextMs : nextMs + PRUNE_EVERY_MS;
  }

  /** When the first row of any table may be deleted; null: there is none. */
  #oldestGoesMs(): number | null {
    return earliest(this.#pruned.map((table) => table.nextPruneMs()));
  }

  /** The sums of requests go before the holds that they cover. */
  get #pruned() {
    const { holds, dayRequests, ownedIds, jobs, idempotency, freeCalls, computeRequests } = this;
    return [ownedIds, jobs, idempotency, freeCalls, computeRequests, dayRequests, holds];
  }

  /** When the alarm has work to do; null: never, as things are. */
  nextDueMs(): number | null {
    const { outbox, jobs, resources, keys } = this;
    return earliest([
      this.#nextExpiryMs,
      outbox.nextDueMs(),
      this.refused.nextDueMs(),
      this.#nextPruneMs,
      jobs.nextDueMs(),
      resources.nextDueMs(),
      keys.nextWarnMs(),
    ]);
  }

  /** A hold has ended whose row may go then. */
  #freed(goesMs: number): void {
    this.#nextPruneMs = Math.min(this.#nextPruneMs ?? Number.POSITIVE_INFINITY, goesMs);
    if (this.#openHolds === 0) this.#nextExpiryMs = null;
  }

  #occupy(holds: number, nanoUsd: number): void {
    this.#openHolds += holds;
    this.#heldNanoUsd += nanoUsd;
  }
}
