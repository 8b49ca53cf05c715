/**
 * One call's place among the large bodies of its isolate (`core/body-room.ts`): taken when its body turns out to be
 * large, kept until the call has ended. A small body takes none.
 */
import { type BodyRoom, LARGE_BYTES, LONGEST_WAIT_MS, type Place } from "../core/body-room.ts";
import type { Refusal } from "../core/refusal.ts";
import { type BodyHolder, free } from "./body.ts";
import type { Ports } from "./ports.ts";

/** How often one who waits asks, and one who is inside says so, ms. */
const ASK_EVERY_MS = 20;
const STAY_EVERY_MS = 2_000;

/** What a caller is told whose turn did not come. */
export const BUSY: Refusal = { kind: "busy", retryAfterMs: LONGEST_WAIT_MS };

export class BodyPlace {
  readonly #room: BodyRoom;
  readonly #now: () => number;
  readonly #gone: AbortSignal;
  readonly #keepAlive: (work: Promise<unknown>) => void;
  #body: Uint8Array | null = null;
  #until: Promise<unknown> = Promise.resolve();
  #leave: (() => void) | null = null;

  /** `gone`: aborts when the client leaves; nobody waits for it then. */
  constructor(gone: AbortSignal, ports: Pick<Ports, "bodies" | "now" | "waitUntil">) {
    this.#gone = gone;
    this.#room = ports.bodies;
    this.#now = () => ports.now();
    this.#keepAlive = (work) => ports.waitUntil(work);
  }

  /** For the body of a call of this account. No room where there was none in time; it is taken once. */
  of(account: string): BodyHolder {
    return {
      roomFor: async (bytes) => bytes <= LARGE_BYTES || this.#take(account, bytes),
      keep: (body) => {
        this.#body = body;
      },
    };
  }

  async #take(account: string, bytes: number): Promise<boolean> {
    const place = this.#room.queue(account, bytes, this.#now());
    let answer = this.#room.ask(place, this.#now());
    while (answer === "wait" && !this.#gone.aborted) {
      await new Promise((resume) => setTimeout(resume, ASK_EVERY_MS));
      answer = this.#room.ask(place, this.#now());
    }
    if (answer !== "inside") {
      this.#room.leave(place);
      return false;
    }
    this.#hold(place);
    return true;
  }

  #hold(place: Place): void {
    const staying = setInterval(() => this.#room.stay(place, this.#now()), STAY_EVERY_MS);
    const left = Promise.withResolvers<void>();
    // A sender that leaves in the middle of its body tears the call down, the end of it too that gives the place back.
    this.#keepAlive(left.promise);
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
