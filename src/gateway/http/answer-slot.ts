/**
 * One call's place among the large answers that its isolate holds whole. No call waits for a place: an answer without
 * one is relayed as it comes.
 */
import type { BodyRoom, Place } from "../../core/uploads/upload-limiter.ts";
import type { Ports } from "../ports.ts";

/** How often the place is renewed, so that it is not taken for the place of a call that was torn down. */
const STAY_EVERY_MS = 2_000;

export class AnswerPlace {
  readonly #room: BodyRoom;
  readonly #place: Place;
  readonly #staying: ReturnType<typeof setInterval>;

  private constructor(place: Place, ports: Pick<Ports, "answers" | "now">) {
    this.#room = ports.answers;
    this.#place = place;
    this.#staying = setInterval(() => this.#room.stay(place, ports.now()), STAY_EVERY_MS);
  }

  /** A place for an answer of up to `bytes` to this account; null if there is no room now. */
  static take(account: string, bytes: number, ports: Pick<Ports, "answers" | "now">): AnswerPlace | null {
    const nowMs = ports.now();
    const place = ports.answers.queue(account, bytes, nowMs);
    if (ports.answers.ask(place, nowMs) === "inside") return new AnswerPlace(place, ports);
    ports.answers.leave(place);
    return null;
  }

  leave(): void {
    clearInterval(this.#staying);
    this.#room.leave(this.#place);
  }
}
