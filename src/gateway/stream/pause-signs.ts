/**
 * Whether the client of a piped stream still takes it, told from the reads beside the pipe.
 *
 * Both branches of a tee pull. While the client takes what comes, its pipe empties the upstream's connection: after a
 * rest, the first read gets all that came meanwhile, and the next has to wait for the upstream. Once the client has
 * stopped, only the reader pulls, one piece a read, from an upstream that is held back and has more at hand: the first
 * read after a rest is as quick and as small as those that follow. Signs of that for `idleMs` mean that the client has
 * stopped. An upstream without more at hand gives no such sign, but then the client's pausing holds nothing up.
 */

/** A read that took longer had to wait for the upstream, ms. */
const AT_ONCE_MS = 10;
/**
 * Reads after a rest, of which the first is held against the others; fewer, but two, where they come to this many
 * bytes.
 */
const READS = 4;
const ENOUGH_BYTES = 64 * 1024;
/** Rests with signs before they count, to exclude coincidence. */
const LEAST_RESTS = 8;
/** A read that waited, or a first one larger than the others, outweighs so many signs: the client may have pulled. */
const AGAINST = 4;
/** A client that seems to have stopped is given this much in a millisecond at most: it waits in memory. */
const STOPPED_BYTES_PER_MS = 128;

export class PauseSigns {
  readonly #idleMs: number;
  /** Reads since the last rest. */
  #reads = 0;
  #firstBytes = 0;
  #laterBytes = 0;
  /** Of a piece that was read in part. */
  #openBytes = 0;
  /** True if one of them had to wait for the upstream. */
  #waited = false;
  /** Rests with signs, less what spoke against them, and since when. */
  #rests = 0;
  #sinceMs: number | null = null;

  constructor(idleMs: number) {
    this.#idleMs = idleMs;
  }

  /** True once the client has taken nothing for `idleMs`. */
  paused(nowMs: number): boolean {
    return this.#sinceMs !== null && this.#rests >= LEAST_RESTS && nowMs - this.#sinceMs >= this.#idleMs;
  }

  /**
   * One read; `full`: it filled its buffer, so more is there. Gives how long to rest before the next at least, or null:
   * not at all.
   */
  add(bytes: number, full: boolean, tookMs: number, nowMs: number): number | null {
    this.#waited ||= tookMs > AT_ONCE_MS;
    this.#openBytes += bytes;
    if (full) return null;
    if (this.#waited) return this.#rest(-AGAINST, nowMs);
    const pieceBytes = this.#openBytes;
    this.#openBytes = 0;
    if (this.#reads === 0) this.#firstBytes = pieceBytes;
    else this.#laterBytes += pieceBytes;
    this.#reads++;
    const enough = this.#reads >= READS || (this.#reads > 1 && this.#firstBytes + this.#laterBytes >= ENOUGH_BYTES);
    if (!enough) return null;
    return this.#rest(this.#firstBytes <= this.#laterBytes ? 1 : -AGAINST, nowMs);
  }

  #rest(weight: number, nowMs: number): number {
    const readBytes = this.#firstBytes + this.#laterBytes;
    this.#reads = 0;
    this.#firstBytes = 0;
    this.#laterBytes = 0;
    this.#openBytes = 0;
    this.#waited = false;
    this.#rests = Math.max(0, this.#rests + weight);
    this.#sinceMs = this.#rests > 0 ? (this.#sinceMs ?? nowMs) : null;
    return this.#rests >= LEAST_RESTS / 2 ? readBytes / STOPPED_BYTES_PER_MS : 0;
  }
}
