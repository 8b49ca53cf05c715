/** Announces a body and sends only a part of it: then it vanishes, falls silent, or sends a byte now and then. */
import { type ClientRequest, request } from "node:http";
import { sleep } from "../../support/eventually.ts";
import { pick, type Random } from "../random.ts";
import type { Attacker, Rogue } from "./rogue.ts";

const PROMISED_BYTES = 4_000_000;
const LONGEST_PART_BYTES = 300_000;
const LONGEST_STAY_MS = 300;
const DRIP_EVERY_MS = 250;
/**
 * The gateway judges a body's speed every ten seconds, and what came at once pays for the first ten. The rest is slack
 * to notice.
 */
const LET_GO_WITHIN_MS = 27_000;
const EXPECTED: ReadonlySet<number> = new Set([400, 401, 402, 413, 429, 503]);
const LONGEST_PAUSE_MS = 500;

type Upload = { readonly path: string; readonly contentType: string };
const UPLOADS: readonly Upload[] = [
  { path: "/v1/chat/completions", contentType: "application/json" },
  { path: "/v1/audio/transcriptions", contentType: "multipart/form-data; boundary=part" },
];
/** `abrupt`: like a crashed client; otherwise the connection is ended normally. */
type Way = "abrupt" | "silent" | "drip";

export class Dropper implements Attacker {
  readonly #rogue: Rogue;
  readonly #random: Random;
  readonly #ways: readonly Way[];

  constructor(rogue: Rogue, random: Random, ways: readonly Way[]) {
    this.#rogue = rogue;
    this.#random = random;
    this.#ways = ways;
  }

  async attackUntil(untilMs: number): Promise<void> {
    while (Date.now() < untilMs) {
      const random = this.#random;
      const [way, upload, chunked] = [pick(random, this.#ways), pick(random, UPLOADS), random() < 0.5];
      const [part, stay, pause] = [random(), random(), random()];
      const name = `dropper: ${way}`;
      const sending = this.#begin(name, upload, chunked, Math.floor(part * LONGEST_PART_BYTES));
      if (way === "abrupt") {
        await sleep(stay * LONGEST_STAY_MS);
        sending.leave();
      } else await this.#stay(name, sending, way === "drip");
      await sleep(pause * LONGEST_PAUSE_MS);
    }
  }

  /** Stays until the gateway ends the connection. */
  async #stay(name: string, sending: Sending, drips: boolean): Promise<void> {
    const deadlineMs = Date.now() + LET_GO_WITHIN_MS;
    while (!sending.over() && Date.now() < deadlineMs) {
      await sleep(DRIP_EVERY_MS);
      if (drips) sending.request.write(" ");
    }
    if (!sending.over()) this.#rogue.surprised(`${name} was waited for longer than ${LET_GO_WITHIN_MS} ms`);
    sending.leave();
  }

  #begin(name: string, { path, contentType }: Upload, chunked: boolean, bytes: number): Sending {
    const rogue = this.#rogue;
    const { key, operator } = rogue.tenant;
    const length = chunked ? { "transfer-encoding": "chunked" } : { "content-length": PROMISED_BYTES };
    const headers = { authorization: `Bearer ${key}`, "content-type": contentType, ...length };
    const sent = request(`${operator.url}${path}`, { method: "POST", headers, agent: false });
    let over: "answered" | "left" | null = null;
    const end = (what: number | "left" | "broken", body = "") => {
      if (over === null) rogue.answered(name, what, body, EXPECTED);
      over = what === "left" ? "left" : "answered";
    };
    sent.on("response", (response) => {
      response.resume();
      end(response.statusCode ?? 0);
    });
    sent.on("error", () => end("broken"));
    sent.on("close", () => end("broken"));
    sent.write("x".repeat(Math.max(1, bytes)));
    const leave = () => {
      end("left");
      sent.destroy();
    };
    return { request: sent, over: () => over !== null, leave };
  }
}

interface Sending {
  readonly request: ClientRequest;
  /** Answered or closed by the gateway. */
  over(): boolean;
  leave(): void;
}
