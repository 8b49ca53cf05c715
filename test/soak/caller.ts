/**
 * One client of a customer: runs workloads one after the other, sometimes leaves early, and checks complete answers.
 */
import { sleep } from "../support/eventually.ts";
import type { Customer } from "./customer.ts";
import { pick, type Random } from "./random.ts";
import { WORKLOADS, type Workload } from "./workloads.ts";

const NAMES = Object.keys(WORKLOADS);
/** The most common calls are listed several times, so that they are drawn more often. */
const DRAWN = [...NAMES, "chat", "chat", "chat stream", "chat stream with usage"];
const LEAVES = 0.1;
const LONGEST_PAUSE_MS = 60;

/** When a client leaves: after a time, or after a number of pieces of a stream. */
type Leave = { readonly afterMs: number } | { readonly afterPieces: number } | null;

export class Caller {
  readonly #customer: Customer;
  readonly #random: Random;

  constructor(customer: Customer, random: Random) {
    this.#customer = customer;
    this.#random = random;
  }

  async callUntil(untilMs: number): Promise<void> {
    while (Date.now() < untilMs) {
      const random = this.#random;
      const name = pick(random, DRAWN);
      const workload = WORKLOADS[name]?.(random, this.#customer.names);
      const leave = this.#drawLeave(workload?.streams ?? false);
      const pauseMs = random() * LONGEST_PAUSE_MS;
      // Everything is drawn before the call, so that its outcome cannot change what is drawn next.
      if (workload) await this.#run(name, workload, leave);
      await sleep(pauseMs);
    }
  }

  /** Runs each workload once. */
  async callEach(): Promise<void> {
    for (const [name, workload] of Object.entries(WORKLOADS)) {
      await this.#run(name, workload(this.#random, this.#customer.names), null);
    }
  }

  #drawLeave(streams: boolean): Leave {
    const [leaves, how, when] = [this.#random(), this.#random(), this.#random()];
    if (leaves >= LEAVES) return null;
    return streams && how < 0.7 ? { afterPieces: 1 + Math.floor(when * 20) } : { afterMs: when * 150 };
  }

  async #run(name: string, { asked, flawOf }: Workload, leave: Leave): Promise<void> {
    const customer = this.#customer;
    const leaving = new AbortController();
    const timer = leave && "afterMs" in leave ? setTimeout(() => leaving.abort(), leave.afterMs) : undefined;
    try {
      const response = await customer.tenant.fetch(asked.path, { ...asked.init, signal: leaving.signal });
      const pieces: Uint8Array[] = [];
      for await (const piece of response.body as ReadableStream<Uint8Array>) {
        pieces.push(piece);
        if (leave && "afterPieces" in leave && pieces.length >= leave.afterPieces) leaving.abort();
      }
      const body = Buffer.concat(pieces);
      customer.answered(name, response.status, body.toString());
      if (response.status === 200) this.#check(name, body, flawOf, response.headers.get("x-request-id"));
    } catch {
      customer.answered(name, leaving.signal.aborted ? "left" : "broken");
    } finally {
      clearTimeout(timer);
    }
  }

  #check(name: string, body: Uint8Array, flawOf: Workload["flawOf"], callId: string | null): void {
    let flaw: string | null;
    try {
      flaw = flawOf(body);
    } catch (error) {
      flaw = String(error);
    }
    if (flaw) this.#customer.surprised(`${name} ${callId} came as whole: ${flaw}`);
  }
}
