/**
 * What one call's body may take of its isolate: a place among the large or the medium bodies
 * (`core/uploads/upload-limiter.ts`), and the work of parsing it (`core/uploads/unpaid-work.ts`). A body gets its place
 * when it turns out to be large and keeps it until the call has ended. A small body takes no place.
 */

import type { Refusal } from "../../core/refusal.ts";
import { ASK_FIRST_BYTES, BYTES_PER_VALUE } from "../../core/uploads/unpaid-work.ts";
import {
  type BodyRoom,
  LARGE_BYTES,
  LONGEST_WAIT_MS,
  MEDIUM_BYTES_PER_ACCOUNT,
  type Place,
  SMALL_BYTES,
} from "../../core/uploads/upload-limiter.ts";
import { authorize } from "../account-client.ts";
import type { Caller, Ports } from "../ports.ts";
import { type BodyHolder, free } from "./body-reader.ts";

/** How often a waiting body asks for its place, and how often one with a place renews it, ms. */
const ASK_EVERY_MS = 20;
const STAY_EVERY_MS = 2_000;

/** Once an account's medium bodies reach this size, the next one is read for live keys only. */
const ASK_FIRST_MEDIUM_BYTES = MEDIUM_BYTES_PER_ACCOUNT / 4;

/** The refusal when no place became free in time. */
const BUSY: Refusal = { kind: "busy", retryAfterMs: LONGEST_WAIT_MS };

/** Keeps a call's body and books the work of parsing it. */
export interface BodyKeeper extends BodyHolder {
  /** All of the body is here and about to be parsed: null, or why it is not parsed. */
  parsing(bytes: number): Refusal | null;
  /** The body turned out to hold so many values. */
  counted(values: number): void;
  /** Takes over the body and frees it when the call has ended. */
  keep(body: Uint8Array): void;
}

export class BodyPlace {
  readonly #room: BodyRoom;
  readonly #ports: Ports;
  readonly #gone: AbortSignal;
  #body: Uint8Array | null = null;
  #taken: { readonly room: BodyRoom; readonly place: Place } | null = null;
  #unpaid: { readonly account: string; bytes: number } | null = null;
  #until: Promise<unknown> = Promise.resolve();
  #leave: (() => void) | null = null;

  /** `gone`: aborts when the client leaves, which ends the wait for a place. */
  constructor(gone: AbortSignal, ports: Ports) {
    this.#gone = gone;
    this.#room = ports.bodies;
    this.#ports = ports;
  }

  /** For the body of a call with this key; one place at a time. */
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
        const room = this.#roomOf(bytes);
        const { mediumBodies } = this.#ports;
        const asks =
          room === this.#room ||
          (room !== null && mediumBodies.heldBy(account) >= ASK_FIRST_MEDIUM_BYTES) ||
          unpaid.owed(account, now()) >= ASK_FIRST_BYTES;
        if (asks) {
          // A dead key takes no place from others, and only learns that it is dead.
          const permission = await authorize(caller, this.#ports);
          if (!permission.ok) return permission.refusal;
        }
        const refusal = asks ? overdrawn() : null;
        return refusal ?? (room && this.#take(room, account, bytes));
      },
      arrived: (bytes) => this.#taken?.room.arrived(this.#taken.place, bytes),
      wasted: (bytes) => this.#owe(account, bytes),
      givesWay: () => this.#taken?.room.givesWay(this.#taken.place) ?? false,
      parsing: (bytes) => {
        this.#taken?.room.isWhole(this.#taken.place);
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

  /** The call is paid for, or failed by our own fault, so its account does not owe the work of parsing. */
  paid(): void {
    if (this.#unpaid) this.#room.unpaid.add(this.#unpaid.account, -this.#unpaid.bytes, this.#ports.now());
    this.#unpaid = null;
  }

  /** Null: a small body takes no room. */
  #roomOf(bytes: number): BodyRoom | null {
    if (bytes > LARGE_BYTES) return this.#room;
    return bytes > SMALL_BYTES ? this.#ports.mediumBodies : null;
  }

  async #take(room: BodyRoom, account: string, bytes: number): Promise<Refusal | null> {
    // A body of unknown length has outgrown its place.
    this.#leave?.();
    const now = () => this.#ports.now();
    const place = room.queue(account, bytes, now());
    let answer = room.ask(place, now());
    while (answer === "wait" && !this.#gone.aborted) {
      await new Promise((resume) => setTimeout(resume, ASK_EVERY_MS));
      answer = room.ask(place, now());
    }
    if (answer !== "inside") {
      room.leave(place);
      return BUSY;
    }
    this.#hold(room, place);
    return null;
  }

  #hold(room: BodyRoom, place: Place): void {
    this.#taken = { room, place };
    const staying = setInterval(() => room.stay(place, this.#ports.now()), STAY_EVERY_MS);
    const left = Promise.withResolvers<void>();
    // A sender that leaves amid its body tears the call down, and with it the code that gives the place back.
    this.#ports.waitUntil(left.promise);
    this.#leave = () => {
      clearInterval(staying);
      this.#taken = null;
      this.#leave = null;
      if (this.#body) free(this.#body);
      this.#body = null;
      room.leave(place);
      left.resolve();
    };
  }

  /** Gives the place back now: the body is needed no more. */
  give(): void {
    this.#leave?.();
  }

  /** Holds the body until `ended` has settled. */
  keepUntil(ended: Promise<unknown>): void {
    this.#until = ended;
  }

  /** Gives the place back, at once or when `keepUntil`'s promise has settled. */
  leave(): void {
    const leave = this.#leave;
    if (leave) void this.#until.then(leave, leave);
  }
}
