/**
 * How long a call may go on: as long as its hold pays for it (`keep-hold.ts`) and, for a stream, as long as its client
 * listens.
 *
 * A stream whose client left is cancelled at once, or drained for its exact usage, as the account chose; every other
 * answer is drained: the upstream does the work anyway. A stream that has said everything but its usage is read on for
 * that before it is cancelled: leaving just before it gains nothing.
 */
import type { Hold, Progress } from "../../core/account/hold.ts";
import type { AccountPort, Ports } from "../ports.ts";
import { HoldKeeper } from "./keep-hold.ts";
import type { Client } from "./outlet.ts";

/** How long an upstream is read on for a client that left. Background work after an answer is limited to 30 s. */
const DRAIN_MS = 25_000;
/** How long what has passed a client that left is still read, in case it had passed unread. */
const LAST_READ_MS = 25;
/** How long a stream that has said everything is read on for its usage. */
const USAGE_MS = 5_000;

/** An answer on its way to the client. */
export interface Running {
  /** What was read of it so far. */
  progress(): Progress;
  /** Whether all was said but its usage; absent where an answer does not say. */
  awaitsUsage?(): boolean;
}

export class Lifetime implements Client {
  readonly #upstream = new AbortController();
  readonly #ports: Pick<Ports, "now" | "log">;
  readonly #drains: boolean;
  /** Stops listening to the request, which would keep the whole call until the next full collection. */
  readonly #stopListening: () => void;
  #running: Running | null = null;
  #keeper: HoldKeeper | undefined;
  #leaving: ReturnType<typeof setTimeout> | null = null;
  #leftAtMs: number | null = null;
  readonly #whenLeft: (() => void)[] = [];
  #cut = false;

  /** `streams`: whether the answer is a stream that the client reads while it is made. */
  constructor(
    onDisconnect: Hold["onDisconnect"],
    streams: boolean,
    request: AbortSignal,
    ports: Pick<Ports, "now" | "log">,
  ) {
    this.#drains = !streams || onDisconnect === "drain";
    this.#ports = ports;
    const leave = () => this.leave();
    if (request.aborted) leave();
    request.addEventListener("abort", leave);
    this.#stopListening = () => request.removeEventListener("abort", leave);
  }

  /** Aborts when the upstream is to be let go. */
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

  /** The call was ended by us though its client still waits. */
  get cut(): boolean {
    return this.#cut && !this.gone;
  }

  leave(): void {
    if (this.gone) return;
    this.#leftAtMs = this.#ports.now();
    for (const act of this.#whenLeft.splice(0)) act();
    if (this.#drains) this.#letGoIn(DRAIN_MS);
    else if (this.#running?.awaitsUsage) this.#leaving = setTimeout(() => this.#afterLastRead(), LAST_READ_MS);
    else this.#upstream.abort();
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
    this.#leaving = setTimeout(() => this.#upstream.abort(), ms);
  }

  /** Keeps the hold alive while the call runs. One that has ended cannot pay for more: the upstream is let go. */
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

  /** The hold is about to be ended: its client may still be taking what was read. */
  settling(): void {
    this.#keeper?.stop();
  }

  /** Nothing of the call is left: no timer, and no listener at its request. */
  stop(): void {
    this.#keeper?.stop();
    if (this.#leaving !== null) clearTimeout(this.#leaving);
    this.#stopListening();
  }
}
