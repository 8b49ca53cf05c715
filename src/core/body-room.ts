/**
 * Room for large bodies (design section 7): an isolate has little memory, and a body is held from its first byte until
 * its call has ended. At most `ROOM_BYTES` of bodies over `LARGE_BYTES` are inside at once, one of an account; others
 * wait their turn, up to `LONGEST_WAIT_MS`.
 *
 * Whoever waits or is inside says so again and again. A request that was torn down says nothing any more, and its place
 * is free without anybody's doing: a place is never lost.
 */
export const LARGE_BYTES = 1024 * 1024;
export const ROOM_BYTES = 48 * 1024 * 1024;
/** Of answers that are held whole. Who finds no room for one does not wait: it passes as it comes. */
export const ANSWER_ROOM_BYTES = 24 * 1024 * 1024;
export const LONGEST_WAIT_MS = 5_000;

/** Silent for longer than this: gone. */
export const SILENT_WAITING_MS = 1_000;
export const SILENT_INSIDE_MS = 10_000;

/** One body's place, waiting or inside. */
export interface Place {
  readonly account: string;
  readonly bytes: number;
  readonly askedAtMs: number;
}
interface Standing extends Place {
  inside: boolean;
  heardAtMs: number;
}

export type Answer = "inside" | "wait" | "too_late";

export class BodyRoom {
  /** In the order of coming. */
  #places: Standing[] = [];
  readonly #roomBytes: number;

  constructor(roomBytes = ROOM_BYTES) {
    this.#roomBytes = roomBytes;
  }

  /** A place at the end of the queue; `ask` says when it is inside. */
  queue(account: string, bytes: number, nowMs: number): Place {
    const place: Standing = { account, bytes, askedAtMs: nowMs, inside: false, heardAtMs: nowMs };
    this.#places.push(place);
    return place;
  }

  /** Whether a place is inside now. First come, first in, but nobody waits for the second body of another account. */
  ask(place: Place, nowMs: number): Answer {
    this.#places = this.#places.filter((one) => one === place || !isGone(one, nowMs));
    const mine = this.#places.find((one) => one === place);
    if (!mine) return "too_late";
    mine.heardAtMs = nowMs;
    if (mine.inside) return "inside";
    mine.inside = this.#isTurnOf(mine);
    if (mine.inside) return "inside";
    if (nowMs - mine.askedAtMs < LONGEST_WAIT_MS) return "wait";
    this.leave(mine);
    return "too_late";
  }

  /** The body is still held. */
  stay(place: Place, nowMs: number): void {
    const mine = this.#places.find((one) => one === place);
    if (mine) mine.heardAtMs = nowMs;
  }

  leave(place: Place): void {
    this.#places = this.#places.filter((one) => one !== place);
  }

  /** Bytes held now. */
  get heldBytes(): number {
    return this.#inside.reduce((sum, { bytes }) => sum + bytes, 0);
  }

  get #inside(): Standing[] {
    return this.#places.filter(({ inside }) => inside);
  }

  #isTurnOf(mine: Standing): boolean {
    const busy = new Set(this.#inside.map(({ account }) => account));
    const first = this.#places.find(({ inside, account }) => !inside && !busy.has(account));
    return first === mine && this.heldBytes + mine.bytes <= this.#roomBytes;
  }
}

const isGone = ({ inside, heardAtMs }: Standing, nowMs: number): boolean =>
  nowMs - heardAtMs > (inside ? SILENT_INSIDE_MS : SILENT_WAITING_MS);
