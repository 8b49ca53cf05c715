/**
 * Lets launches that bring an SSH key to a shared upstream account go one at a time (core/compute/launch-key.ts). The
 * key under way is durable before its launch is sent, so that a restart deletes it too. Deleting is repeated by the
 * broker's alarm until a list no longer shows the key.
 */
import type { ControlAnswer } from "../../core/compute/control.ts";
import { type KeyUnderWay, keysLeft, type LaunchKey, nextLookMs, readKeyList } from "../../core/compute/launch-key.ts";
import { log } from "../log.ts";
import type { BrokerTables } from "./tables.ts";

/** A launch waits for so long until the one before is over, and its sending begins within so long, ms. */
const TURN_WITHIN_MS = 10_000;
const SENT_WITHIN_MS = 30_000;
const TRY_AGAIN_MS = 10_000;
/** The operator is told of a key that is nobody's once in so long, ms. */
const TOLD_EVERY_MS = 300_000;
/** Deletes and looks in one go. */
const ROUNDS = 3;

export interface KeyLanePorts {
  list(): Promise<ControlAnswer>;
  remove(id: number): Promise<ControlAnswer>;
  now(): number;
  /** Something is to be done by itself at `nextMs`. */
  changed(): void;
}

type State = "empty" | "busy" | "foreign";

export class KeyLane {
  readonly #tables: BrokerTables;
  readonly #upstream: string;
  readonly #ports: KeyLanePorts;
  readonly #turns = new Turns();
  #toldMs = 0;

  constructor(upstream: string, tables: BrokerTables, ports: KeyLanePorts) {
    this.#upstream = upstream;
    this.#tables = tables;
    this.#ports = ports;
  }

  /** Sends the launch when the list of keys is empty, and deletes its key afterwards. */
  async launch(key: LaunchKey, send: () => Promise<ControlAnswer>): Promise<ControlAnswer> {
    const { now } = this.#ports;
    const sinceMs = now();
    const leave = await this.#turns.take(TURN_WITHIN_MS);
    if (!leave) return notSent("keys_busy");
    let brought = false;
    try {
      const state = await this.#clear();
      if (state !== "empty") return notSent(state === "foreign" ? "foreign_key" : "keys_busy");
      if (now() - sinceMs > SENT_WITHIN_MS) return notSent("keys_busy");
      this.#keep({ ...key, sentAtMs: now(), answered: false }, 0);
      brought = true;
      const answer = await send();
      if (answer.kind === "not_sent") {
        brought = false;
        this.#forget();
      } else if (answer.kind === "answered" && (answer.status < 500 || answer.status === 503)) {
        this.#keep({ ...key, sentAtMs: now(), answered: true }, 0);
      }
      return answer;
    } finally {
      // The tenant has the answer meanwhile; the next launch waits until the key is gone.
      if (brought) void this.#clear().then(leave, leave);
      else leave();
    }
  }

  /** When to look again; null: no key is under way. */
  nextMs(): number | null {
    return this.#underWay() === null ? null : this.#tables.time("launch_key_next");
  }

  /** The alarm's part. */
  async look(): Promise<void> {
    const nextMs = this.nextMs();
    if (nextMs === null || this.#ports.now() < nextMs) return;
    const leave = await this.#turns.take(0);
    if (!leave) return;
    await this.#clear().finally(leave);
  }

  /** Deletes the key under way. `busy`: it is not gone yet, or no list could be had. */
  async #clear(): Promise<State> {
    try {
      for (let round = 0; round < ROUNDS; round++) {
        const underWay = this.#underWay();
        const answer = await this.#ports.list();
        const listed = answer.kind === "answered" && answer.status === 200 ? readKeyList(answer.body) : undefined;
        if (!listed || answer.kind !== "answered") break;
        const { ours, foreign, over } = keysLeft(underWay, listed, answer.sentAtMs);
        if (over) this.#forget();
        if (ours.length === 0 && foreign > 0) this.#tell(foreign);
        if (over) return foreign > 0 ? "foreign" : "empty";
        if (ours.length === 0) break;
        for (const id of ours) await this.#ports.remove(id);
      }
    } catch (error) {
      log({ event: "launch_key_failed", upstream: this.#upstream, error: String(error) });
    }
    const underWay = this.#underWay();
    if (underWay) this.#keep(underWay, Number(this.#tables.fact("launch_key_tries") ?? 0) + 1);
    return "busy";
  }

  #tell(keys: number): void {
    const nowMs = this.#ports.now();
    if (Math.abs(nowMs - this.#toldMs) < TOLD_EVERY_MS) return;
    this.#toldMs = nowMs;
    log({ event: "compute_foreign_ssh_key", upstream: this.#upstream, keys });
  }

  #underWay(): KeyUnderWay | null {
    return JSON.parse(this.#tables.fact("launch_key") ?? "null") as KeyUnderWay | null;
  }

  #keep(key: KeyUnderWay, tries: number): void {
    this.#tables.setFact("launch_key", JSON.stringify(key));
    this.#tables.setFact("launch_key_tries", String(tries));
    this.#tables.setFact("launch_key_next", String(this.#ports.now() + nextLookMs(tries)));
    this.#ports.changed();
  }

  #forget(): void {
    if (this.#underWay() !== null) this.#tables.setFact("launch_key", "null");
  }
}

const notSent = (why: "keys_busy" | "foreign_key"): ControlAnswer => ({
  kind: "not_sent",
  why,
  retryAfterMs: TRY_AGAIN_MS,
});

/** One at a time, in order. A restart begins anew. */
class Turns {
  #last: Promise<void> = Promise.resolve();
  #taken = 0;

  /** Gives the end of the turn; undefined if it does not come within so long. */
  async take(withinMs: number): Promise<(() => void) | undefined> {
    if (withinMs === 0 && this.#taken > 0) return undefined;
    const before = this.#last;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#last = promise;
    this.#taken += 1;
    const leave = () => {
      this.#taken -= 1;
      resolve();
    };
    const late = Promise.withResolvers<"late">();
    const timer = setTimeout(() => late.resolve("late"), withinMs);
    const came = await Promise.race([before, late.promise]);
    clearTimeout(timer);
    if (came !== "late") return leave;
    // Who comes later waits for the one before, not for us.
    void before.then(leave);
    return undefined;
  }
}
