/**
 * Refused calls on their way to the queue. They wait in memory, so a refusal writes no row, and a flood of them costs
 * one message every few seconds: calls above 10 a second of a key are counted and not recorded one by one. A crash
 * loses what came since the last message.
 */
import type { RefusalCount, RefusedBatch, RefusedCall } from "../../core/account/refused-call.ts";
import type { KeyId } from "../../core/ids.ts";

/** Recorded one by one, of a key and a second. */
const RECORDED_A_SECOND = 10;
/** Waiting at most: beyond it calls are counted only, and beyond that many sums the key is left out of them. */
const MOST_CALLS = 1_000;
const MOST_COUNTS = 1_000;
/** In one message, which may have 128 KB: also if all names are as long as names may be. */
const CALLS_A_MESSAGE = 80;
const COUNTS_A_MESSAGE = 100;
/** Collected this long before they are sent, ms, and least time between two messages; less if more than one waits. */
const GATHER_MS = 1_000;
const PAUSE_MS = 5_000;
const SHORT_PAUSE_MS = 500;
const MINUTE_MS = 60_000;

/** Counts of keys beyond `MOST_COUNTS`. */
const OTHERS = "(others)" as KeyId;

type Tag = Omit<RefusalCount, "minuteMs" | "refusals">;

export class RefusedBuffer {
  #calls: RefusedCall[] = [];
  readonly #counts = new Map<string, RefusalCount>();
  /** Recorded in the second that is now, by key. */
  readonly #recorded = new Map<KeyId, number>();
  #second = 0;
  #sinceMs: number | null = null;
  #sentAtMs = 0;
  /** A batch that the queue did not take: it goes again as it is, under its id. */
  #again: RefusedBatch | null = null;

  /** Counts a refusal. `record` is asked for the rest only if the call is to be recorded. */
  add(tag: Tag, nowMs: number, record: () => RefusedCall): void {
    this.#count(tag, nowMs);
    // After a clock was set back, nothing waits for it to catch up.
    this.#sinceMs = Math.min(this.#sinceMs ?? nowMs, nowMs);
    this.#sentAtMs = Math.min(this.#sentAtMs, nowMs);
    const second = Math.floor(nowMs / 1_000);
    if (second !== this.#second) this.#recorded.clear();
    this.#second = second;
    const recorded = this.#recorded.get(tag.key) ?? 0;
    if (recorded >= RECORDED_A_SECOND || this.#calls.length >= MOST_CALLS) return;
    this.#recorded.set(tag.key, recorded + 1);
    this.#calls.push(record());
  }

  nextDueMs(): number | null {
    const sinceMs = this.#again ? this.#sentAtMs : this.#sinceMs;
    if (sinceMs === null) return null;
    const many = !this.#again && (this.#calls.length > CALLS_A_MESSAGE || this.#counts.size > COUNTS_A_MESSAGE);
    return Math.max(sinceMs + GATHER_MS, this.#sentAtMs + (many ? SHORT_PAUSE_MS : PAUSE_MS));
  }

  /** The next batch, if it is due. */
  take(account: string, nowMs: number, newId: () => string): RefusedBatch | undefined {
    const dueMs = this.nextDueMs();
    if (dueMs === null || nowMs < dueMs) return undefined;
    this.#sentAtMs = nowMs;
    if (this.#again) return this.#again;
    const calls = this.#calls.splice(0, CALLS_A_MESSAGE);
    const counts = [...this.#counts].slice(0, COUNTS_A_MESSAGE);
    for (const [name] of counts) this.#counts.delete(name);
    if (this.#calls.length === 0 && this.#counts.size === 0) this.#sinceMs = null;
    this.#again = { id: newId(), account, calls, counts: counts.map(([, count]) => count) };
    return this.#again;
  }

  /** The queue took what `take` gave. */
  sent(): void {
    this.#again = null;
  }

  #count(tag: Tag, nowMs: number): void {
    const minuteMs = nowMs - (nowMs % MINUTE_MS);
    const nameOf = ({ key, level, limit, reason }: Tag) => `${minuteMs} ${key} ${level} ${limit} ${reason}`;
    const kept = this.#counts.size < MOST_COUNTS || this.#counts.has(nameOf(tag)) ? tag : { ...tag, key: OTHERS };
    const before = this.#counts.get(nameOf(kept))?.refusals ?? 0;
    this.#counts.set(nameOf(kept), { ...kept, minuteMs, refusals: before + 1 });
  }
}
