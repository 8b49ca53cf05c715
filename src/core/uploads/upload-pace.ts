/**
 * How slowly a body may arrive. A request sent at one byte a second would hold memory, and a large body's place, for as
 * long as its sender likes. So every body must bring `MIN_BYTES_PER_S` over each window and be complete after
 * `LONGEST_UPLOAD_MS`. A mobile phone with a bad connection is ten times as fast.
 */
export const MIN_BYTES_PER_S = 8_000;
export const PACE_WINDOW_MS = 10_000;
/** The largest body, 26 MB, then needs 45 kB/s. */
export const LONGEST_UPLOAD_MS = 600_000;

/** One body's pace, checked now and then. A body that is whole before the first window ends is never judged. */
export class UploadPace {
  #startedAtMs: number;
  #windowAtMs: number;
  #windowBytes = 0;

  constructor(nowMs: number) {
    this.#startedAtMs = nowMs;
    this.#windowAtMs = nowMs;
  }

  arrived(bytes: number): void {
    this.#windowBytes += bytes;
  }

  isTooSlow(nowMs: number): boolean {
    if (nowMs < this.#windowAtMs) {
      // The clock was set back: time that had passed stays passed.
      this.#startedAtMs += nowMs - this.#windowAtMs;
      this.#windowAtMs = nowMs;
    }
    if (nowMs - this.#startedAtMs >= LONGEST_UPLOAD_MS) return true;
    const sinceMs = nowMs - this.#windowAtMs;
    if (sinceMs < PACE_WINDOW_MS) return false;
    if (this.#windowBytes < (MIN_BYTES_PER_S * sinceMs) / 1_000) return true;
    this.#windowAtMs = nowMs;
    this.#windowBytes = 0;
    return false;
  }
}
