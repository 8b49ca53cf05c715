/**
 * Uploads: how much memory and work the bodies of an isolate may take, and how slowly they may arrive. Pure decisions
 * over byte counts and times; reading is the gateway's. It does not know what a body contains.
 *
 * This file: room for large bodies (docs/design.md, section 7). An isolate has little memory, and a body is held from
 * its first byte until its answer passes, or its call has ended. At most `ROOM_BYTES` of bodies over `LARGE_BYTES` are
 * inside at once, one per account; others wait up to `LONGEST_WAIT_MS`.
 *
 * A slow body gives way to one that waits, the slowest first, after `PATIENCE_MS` below `FAIR_BYTES_PER_S`. Otherwise
 * two accounts that send 20 MB drop by drop would block all large bodies of the isolate. No body gives way while there
 * is room, or once it has arrived whole.
 *
 * Medium bodies, over `SMALL_BYTES`, have their own room of `MEDIUM_ROOM_BYTES`, so that many connections just below
 * the limit of large bodies cannot fill the isolate. One account may hold `MEDIUM_BYTES_PER_ACCOUNT` of them at once,
 * and each further one only while it would hold no more than was free: the fuller the room, the less one account gets.
 * Of those who wait, the account that holds least goes first.
 *
 * A request that waits or is inside reports this regularly. One that was torn down stops reporting, and its place
 * becomes free by itself, so no place is ever lost.
 */
import { LongWork } from "./long-work.ts";
import { UnpaidWork } from "./unpaid-work.ts";

export const LARGE_BYTES = 1024 * 1024;
export const SMALL_BYTES = 64 * 1024;
export const MEDIUM_BYTES_PER_ACCOUNT = 8 * 1024 * 1024;
/**
 * A body takes up to five times its bytes while its call waits: as text, as what is sent, and as the runtime's copy.
 */
export const MEDIUM_ROOM_BYTES = 16 * 1024 * 1024;
export const ROOM_BYTES = 48 * 1024 * 1024;
/** Room for answers that are held whole. An answer without room does not wait; it is streamed instead. */
export const ANSWER_ROOM_BYTES = 24 * 1024 * 1024;
export const LONGEST_WAIT_MS = 5_000;

/** A body that has been inside for less, or is quicker, keeps its place. */
export const PATIENCE_MS = 2_000;
export const FAIR_BYTES_PER_S = 1024 * 1024;

/** Without a report for longer than this, it is gone. */
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
  /** What unpaid bodies cost this isolate. */
  readonly unpaid = new UnpaidWork();
  /** Whose bodies are being worked at. */
  readonly longWork = new LongWork();
  /** In order of arrival. */
  #places: Standing[] = [];
  readonly #roomBytes: number;
  readonly #accountBytes: number | null;

  /** `accountBytes`: the most that one account may have inside; null for one body of any size. */
  constructor(roomBytes = ROOM_BYTES, accountBytes: number | null = null) {
    this.#roomBytes = roomBytes;
    this.#accountBytes = accountBytes;
  }

  static forMedium(): BodyRoom {
    return new BodyRoom(MEDIUM_ROOM_BYTES, MEDIUM_BYTES_PER_ACCOUNT);
  }

  /** Takes a place at the end of the queue; `ask` says when it is inside. */
  queue(account: string, bytes: number, nowMs: number): Place {
    const place: Standing = { account, bytes, askedAtMs: nowMs, inside: false, heardAtMs: nowMs, ...UNTOUCHED };
    this.#places.push(place);
    return place;
  }

  /** Whether a place is inside now. First come, first in, but no body waits for another account's further ones. */
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

  /** Reports that the body is still held. */
  stay(place: Place, nowMs: number): void {
    const mine = this.#places.find((one) => one === place);
    if (mine) mine.heardAtMs = nowMs;
  }

  /** Reports that more of the body arrived. */
  arrived(place: Place, bytes: number): void {
    const mine = this.#places.find((one) => one === place);
    if (mine) mine.arrivedBytes += bytes;
  }

  /** Reports that the body has arrived whole; from now on it keeps its place. */
  isWhole(place: Place): void {
    const mine = this.#places.find((one) => one === place);
    if (mine) mine.whole = true;
  }

  /** Whether this unfinished body must give way to one that waits. */
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

  /** Bytes held by one account. */
  heldBy(account: string): number {
    return this.#inside.reduce((sum, one) => sum + (one.account === account ? one.bytes : 0), 0);
  }

  get #inside(): Standing[] {
    return this.#places.filter(({ inside }) => inside);
  }

  /** Whether it is next: of the accounts that may have more, the one that holds least, then the one that came first. */
  #isTurnOf(mine: Standing): boolean {
    const held = new Map<string, number>();
    for (const { account, bytes } of this.#inside) held.set(account, bytes + (held.get(account) ?? 0));
    const freeBytes = this.#roomBytes - this.heldBytes;
    const most = this.#accountBytes === null ? 0 : Math.min(this.#accountBytes, freeBytes);
    let next: Standing | undefined;
    let leastHeld = Number.POSITIVE_INFINITY;
    for (const one of this.#places) {
      const already = held.get(one.account) ?? 0;
      const mayEnter = !one.inside && (already === 0 || already + one.bytes <= most);
      if (!mayEnter || already >= leastHeld) continue;
      next = one;
      leastHeld = already;
    }
    return next === mine;
  }

  /** Makes as many slow bodies give way as are needed; none if that would not be enough. */
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

/** Bytes per second since it entered. */
const rateOf = ({ arrivedBytes, enteredAtMs }: Standing, nowMs: number): number =>
  (arrivedBytes * 1_000) / Math.max(1, nowMs - enteredAtMs);

const isGone = ({ inside, heardAtMs }: Standing, nowMs: number): boolean =>
  nowMs - heardAtMs > (inside ? SILENT_INSIDE_MS : SILENT_WAITING_MS);
