/**
 * Schedules control calls. A call is recorded as sent before it is sent, so that a restart cannot exceed the upstream's
 * limits. A call that must wait longer than 10 s is not sent.
 */
import { type CallClass, waitForCall } from "../../core/compute/call-budget.ts";
import { nextCall, type WaitingCall } from "../../core/compute/turns.ts";
import type { BrokerTables } from "./tables.ts";

const LONGEST_WAIT_MS = 10_000;
/** The most calls that wait at once. Further ones are refused, so that a flood takes no memory. */
const MOST_WAITING = 500;
/** Of these, places that only lists take: what all the others wait for may be what a list shows. */
const KEPT_FOR_LISTS = 50;

export type Turn =
  | { readonly ok: true; readonly sentAtMs: number }
  | { readonly ok: false; readonly retryAfterMs: number };

interface Waiting extends WaitingCall {
  readonly untilMs: number;
  readonly decide: (turn: Turn) => void;
}

export class Sender {
  readonly #tables: BrokerTables;
  readonly #now: () => number;
  #waiting: Waiting[] = [];
  readonly #servedAt = new Map<number, number>();
  #served = 0;
  #timer: ReturnType<typeof setTimeout> | null = null;

  constructor(tables: BrokerTables, now: () => number) {
    this.#tables = tables;
    this.#now = now;
  }

  /** Resolves when the call may be sent, or when it is known that it may not. */
  turn(account: number, cls: CallClass): Promise<Turn> {
    const nowMs = this.#now();
    const waitMs = this.#waitMs(cls, nowMs);
    const most = cls === "list" ? MOST_WAITING : MOST_WAITING - KEPT_FOR_LISTS;
    if (waitMs > LONGEST_WAIT_MS || this.#waiting.length >= most) {
      return Promise.resolve({ ok: false, retryAfterMs: Math.max(waitMs, 1_000) });
    }
    const { promise, resolve } = Promise.withResolvers<Turn>();
    this.#waiting.push({ account, cls, untilMs: nowMs + LONGEST_WAIT_MS, decide: resolve });
    this.#pump();
    return promise;
  }

  /** The upstream asked for a pause. */
  pause(untilMs: number): void {
    const until = Math.max(untilMs, this.#tables.time("paused_until") ?? 0);
    this.#tables.setFact("paused_until", String(until));
  }

  /** Milliseconds until a call of this class may be sent, ignoring waiting calls. */
  #waitMs(cls: CallClass, nowMs: number): number {
    const pausedMs = (this.#tables.time("paused_until") ?? 0) - nowMs;
    return Math.max(waitForCall(this.#tables.sent, cls, nowMs), pausedMs, 0);
  }

  #pump(): void {
    const nowMs = this.#now();
    const overdue = this.#waiting.filter(({ untilMs }) => untilMs <= nowMs);
    this.#waiting = this.#waiting.filter(({ untilMs }) => untilMs > nowMs);
    for (;;) {
      const index = nextCall(this.#waiting, (cls) => this.#waitMs(cls, nowMs) === 0, this.#servedAt);
      const [call] = index === undefined ? [] : this.#waiting.splice(index, 1);
      if (!call) break;
      this.#tables.recordCall(call.cls, nowMs);
      this.#served += 1;
      this.#servedAt.set(call.account, this.#served);
      call.decide({ ok: true, sentAtMs: nowMs });
    }
    for (const { cls, decide } of overdue)
      decide({ ok: false, retryAfterMs: Math.max(this.#waitMs(cls, nowMs), 1_000) });
    this.#arm(nowMs);
  }

  #arm(nowMs: number): void {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
    if (this.#waiting.length === 0) {
      this.#servedAt.clear();
      return;
    }
    const soonest = Math.min(
      ...this.#waiting.map(({ cls, untilMs }) => Math.min(this.#waitMs(cls, nowMs), untilMs - nowMs)),
    );
    this.#timer = setTimeout(() => this.#pump(), Math.max(soonest, 10));
  }
}
