/**
 * How long a call may go on: as long as its hold lives and, for a stream, as long as its client listens.
 *
 * A stream whose client left is cancelled at once, or drained for its exact usage, as the account chose; every other
 * answer is drained: the upstream does the work anyway.
 */
import type { Hold } from "../core/hold.ts";
import type { CallId } from "../core/ids.ts";
import type { Client } from "./passage.ts";
import type { AccountPort, Ports } from "./ports.ts";

/** How long an upstream is read on for a client that left. Background work after an answer is limited to 30 s. */
const DRAIN_MS = 25_000;
/** A hold is renewed when half of its life is over. */
const RENEWALS_PER_LIFE = 2;

export class Lifetime implements Client {
  readonly #upstream = new AbortController();
  readonly #patienceMs: number;
  #gone = false;
  /** Ends its timers and no longer listens to the request, which would keep the whole call until the next full collection. */
  readonly #stops: (() => void)[] = [];

  /** `streams`: whether the answer is a stream that the client reads while it is made. */
  constructor(onDisconnect: Hold["onDisconnect"], streams: boolean, request: AbortSignal) {
    this.#patienceMs = streams && onDisconnect === "cancel" ? 0 : DRAIN_MS;
    if (request.aborted) this.leave();
    const leave = () => this.leave();
    request.addEventListener("abort", leave);
    this.#stops.push(() => request.removeEventListener("abort", leave));
  }

  /** Aborts when the upstream is to be let go. */
  get signal(): AbortSignal {
    return this.#upstream.signal;
  }

  get gone(): boolean {
    return this.#gone;
  }

  leave(): void {
    if (this.#gone) return;
    this.#gone = true;
    if (this.#patienceMs === 0) {
      this.#upstream.abort();
      return;
    }
    const drain = setTimeout(() => this.#upstream.abort(), this.#patienceMs);
    this.#stops.push(() => clearTimeout(drain));
  }

  /** Renews the hold while the call runs. One that has ended cannot pay for more: the upstream is let go. */
  keep(hold: Hold, account: () => AccountPort, ports: Pick<Ports, "now" | "log">): void {
    const everyMs = Math.max(100, (hold.expiresAtMs - ports.now()) / RENEWALS_PER_LIFE);
    const renewal = setInterval(() => void this.#renew(hold.callId, account, ports), everyMs);
    this.#stops.push(() => clearInterval(renewal));
  }

  async #renew(callId: CallId, account: () => AccountPort, ports: Pick<Ports, "log">): Promise<void> {
    try {
      if (!(await account().renew(callId, null))) this.#upstream.abort();
    } catch (error) {
      // The next renewal may succeed; if none does, the hold expires and that one aborts.
      ports.log({ event: "renewal_failed", call: callId, error: String(error) });
    }
  }

  stop(): void {
    for (const stop of this.#stops) stop();
  }
}
