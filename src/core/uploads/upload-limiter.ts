/**
 * Room for large bodies (docs/design.md, section 7): an isolate has little memory, and a body is held from its first
 * byte until its call has ended. At most `ROOM_BYTES` of bodies over `LARGE_BYTES` are inside at once, one of an
 * account; others wait their turn, up to `LONGEST_WAIT_MS`.
 *
 * Room is for bodies that come. One that has been coming for `PATIENCE_MS`, more slowly than `FAIR_BYTES_PER_S`, gives way
 * to one that waits, the slowest first: otherwise two accounts that drip their 20 MB would close the isolate to all large
 * bodies. Nobody gives way while there is room, nor once the body is whole.
 *
 * Whoever waits or is inside says so again and again. A request that was torn down says nothing any more, and its place
 * is free without anybody's doing: a place is never lost.
 */
import { UnpaidWork } from "./unpaid-work.ts";

export const LARGE_BYTES = 1024 * 1024;
export const ROOM_BYTES = 48 * 1024 * 1024;
/** Of answers that are held whole. Who finds no room for one does not wait: it passes as it comes. */
export const ANSWER_ROOM_BYTES = 24 * 1024 * 1024;
export const LONGEST_WAIT_MS = 5_000;

/** A body that has been inside for less, or comes more quickly, keeps its place against those who wait. */
export const PATIENCE_MS = 2_000;
export const FAIR_BYTES_PER_S = 1024 * 1024;

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
  enteredAtMs: number;
  arrivedBytes: number;
  whole: boolean;
  givesWay: boolean;
}

export type Answer = "inside" | "wait" | "too_late";

export class BodyRoom {
  /** What bodies cost this isolate that nobody paid for. */
  readonly unpaid = new UnpaidWork();
  /** In the order of coming. */
  #places: Standing[] = [];
  readonly #roomBytes: number;

  constructor(roomBytes = ROOM_BYTES) {
    this.#roomBytes = roomBytes;
  }

  /** A place at the end of the queue; `ask` says when it is inside. */
  queue(account: string, bytes: number, nowMs: number): Place {
    const place: Standing = { account, bytes, askedAtMs: nowMs, inside: false, heardAtMs: nowMs, ...UNTOUCHED };
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
    if (this.#isTurnOf(mine)) {
      mine.inside = this.heldBytes + mine.bytes <= this.#roomBytes;
      mine.enteredAtMs = nowMs;
      if (mine.inside) return "inside";
      this.#makeWayFor(mine, nowMs);
    }
    if (nowMs - mine.askedAtMs < LONGEST_WAIT_MS) return "wait";
    this.leave(mine);
    return "too_late";
  }

  /** The body is still held. */
  stay(place: Place, nowMs: number): void {
    const mine = this.#places.find((one) => one === place);
    if (mine) mine.heardAtMs = nowMs;
  }

  /** More of the body came. */
  arrived(place: Place, bytes: number): void {
    const mine = this.#places.find((one) => one === place);
    if (mine) mine.arrivedBytes += bytes;
  }

  /** All of the body came: from now on it keeps its place. */
  isWhole(place: Place): void {
    const mine = this.#places.find((one) => one === place);
    if (mine) mine.whole = true;
  }

  /** Whether the body, which still comes, is to be let go for one that waits. */
  givesWay(place: Place): boolean {
    return this.#places.some((one) => one === place && one.givesWay && !one.whole);
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
    return this.#places.find(({ inside, account }) => !inside && !busy.has(account)) === mine;
  }

  /** Tells as many slow bodies to go as it takes; none where that would not be enough. */
  #makeWayFor(mine: Standing, nowMs: number): void {
    const kept = this.#inside.filter(({ givesWay, whole }) => whole || !givesWay);
    let free = this.#roomBytes - kept.reduce((sum, { bytes }) => sum + bytes, 0);
    const slow = kept
      .filter((one) => !one.whole && nowMs - one.enteredAtMs >= PATIENCE_MS && rateOf(one, nowMs) < FAIR_BYTES_PER_S)
      .sort((a, b) => rateOf(a, nowMs) - rateOf(b, nowMs));
    const going: Standing[] = [];
    for (const one of slow) {
      if (free >= mine.bytes) break;
      free += one.bytes;
      going.push(one);
    }
    if (free < mine.bytes) return;
    for (const one of going) one.givesWay = true;
  }
}

const UNTOUCHED = { enteredAtMs: 0, arrivedBytes: 0, whole: false, givesWay: false } as const;

/** Bytes a second since it went in. */
const rateOf = ({ arrivedBytes, enteredAtMs }: Standing, nowMs: number): number =>
  (arrivedBytes * 1_000) / Math.max(1, nowMs - enteredAtMs);

const isGone = ({ inside, heardAtMs }: Standing, nowMs: number): boolean =>
  nowMs - heardAtMs > (inside ? SILENT_INSIDE_MS : SILENT_WAITING_MS);
