/**
 * Leaves streams early, or just before the usage comes, with prompts that a count might miss: tools, arguments of tool
 * calls, images, earlier turns. A client that has seen the last `finish_reason` pays exactly; all pay for what they
 * sent.
 */

import { sleep } from "../../support/eventually.ts";
import { jsonTo } from "../../support/service.ts";
import { pick, type Random } from "../random.ts";
import type { Attacker, Rogue } from "./rogue.ts";

const CHAT = "/v1/chat/completions";
const RESPONSES = "/v1/responses";
const OUTPUT_TOKENS = 60;
const FRAME_DELAY_MS = 3;
const LONGEST_PAUSE_MS = 200;
/** The last frame of a model's output before its usage. */
const LAST_WORD = { [CHAT]: /"finish_reason":"/, [RESPONSES]: /"type":"response\.output_item\.done"/ };

const LONG = "word ".repeat(4_000);
const USER = { role: "user", content: "Hi" };
const PICTURE = `data:image/png;base64,${"A".repeat(4_000)}`;
const MADE_CALL = {
  id: "call_1",
  type: "function",
  function: { name: "f", arguments: JSON.stringify({ said: LONG }) },
};
const chatImage = { type: "image_url", image_url: { url: PICTURE } };
const responseImage = { type: "input_image", image_url: PICTURE };

type Prompt = { readonly path: typeof CHAT | typeof RESPONSES; readonly body: Readonly<Record<string, unknown>> };
const PROMPTS: Readonly<Record<string, Prompt>> = {
  text: { path: CHAT, body: { messages: [{ role: "user", content: LONG }] } },
  tools: {
    path: CHAT,
    body: { messages: [USER], tools: [{ type: "function", function: { name: "f", description: LONG } }] },
  },
  arguments: {
    path: CHAT,
    body: { messages: [USER, { role: "assistant", content: null, tool_calls: [MADE_CALL] }, USER] },
  },
  images: { path: CHAT, body: { messages: [{ role: "user", content: Array(20).fill(chatImage) }] } },
  "output images": {
    path: RESPONSES,
    body: { input: [{ type: "function_call_output", call_id: "c", output: Array(20).fill(responseImage) }] },
  },
  "earlier turns": { path: RESPONSES, body: { input: "Hi" } },
};

export class Leaver implements Attacker {
  /** Calls that were left after the output ended: they are charged exactly. */
  readonly leftAfterOutput = new Set<string>();
  readonly #rogue: Rogue;
  readonly #random: Random;

  constructor(rogue: Rogue, random: Random) {
    this.#rogue = rogue;
    this.#random = random;
  }

  async attackUntil(untilMs: number): Promise<void> {
    let earlier: string | null = null;
    while (Date.now() < untilMs) {
      const random = this.#random;
      const name = pick(random, Object.keys(PROMPTS));
      const [hearsAll, wantsUsage, pieces, pauseMs] = [random() < 0.5, random() < 0.5, random() * 20, random()];
      if (name === "earlier turns") earlier ??= await this.#makeTurn();
      const { path, body } = PROMPTS[name] as Prompt;
      const more = name === "earlier turns" && earlier !== null ? { previous_response_id: earlier } : {};
      const usage = wantsUsage && path === CHAT ? { stream_options: { include_usage: true } } : {};
      await this.#leave(
        `leaver: ${name}`,
        path,
        { ...body, ...more, ...usage },
        hearsAll ? null : 1 + Math.floor(pieces),
      );
      await sleep(pauseMs * LONGEST_PAUSE_MS);
    }
  }

  /** Makes a long turn to continue later. */
  async #makeTurn(): Promise<string | null> {
    try {
      const { path, init } = jsonTo(RESPONSES, { model: this.#rogue.chat, input: LONG, max_output_tokens: 16 });
      const response = await this.#rogue.tenant.fetch(path, init);
      const text = await response.text();
      this.#rogue.answered("leaver: first turn", response.status, text);
      return response.status === 200 ? (JSON.parse(text) as { id: string }).id : null;
    } catch {
      this.#rogue.answered("leaver: first turn", "broken");
      return null;
    }
  }

  /** `afterPieces`: null means after the output has ended. */
  async #leave(name: string, path: Prompt["path"], fields: object, afterPieces: number | null): Promise<void> {
    const rogue = this.#rogue;
    const leaving = new AbortController();
    const how = { stream: true, sandbox_output_tokens: OUTPUT_TOKENS, sandbox_frame_delay_ms: FRAME_DELAY_MS };
    const { init } = jsonTo(path, { model: rogue.chat, ...how, ...fields });
    try {
      const response = await rogue.tenant.fetch(path, { ...init, signal: leaving.signal });
      const callId = response.headers.get("x-request-id");
      let heard = "";
      let pieces = 0;
      const decoder = new TextDecoder();
      for await (const piece of response.body as ReadableStream<Uint8Array>) {
        heard += decoder.decode(piece, { stream: true });
        const hasEnded = LAST_WORD[path].test(heard);
        if (hasEnded && callId !== null) this.leftAfterOutput.add(callId);
        if (afterPieces === null ? hasEnded : ++pieces >= afterPieces) leaving.abort();
      }
      rogue.answered(name, response.status, heard);
    } catch {
      rogue.answered(name, leaving.signal.aborted ? "left" : "broken");
    }
  }
}
