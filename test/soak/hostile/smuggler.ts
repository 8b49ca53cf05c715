/**
 * Sends requests that the gateway and an engine may read differently: names that engines fold into others, fields of
 * engines' own, forms that parsers disagree on. All of them must be refused and none executed. The caller's own data,
 * which only looks like that, must pass.
 */
import { sleep } from "../../support/eventually.ts";
import { B, bytesOf, SMUGGLED } from "../../support/forms.ts";
import { jsonTo } from "../../support/service.ts";
import { pick, type Random } from "../random.ts";
import type { Attacker, Rogue } from "./rogue.ts";

const CHAT = "/v1/chat/completions";
const TRANSCRIPTIONS = "/v1/audio/transcriptions";
const REFUSED: ReadonlySet<number> = new Set([400, 429]);
const SERVED: ReadonlySet<number> = new Set([200]);
const LONGEST_PAUSE_MS = 150;

const image = (url: string) => ({ messages: [{ role: "user", content: [{ type: "image_url", image_url: { url } }] }] });
/** Each is added to a valid call. */
const TWINS: readonly Readonly<Record<string, unknown>>[] = [
  { Model: "dear" },
  { MODEL: "dear" },
  { "\uff4dodel": "dear" },
  { MAX_TOKENS: 100_000 },
  { "max_to\u212aens": 100_000 },
  { maxTokens: 100_000 },
  { N: 128 },
  { Best_Of: 20 },
  { n_predict: 100_000 },
  { chat_template: "{{ x }}" },
  { plugins: [{ id: "web" }] },
  { search_parameters: { mode: "on" } },
  { enable_search: true },
  { Stream_Options: { include_usage: false } },
  { Previous_Response_Id: "resp_1" },
  image("http://169.254.169.254/latest/meta-data"),
  image("https://10.0.0.1/a.png"),
  image("file:///etc/passwd"),
];
/** The caller's own data may use any names. */
const HONEST: readonly Readonly<Record<string, unknown>>[] = [
  { metadata: { background: "blue", Model: "mine" } },
  {
    tools: [
      {
        type: "function",
        function: {
          name: "f",
          parameters: { type: "object", properties: { Model: { default: "x", examples: ["y"] }, n: { const: 2 } } },
        },
      },
    ],
  },
];

export class Smuggler implements Attacker {
  /** Ids of refused calls: none may have been executed. */
  readonly refused = new Set<string>();
  readonly #rogue: Rogue;
  readonly #random: Random;

  constructor(rogue: Rogue, random: Random) {
    this.#rogue = rogue;
    this.#random = random;
  }

  async attackUntil(untilMs: number): Promise<void> {
    while (Date.now() < untilMs) {
      const random = this.#random;
      const [drawn, twin, honest, form] = [random(), pick(random, TWINS), pick(random, HONEST), pick(random, SMUGGLED)];
      const pauseMs = random() * LONGEST_PAUSE_MS;
      if (drawn < 0.4) await this.#ask("smuggler: twin", this.#chat(twin), REFUSED, JSON.stringify(twin));
      else if (drawn < 0.5) await this.#ask("smuggler: own data", this.#chat(honest), SERVED, JSON.stringify(honest));
      else await this.#ask("smuggler: form", this.#form(form[1]), REFUSED, form[0]);
      await sleep(pauseMs);
    }
  }

  #chat(fields: object): [string, RequestInit] {
    const messages = [{ role: "user", content: "Hi" }];
    const { init } = jsonTo(CHAT, { model: this.#rogue.chat, messages, max_tokens: 4, ...fields });
    return [CHAT, init];
  }

  #form(body: string): [string, RequestInit] {
    const headers = { "content-type": `multipart/form-data; boundary=${B}` };
    const named = body.replaceAll("cheap", this.#rogue.transcription);
    return [TRANSCRIPTIONS, { method: "POST", headers, body: bytesOf(named) }];
  }

  async #ask(
    name: string,
    [path, init]: [string, RequestInit],
    expected: ReadonlySet<number>,
    what: string,
  ): Promise<void> {
    try {
      const response = await this.#rogue.tenant.fetch(path, init);
      const text = await response.text();
      const callId = response.headers.get("x-request-id");
      if (expected === REFUSED && callId !== null) this.refused.add(callId);
      this.#rogue.answered(name, response.status, `${what}: ${text}`, expected);
    } catch {
      this.#rogue.answered(name, "broken");
    }
  }
}
