/** An honest tenant with a hot key: bursts of small calls by several clients, so that leases are out when workerd dies. */
import { sleep } from "../support/eventually.ts";
import type { Operator } from "../support/operator.ts";
import { jsonTo } from "../support/service.ts";
import { Rogue } from "./hostile/rogue.ts";
import { Party } from "./party.ts";

const PATH = "/v1/chat/completions";
const CLIENTS = 6;
const BURST_MS = 2_000;
const WAYS = [{}, { stream: true }, { stream: true, stream_options: { include_usage: true } }];

export class Rusher extends Party {
  readonly #model: string;

  private constructor(rogue: Rogue) {
    super(rogue.tenant);
    this.#model = rogue.chat;
  }

  static async make(operator: Operator): Promise<Rusher> {
    return new Rusher(await Rogue.make(operator));
  }

  async callUntil(untilMs: number): Promise<void> {
    while (Date.now() < untilMs) {
      const endsAtMs = Math.min(untilMs, Date.now() + BURST_MS);
      await Promise.all(Array.from({ length: CLIENTS }, (_, at) => this.#burst(at, endsAtMs)));
      await sleep(BURST_MS);
    }
  }

  async #burst(at: number, endsAtMs: number): Promise<void> {
    for (let calls = at; Date.now() < endsAtMs; calls++) {
      const tokens = 1 + (calls % 20);
      const fields = { max_tokens: tokens, sandbox_output_tokens: tokens, messages: [{ role: "user", content: "Hi" }] };
      const { init } = jsonTo(PATH, { model: this.#model, ...fields, ...WAYS[calls % WAYS.length] });
      try {
        const response = await this.tenant.fetch(PATH, init);
        this.answered("rusher", response.status, await response.text());
      } catch {
        this.answered("rusher", "broken");
        await sleep(100);
      }
    }
  }
}
