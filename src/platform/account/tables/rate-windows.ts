/**
 * What counts now against requests, tokens and slots, per key, team and account: a mirror in memory of the hold rows of
 * the last minute and of the open ones. It costs no row of its own, counts alike for limits set later, and is made anew
 * from the rows after a restart or a failed write.
 */
import { MINUTE, TrailingCount } from "../../../core/account/trailing-count.ts";
import type { RecentHold } from "./holds.ts";
import { type Party, type Subject, subjectsOf } from "./limit-scopes.ts";

/** One subject's part. */
export interface Activity {
  readonly requests: TrailingCount;
  readonly tokens: TrailingCount;
  /** Open holds, and the money in them. */
  slots: number;
  heldNanoUsd: number;
}

/** Subjects looked after before the idle ones are first swept out. */
const FIRST_SWEEP = 4_000;

export class Activities {
  readonly #bySubject = new Map<Subject, Activity>();
  #sweepAt = FIRST_SWEEP;

  /** Takes up a row at load. */
  load(hold: RecentHold): void {
    this.#count(hold, hold.admittedAtMs, hold.countedTokens);
    if (hold.open) this.#occupy(hold, 1, hold.amountNanoUsd);
  }

  admitted(hold: Party & { amountNanoUsd: number; countedTokens: number; admittedAtMs: number }): void {
    if (this.#bySubject.size >= this.#sweepAt) this.#sweep(hold.admittedAtMs);
    this.#count(hold, hold.admittedAtMs, hold.countedTokens);
    this.#occupy(hold, 1, hold.amountNanoUsd);
  }

  /** Frees the slot and the money; `countedTokens` replaces what was counted at admission, in its bucket. */
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
    const fresh = { requests: new TrailingCount(MINUTE), tokens: new TrailingCount(MINUTE), slots: 0, heldNanoUsd: 0 };
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

  /** Forgets who has no open hold and an empty minute. */
  #sweep(nowMs: number): void {
    for (const [subject, { requests, slots }] of this.#bySubject) {
      if (slots === 0 && requests.used(nowMs) === 0) this.#bySubject.delete(subject);
    }
    this.#sweepAt = Math.max(FIRST_SWEEP, this.#bySubject.size * 2);
  }
}
