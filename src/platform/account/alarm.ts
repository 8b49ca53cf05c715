/**
 * The object's one alarm. Each set costs a written row, so it is moved only when work is due before it, when it is known
 * to be overdue (some never fire), or when nothing is known of it: after a restart.
 */

/** An alarm that has not fired this long after its time is taken for lost, ms. */
const OVERDUE_MS = 5_000;
/** After an alarm the next one fires no sooner, ms: at most about one written row a second, whatever the load. */
const PAUSE_MS = 1_000;
/** Set before an alarm's work begins: when it is tried again if the work never ends, ms. */
const GUARD_MS = 10_000;

export class Alarm {
  readonly #storage: DurableObjectStorage;
  /** Undefined: not known; null: none is set. */
  #atMs: number | null | undefined;

  constructor(storage: DurableObjectStorage) {
    this.#storage = storage;
  }

  /** Makes sure that an alarm fires by `dueMs` (null: nothing is due). */
  arm(dueMs: number | null, nowMs: number): void {
    if (dueMs === null) return;
    const atMs = this.#atMs ?? null;
    if (atMs === null || atMs < nowMs - OVERDUE_MS || dueMs < atMs) this.#set(Math.max(dueMs, nowMs));
  }

  /** At the start of the alarm's work. */
  guard(nowMs: number): void {
    this.#set(nowMs + GUARD_MS);
  }

  /** At its end. Where nothing is due none is left, the guard neither: an account at rest wakes nobody. */
  finish(dueMs: number | null, nowMs: number): void {
    if (dueMs !== null) {
      this.#set(Math.max(dueMs, nowMs + PAUSE_MS));
      return;
    }
    this.#atMs = null;
    this.#storage.deleteAlarm().catch(() => {
      this.#atMs = undefined;
    });
  }

  #set(atMs: number): void {
    this.#atMs = atMs;
    // A failure leaves the alarm unknown: the next call sets it again.
    this.#storage.setAlarm(atMs).catch(() => {
      this.#atMs = undefined;
    });
  }
}
