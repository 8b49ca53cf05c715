/**
 * What one call's body may take of its isolate: its place among the large bodies (`core/uploads/upload-limiter.ts`), taken when it turns
 * out to be large and kept until the call has ended, and the work of parsing it (`core/uploads/unpaid-work.ts`). A small body takes
 * no place.
 */

import type { Refusal } from "../../core/refusal.ts";
import { ASK_FIRST_BYTES, BYTES_PER_VALUE } from "../../core/uploads/unpaid-work.ts";
import { type BodyRoom, LARGE_BYTES, LONGEST_WAIT_MS, type Place } from "../../core/uploads/upload-limiter.ts";
import { permit } from "../permit.ts";
import type { Caller, Ports } from "../ports.ts";
import { type BodyHolder, free } from "./body-reader.ts";

/** How often one who waits asks, and one who is inside says so, ms. */
const ASK_EVERY_MS = 20;
const STAY_EVERY_MS = 2_000;

/** What a caller is told whose turn did not come. */
const BUSY: Refusal = { kind: "busy", retryAfterMs: LONGEST_WAIT_MS };

/** A body's holder that keeps it, and books what parsing it costs. */
export interface BodyKeeper extends BodyHolder {
  /** All of it was read, and is about to be parsed: null, or why it is not. */
  parsing(bytes: number): Refusal | null;
  /** It turned out to hold so many values. */
  counted(values: number): void;
  /** Takes the body over, to free it when the call has ended. */
  keep(body: Uint8Array): void;
}

export class BodyPlace {
  readonly #room: BodyRoom;
  readonly #ports: Ports;
  readonly #gone: AbortSignal;
  #body: Uint8Array | null = null;
  #place: Place | null = null;
  #unpaid: { readonly account: string; bytes: number } | null = null;
  #until: Promise<unknown> = Promise.resolve();
  #leave: (() => void) | null = null;

  /** `gone`: aborts when the client leaves; nobody waits for it then. */
  constructor(gone: AbortSignal, ports: Ports) {
    this.#gone = gone;
    this.#room = ports.bodies;
    this.#ports = ports;
  }

  /** For the body of a call of this key. A place is taken once. */
  of(caller: Caller): BodyKeeper {
    const { account } = caller;
    const now = () => this.#ports.now();
    const unpaid = this.#room.unpaid;
    const overdrawn = (): Refusal | null => {
      const retryAfterMs = unpaid.waitMs(account, now());
      return retryAfterMs > 0 ? { kind: "unpaid_work", retryAfterMs } : null;
    };
    return {
      roomFor: async (bytes) => {
        const large = bytes > LARGE_BYTES;
        if (!large && unpaid.owed(account, now()) < ASK_FIRST_BYTES) return null;
        // A dead key takes no place, and hears of nothing but that it is dead.
        const permission = await permit(caller, [], this.#ports);
        if (!permission.ok) return permission.refusal;
        return overdrawn() ?? (large ? this.#take(account, bytes) : null);
      },
      arrived: (bytes) => this.#place && this.#room.arrived(this.#place, bytes),
      givesWay: () => this.#place !== null && this.#room.givesWay(this.#place),
      parsing: (bytes) => {
        if (this.#place) this.#room.isWhole(this.#place);
        const refusal = overdrawn();
        if (!refusal) this.#owe(account, bytes);
        return refusal;
      },
      counted: (values) => this.#owe(account, values * BYTES_PER_VALUE),
      keep: (body) => {
        this.#body = body;
      },
    };
  }

  #owe(account: string, bytes: number): void {
    this.#room.unpaid.add(account, bytes, this.#ports.now());
    this.#unpaid = { account, bytes: bytes + (this.#unpaid?.bytes ?? 0) };
  }

  /** The call is paid for, or failed by our own fault: what parsing its body cost is not its account's debt. */
  paid(): void {
    if (this.#unpaid) this.#room.unpaid.add(this.#unpaid.account, -this.#unpaid.bytes, this.#ports.now());
    this.#unpaid = null;
  }

  async #take(account: string, bytes: number): Promise<Refusal | null> {
    const now = () => this.#ports.now();
    const place = this.#room.queue(account, bytes, now());
    let answer = this.#room.ask(place, now());
    while (answer === "wait" && !this.#gone.aborted) {
      await new Promise((resume) => setTimeout(resume, ASK_EVERY_MS));
      answer = this.#room.ask(place, now());
    }
    if (answer !== "inside") {
      this.#room.leave(place);
      return BUSY;
    }
    this.#hold(place);
    return null;
  }

  #hold(place: Place): void {
    this.#place = place;
    const staying = setInterval(() => this.#room.stay(place, this.#ports.now()), STAY_EVERY_MS);
    const left = Promise.withResolvers<void>();
    // A sender that leaves in the middle of its body tears the call down, the end of it too that gives the place back.
    this.#ports.waitUntil(left.promise);
    this.#leave = () => {
      clearInterval(staying);
      if (this.#body) free(this.#body);
      this.#room.leave(place);
      left.resolve();
    };
  }

  /** The body is held until this has settled. */
  keepUntil(ended: Promise<unknown>): void {
    this.#until = ended;
  }

  /** Gives the place back, at once or when what it is kept for has settled. */
  leave(): void {
    const leave = this.#leave;
    if (leave) void this.#until.then(leave, leave);
  }
}
