/**
 * What an upstream still sends once its stream has said that it is whole. The call is settled by then, so nobody pays for
 * more of it: it passes for a little while, and then its upstream is let go.
 */

const MOST_BYTES = 64 * 1024;

export class Afterword {
  #untilMs: number | null = null;
  #bytes = 0;

  /** Call it with the read that had the end, and with each after it; true once there is no more time or room. */
  goesOn(bytes: number, nowMs: number, withinMs: number): boolean {
    if (this.#untilMs === null) {
      this.#untilMs = nowMs + withinMs;
      return false;
    }
    this.#bytes += bytes;
    return nowMs > this.#untilMs || this.#bytes > MOST_BYTES;
  }
}
