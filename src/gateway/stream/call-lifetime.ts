/**
 * How long a call may go on: as long as its hold pays for it (`keep-hold.ts`) and, for a stream, as long as its client
 * stays.
 *
 * If the client leaves, a stream is cancelled at once or read to its end for exact usage, as the account chose. Any
 * other answer is read to its end: the upstream does the work anyway. A stream that has sent everything but its usage
 * is read on for that, so a client gains nothing by leaving just before it.
 */
import type { Hold, Progress } from "../../core/account/hold.ts";
import type { AccountPort, Ports } from "../ports.ts";
import { HoldKeeper } from "./keep-hold.ts";
import type { Client } from "./outlet.ts";

/** How long an upstream is read on after its client left, ms. Background work after an answer is limited to 30 s. */
const DRAIN_MS = 25_000;
/** How long to keep reading what already passed to a client that left, in case it passed unread, ms. */
const LAST_READ_MS = 25;
/** How long to wait for the usage of a stream that has sent everything else, ms. */
const USAGE_MS = 5_000;

/** An answer on its way to the client. */
export interface Running {
  /** What was read of it so far. */
  progress(): Progress;
  /** Whether everything but the usage was sent; absent if an answer does not show it. */
  awaitsUsage?(): boolean;
}

export class Lifetime implements Client {
  readonly #upstream = new AbortController();
  readonly #ports: Pick<Ports, "now" | "after" | "log">;
  readonly #drains: boolean;
  /** Stops listening to the request, which would keep the whole call in memory until the next full collection. */
  readonly #stopListening: () => void;
  #running: Running | null = null;
  #keeper: HoldKeeper | undefined;
  #stopLeaving: (() => void) | null = null;
  #leftAtMs: number | null = null;
  readonly #whenLeft: (() => void)[] = [];
  #cut = false;

  /** `streams`: whether the client reads the answer while it is made. */
  constructor(
    onDisconnect: Hold["onDisconnect"],
    streams: boolean,
    request: AbortSignal,
    ports: Pick<Ports, "now" | "after" | "log">,
  ) {
    this.#drains = !streams || onDisconnect === "drain";
    this.#ports = ports;
    const leave = () => this.leave();
    if (request.aborted) leave();
    request.addEventListener("abort", leave);
    this.#stopListening = () => request.removeEventListener("abort", leave);
  }

  /** Aborts when the upstream is to be cancelled. */
  get signal(): AbortSignal {
    return this.#upstream.signal;
  }

  get gone(): boolean {
    return this.#leftAtMs !== null;
  }

  /** When the client left; from then on the platform limits what is still done. */
  get leftAtMs(): number | null {
    return this.#leftAtMs;
  }

  /** The gateway ended the call though its client still waits. */
  get cut(): boolean {
    return this.#cut && !this.gone;
  }

  leave(): void {
    if (this.gone) return;
    this.#leftAtMs = this.#ports.now();
    for (const act of this.#whenLeft.splice(0)) act();
    if (this.#drains) this.#letGoIn(DRAIN_MS);
    else if (this.#running?.awaitsUsage) {
      this.#stopLeaving = this.#ports.after(LAST_READ_MS, () => this.#afterLastRead());
    } else this.#upstream.abort();
  }

  whenLeft(act: () => void): void {
    if (this.gone) act();
    else this.#whenLeft.push(act);
  }

  #afterLastRead(): void {
    if (this.#running?.awaitsUsage?.()) this.#letGoIn(USAGE_MS - LAST_READ_MS);
    else this.#upstream.abort();
  }

  #letGoIn(ms: number): void {
    this.#stopLeaving = this.#ports.after(ms, () => this.#upstream.abort());
  }

  /** Renews the hold while the call runs. If the hold ends, it pays for no more: the upstream is cancelled. */
  keep(hold: Hold, account: () => AccountPort): void {
    const progress = () => this.#running?.progress() ?? null;
    const cut = () => {
      this.#cut = true;
      this.#upstream.abort();
    };
    this.#keeper = new HoldKeeper({ hold, account, progress, cut }, this.#ports);
  }

  /** An answer has begun to pass. */
  follow(running: Running): void {
    this.#running = running;
  }

  /** The hold is about to be ended; its client may still be taking what was read. */
  settling(): void {
    this.#keeper?.stop();
  }

  /** Ends everything of the call: timers, and the listener on its request. */
  stop(): void {
    this.#keeper?.stop();
    this.#stopLeaving?.();
    this.#stopListening();
  }
}
