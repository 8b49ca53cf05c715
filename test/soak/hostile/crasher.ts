/** Sends bodies that are cheap to send and costly to inspect, without credit for any of them. */
import { sleep } from "../../support/eventually.ts";
import { unique } from "../../support/operator.ts";
import { pick, type Random } from "../random.ts";
import type { Attacker, Rogue } from "./rogue.ts";

const PATH = "/v1/chat/completions";
const MB = 1_000_000;
/**
 * Refused for the content, for lack of credit, for the size, or because too many bodies of this tenant were refused or
 * are waiting.
 */
const EXPECTED: ReadonlySet<number> = new Set([400, 401, 402, 404, 413, 429, 503]);
const LONGEST_PAUSE_MS = 1_500;
const JUNK_KEYS = 0.15;

const repeated = (text: string, bytes: number) => text.repeat(Math.floor(bytes / text.length));
const messages = (content: string) => `{"model":"m","messages":${content}}`;
const TEXTS: Readonly<Record<string, string>> = {
  "20 MB of numbers": messages(`[${repeated("1,", 19 * MB)}1]`),
  "20 MB of objects": messages(`[${repeated("{},", 19 * MB)}{}]`),
  "0.4 MB of numbers": messages(`[${repeated("1,", 0.4 * MB)}1]`),
  "0.4 MB of brackets": messages(repeated("[", 0.4 * MB)),
  "2 MB of names": `{${Array.from({ length: 150_000 }, (_, at) => `"k${at}":1`).join()}}`,
  "8 MB of escapes": messages(`[{"role":"user","content":"${repeated("\\u00e9", 8 * MB)}"}]`),
  "30 MB of text": messages(`[{"role":"user","content":"${repeated("x", 30 * MB)}"}]`),
};
const encoder = new TextEncoder();
/** Built once, so that the soak's own work does not look like the gateway's. */
const BODIES = new Map(Object.entries(TEXTS).map(([name, text]) => [name, encoder.encode(text)]));
const NAMES = [...BODIES.keys()];

/** A body on its way. */
export interface Busy {
  readonly span: readonly [fromMs: number, toMs: number];
  readonly what: string;
}

export class Crasher implements Attacker {
  /** When a body was under way, ms. */
  readonly busy: Busy[] = [];
  readonly #rogue: Rogue;
  readonly #random: Random;

  constructor(rogue: Rogue, random: Random) {
    this.#rogue = rogue;
    this.#random = random;
  }

  async attackUntil(untilMs: number): Promise<void> {
    while (Date.now() < untilMs) {
      const name = pick(this.#random, NAMES);
      const [junk, pause] = [this.#random() < JUNK_KEYS, this.#random()];
      const fromMs = Date.now();
      await this.#send(
        junk ? "crasher: unknown key" : `crasher: ${name}`,
        BODIES.get(name) as Uint8Array<ArrayBuffer>,
        junk,
      );
      this.busy.push({ span: [fromMs, Date.now()], what: name });
      await sleep(pause * LONGEST_PAUSE_MS);
    }
  }

  async #send(name: string, body: Uint8Array<ArrayBuffer>, junk: boolean): Promise<void> {
    const rogue = this.#rogue;
    const headers = {
      "content-type": "application/json",
      ...(junk && { authorization: `Bearer sk-tg-${unique("junk")}` }),
    };
    try {
      const response = await rogue.tenant.fetch(PATH, { method: "POST", headers, body });
      rogue.answered(name, response.status, await response.text(), EXPECTED);
    } catch {
      // The gateway answered before reading all of it and closed the connection.
      rogue.answered(name, "broken");
    }
  }
}
