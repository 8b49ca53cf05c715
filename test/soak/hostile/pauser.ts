/**
 * Makes a call outlive its hold: with a large stream that it stops reading, or with one so slow that it would last an
 * hour. The gateway ends both and charges what was delivered.
 */
import { sleep } from "../../support/eventually.ts";
import { jsonTo } from "../../support/service.ts";
import type { Random } from "../random.ts";
import type { Attacker, Rogue } from "./rogue.ts";

const PATH = "/v1/chat/completions";
/** Some 25 MB, more than the buffers between the sandbox and a client that does not read. */
const LARGE = { sandbox_output_tokens: 100_000, sandbox_frame_delay_ms: 0 };
/** A slow stream that would last an hour. */
const SLOW = { sandbox_output_tokens: 7_200, sandbox_frame_delay_ms: 500 };
/** Buffers fill up first; then the gateway waits for the reader as long as the upstream's idle time allows. */
const PAUSE_MS = 20_000;
const READS_ON_FOR_MS = 5_000;
const LONGEST_REST_MS = 4_000;

export class Pauser implements Attacker {
  readonly #rogue: Rogue;
  readonly #random: Random;
  readonly #way: "stops" | "lingers";

  constructor(rogue: Rogue, random: Random, way: "stops" | "lingers") {
    this.#rogue = rogue;
    this.#random = random;
    this.#way = way;
  }

  async attackUntil(untilMs: number): Promise<void> {
    while (Date.now() < untilMs) {
      const [usage, rest] = [this.#random() < 0.5, this.#random()];
      const body = {
        model: this.#rogue.chat,
        messages: [{ role: "user", content: "Hi" }],
        stream: true,
        ...(usage && { stream_options: { include_usage: true } }),
      };
      if (this.#way === "stops") await this.#stop({ ...body, ...LARGE });
      else await this.#linger({ ...body, ...SLOW }, untilMs);
      await sleep(rest * LONGEST_REST_MS);
    }
  }

  async #stop(body: object): Promise<void> {
    const rogue = this.#rogue;
    const { init } = jsonTo(PATH, body);
    const leaving = new AbortController();
    try {
      const response = await rogue.tenant.fetch(PATH, { ...init, signal: leaving.signal });
      const reader = (response.body as ReadableStream<Uint8Array>).getReader();
      await reader.read();
      await sleep(PAUSE_MS);
      const timer = setTimeout(() => leaving.abort(), READS_ON_FOR_MS);
      while (!(await reader.read()).done);
      clearTimeout(timer);
      rogue.answered("pauser: stops", response.status);
    } catch {
      rogue.answered("pauser: stops", leaving.signal.aborted ? "left" : "broken");
    }
  }

  /** Leaves only when the soak ends; the gateway must end the call before that. */
  async #linger(body: object, untilMs: number): Promise<void> {
    const rogue = this.#rogue;
    const { init } = jsonTo(PATH, body);
    const leaving = new AbortController();
    const timer = setTimeout(() => leaving.abort(), Math.max(0, untilMs - Date.now()));
    try {
      const response = await rogue.tenant.fetch(PATH, { ...init, signal: leaving.signal });
      await response.text();
      rogue.surprised(`a stream of an hour came to its end: ${response.status}`);
    } catch {
      rogue.answered("pauser: lingers", leaving.signal.aborted ? "left" : "broken");
    } finally {
      clearTimeout(timer);
    }
  }
}
