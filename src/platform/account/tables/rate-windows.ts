/**
 * What counts now against requests, tokens and slots, per key, team and account: a mirror in memory of the open hold
 * rows and those of the last minute. It writes no rows of its own, works for limits that are set later, and is rebuilt
 * from the hold rows after a restart or a failed write.
 */
import type { Slice } from "../../../core/account/lease.ts";
import { MINUTE, TrailingCount } from "../../../core/account/trailing-count.ts";
import { OVER_MS } from "../../../core/leases/slice.ts";
import type { RecentHold } from "./holds.ts";
import { type Party, type Subject, subjectsOf } from "./limit-scopes.ts";

/** What one subject uses now. */
export interface Activity {
  readonly requests: TrailingCount;
  readonly tokens: TrailingCount;
  /** Open holds, and the money in them. */
  slots: number;
  heldNanoUsd: number;
  /** In open leases, and not reported yet. */
  readonly leased: { requests: number; tokens: number };
}

/** Subjects kept before idle ones are first removed. */
const FIRST_SWEEP = 4_000;

export class Activities {
  readonly #bySubject = new Map<Subject, Activity>();
  #sweepAt = FIRST_SWEEP;

  /** Counts a row read at load. */
  load(hold: RecentHold): void {
    const { lease } = hold;
    if (lease) {
      // An open one is counted by its own table.
      if (!hold.open) this.lost(hold, hold.admittedAtMs + OVER_MS, { ...lease, tokens: hold.countedTokens });
      return;
    }
    if (hold.rental === null) this.#count(hold, hold.admittedAtMs, hold.countedTokens);
    if (hold.open) this.#occupy(hold, hold.rental === null ? 1 : 0, hold.amountNanoUsd);
  }

  /** Sets aside (negative: frees) the room of a lease. */
  leased(party: Party, { requests, tokens, slots, nanoUsd }: Slice): void {
    this.#occupy(party, slots, nanoUsd);
    for (const subject of subjectsOf(party)) {
      const { leased } = this.of(subject);
      leased.requests += requests;
      leased.tokens += tokens;
    }
  }

  /** Counts what a lease may have admitted that nobody reported. */
  lost(party: Party, atMs: number, { requests, tokens }: Pick<Slice, "requests" | "tokens">): void {
    for (const subject of subjectsOf(party)) {
      const activity = this.of(subject);
      activity.requests.add(atMs, requests);
      activity.tokens.add(atMs, tokens);
    }
  }

  /** Sets aside (negative: frees) money without a slot: a rental's. */
  held(party: Party, nanoUsd: number): void {
    this.#occupy(party, 0, nanoUsd);
  }

  admitted(hold: Party & { amountNanoUsd: number; countedTokens: number; admittedAtMs: number }): void {
    if (this.#bySubject.size >= this.#sweepAt) this.#sweep(hold.admittedAtMs);
    this.#count(hold, hold.admittedAtMs, hold.countedTokens);
    this.#occupy(hold, 1, hold.amountNanoUsd);
  }

  /** Counts a call that has ended already: it takes no slot and no money. */
  counted(party: Party, atMs: number, tokens: number): void {
    this.#count(party, atMs, tokens);
  }

  /** Frees the slot and the money. `countedTokens` replaces, in the same bucket, what was counted at admission. */
  ended(
    hold: Party & { amountNanoUsd: number; countedTokens: number; admittedAtMs: number },
    countedTokens: number,
  ): void {
    for (const subject of subjectsOf(hold)) {
      this.of(subject).tokens.add(hold.admittedAtMs, countedTokens - hold.countedTokens);
    }
    this.#occupy(hold, -1, -hold.amountNanoUsd);
  }

  of(subject: Subject): Activity {
    const known = this.#bySubject.get(subject);
    if (known) return known;
    const counts = { requests: new TrailingCount(MINUTE), tokens: new TrailingCount(MINUTE) };
    const fresh = { ...counts, slots: 0, heldNanoUsd: 0, leased: { requests: 0, tokens: 0 } };
    this.#bySubject.set(subject, fresh);
    return fresh;
  }

  /** For the audit. */
  subjects(): Iterable<Subject> {
    return this.#bySubject.keys();
  }

  #count(party: Party, atMs: number, tokens: number): void {
    for (const subject of subjectsOf(party)) {
      const activity = this.of(subject);
      activity.requests.add(atMs, 1);
      activity.tokens.add(atMs, tokens);
    }
  }

  #occupy(party: Party, slots: number, nanoUsd: number): void {
    for (const subject of subjectsOf(party)) {
      const activity = this.of(subject);
      activity.slots += slots;
      activity.heldNanoUsd += nanoUsd;
    }
  }

  /** Removes subjects with no open hold and an empty minute. */
  #sweep(nowMs: number): void {
    for (const [subject, { requests, slots, heldNanoUsd, leased }] of this.#bySubject) {
      if (slots + leased.requests === 0 && heldNanoUsd === 0 && requests.used(nowMs) === 0)
        this.#bySubject.delete(subject);
    }
    this.#sweepAt = Math.max(FIRST_SWEEP, this.#bySubject.size * 2);
  }
}
