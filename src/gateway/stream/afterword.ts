/**
 * Bounds what an upstream still sends after the end of its stream. The call is settled by then and pays for no more, so
 * this passes for a short time, and then the upstream is cancelled.
 */

const MOST_BYTES = 64 * 1024;

export class Afterword {
  #untilMs: number | null = null;
  #bytes = 0;

  /** Call it with the read that had the end, and with each one after it. True once time or room is used up. */
  goesOn(bytes: number, nowMs: number, withinMs: number): boolean {
    if (this.#untilMs === null) {
      this.#untilMs = nowMs + withinMs;
      return false;
    }
    this.#bytes += bytes;
    return nowMs > this.#untilMs || this.#bytes > MOST_BYTES;
  }
}
