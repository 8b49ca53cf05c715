/**
 * Renews the hold of a running call, and cuts the call before its hold runs out.
 *
 * A renewal reports what was read so far: if the hold is never ended, its expiry charges that much. A call is cut when
 * its hold has ended, when its hold could not be renewed in time, and when it has run for as long as holds may be
 * renewed. Each leaves time to settle. The last one renews once more, so that settlement has the hold's whole life and
 * expiry would charge what was read until the cut.
 */
import type { Hold, Progress } from "../../core/account/hold.ts";
import type { AccountPort, Ports } from "../ports.ts";

/** Why a call was cut: it has run for as long as a call may, or its hold has ended or may have. */
export type Cut = "overdue" | "hold_ended";

/** A hold is renewed when half of its life is over. */
const RENEWALS_PER_LIFE = 2;
/** Fraction of a hold's life: the pause after a failed renewal, and the time between a cut and the hold's expiry. */
const MARGINS_PER_LIFE = 8;
/** A hold that seems to live for less is taken to live this long, ms. */
const LEAST_LIFE_MS = 200;
/** The most renewals of a call in progress. If the object answers none of them, it is too slow for another. */
const MOST_UNANSWERED = 2;

export interface Kept {
  readonly hold: Hold;
  /** A fresh stub each time. */
  account(): AccountPort;
  progress(): Progress | null;
  cut(why: Cut): void;
}

export class HoldKeeper {
  readonly #kept: Kept;
  readonly #ports: Pick<Ports, "now" | "after" | "log">;
  readonly #lifeMs: number;
  readonly #marginMs: number;
  /** When the call must be over. */
  readonly #endsAtMs: number;
  #heldUntilMs: number;
  #renewAtMs: number;
  #unanswered = 0;
  /** How far the clock was set back since the call began. */
  #setBackMs = 0;
  #stopWaiting: (() => void) | null = null;
  #stopped = false;

  constructor(kept: Kept, ports: Pick<Ports, "now" | "after" | "log">) {
    this.#kept = kept;
    this.#ports = ports;
    const now = ports.now();
    this.#lifeMs = Math.max(LEAST_LIFE_MS, kept.hold.livesMs);
    this.#marginMs = this.#lifeMs / MARGINS_PER_LIFE;
    this.#endsAtMs = now + kept.hold.longestCallMs;
    this.#heldUntilMs = now + this.#lifeMs;
    this.#renewAtMs = now + this.#lifeMs / RENEWALS_PER_LIFE;
    this.#arm();
  }

  /** Stops renewing: the call is over or cut. */
  stop(): void {
    this.#stopped = true;
    this.#stopWaiting?.();
  }

  /** One timer for the next event, whatever it is. */
  #arm(): void {
    this.#stopWaiting?.();
    const nextMs = Math.min(this.#renewAtMs, this.#heldUntilMs - this.#marginMs, this.#endsAtMs);
    const inMs = Math.min(nextMs - this.#now(), this.#lifeMs / RENEWALS_PER_LIFE);
    this.#stopWaiting = this.#ports.after(Math.max(1, inMs), () => this.#due(nextMs));
  }

  /** Elapsed time. The clock may be set back; the timer reveals it, since it waited at least its delay. */
  #now(): number {
    return this.#ports.now() + this.#setBackMs;
  }

  #due(atMs: number): void {
    this.#setBackMs += Math.max(0, atMs - this.#now());
    const now = this.#now();
    if (now >= this.#endsAtMs) {
      void this.#renew(now);
      this.#cut("overdue");
    } else if (now >= this.#heldUntilMs - this.#marginMs) this.#cut("hold_ended");
    else {
      if (now >= this.#renewAtMs) void this.#renew(now);
      this.#arm();
    }
  }

  #cut(why: Cut): void {
    if (this.#stopped) return;
    this.stop();
    this.#ports.log({ event: "call_cut", call: this.#kept.hold.callId, reason: why });
    this.#kept.cut(why);
  }

  async #renew(sentAtMs: number): Promise<void> {
    const { hold, account, progress } = this.#kept;
    this.#renewAtMs = sentAtMs + this.#marginMs;
    if (this.#unanswered >= MOST_UNANSWERED) return;
    this.#unanswered++;
    try {
      const lives = await account().renew(hold.callId, progress());
      if (this.#stopped) return;
      if (!lives) {
        this.#cut("hold_ended");
        return;
      }
      this.#heldUntilMs = Math.max(this.#heldUntilMs, sentAtMs + this.#lifeMs);
      this.#renewAtMs = sentAtMs + this.#lifeMs / RENEWALS_PER_LIFE;
      this.#arm();
    } catch (error) {
      this.#ports.log({ event: "renewal_failed", call: hold.callId, error: String(error) });
    } finally {
      this.#unanswered--;
    }
  }
}
