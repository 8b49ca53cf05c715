/**
 * The object's one alarm. Each `setAlarm` costs a written row, so the alarm is moved only when work is due earlier,
 * when it is overdue (some alarms never fire), or when its time is unknown after a restart.
 */

/** An alarm this late is taken for lost, ms. */
const OVERDUE_MS = 5_000;
/** Least time between two alarms, ms: at most about one written row a second under any load. */
const PAUSE_MS = 1_000;
/** Before the work begins the alarm is set this far ahead, ms, so that work which never ends is retried. */
const GUARD_MS = 10_000;

export class Alarm {
  readonly #storage: DurableObjectStorage;
  /** Undefined: not known; null: no alarm is set. */
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

  /** Call it before the alarm's work. */
  guard(nowMs: number): void {
    this.#set(nowMs + GUARD_MS);
  }

  /** Call it after the alarm's work. If nothing is due, it removes the guard too: an idle account is not woken. */
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
    // After a failure the alarm's time is unknown; the next call sets it again.
    this.#storage.setAlarm(atMs).catch(() => {
      this.#atMs = undefined;
    });
  }
}
