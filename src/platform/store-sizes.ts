/** What the platform lets a store hold, and the operator's warning before it is full. */
import { log } from "./log.ts";

/** Of a SQLite object, and of a D1 database. */
export const STORE_LIMIT_BYTES = 10_000_000_000;
const WARN_AT = 0.7;
const WARN_EVERY_MS = 60 * 60_000;

export const isFilling = (bytes: number): boolean => bytes >= WARN_AT * STORE_LIMIT_BYTES;

/** Warns of one store, at most once an hour while it is too full. */
export class SizeWatch {
  #toldAtMs = Number.NEGATIVE_INFINITY;

  look(store: object, bytes: number, nowMs: number): void {
    // The clock may have been set back.
    const toldAgoMs = Math.abs(nowMs - this.#toldAtMs);
    if (!isFilling(bytes) || toldAgoMs < WARN_EVERY_MS) return;
    this.#toldAtMs = nowMs;
    log({ event: "store.filling", ...store, bytes, limit_bytes: STORE_LIMIT_BYTES });
  }
}
