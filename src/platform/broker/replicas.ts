/** Clusters' pods as they were last read: one read per cluster and 5 s, however many ask. */
import type { ControlAnswer } from "../../core/compute/control.ts";

const KEPT_MS = 5_000;
/** No list of eight pods is longer, characters. */
const MOST_CHARS = 64_000;
/** Clusters whose pods are kept; the one asked for longest ago goes first. */
const MOST_KEPT = 200;

interface Known {
  readonly answer: Promise<ControlAnswer>;
  readonly atMs: number;
  /** The last answer that upstream gave. */
  last: ControlAnswer | null;
}

export class Replicas {
  readonly #now: () => number;
  readonly #known = new Map<number, Known>();

  constructor(now: () => number) {
    this.#now = now;
  }

  async read(cluster: number, ask: () => Promise<ControlAnswer>): Promise<ControlAnswer> {
    const before = this.#known.get(cluster);
    const known = before && Math.abs(this.#now() - before.atMs) < KEPT_MS ? before : this.#ask(cluster, before, ask);
    const answer = await known.answer;
    if (answer.kind === "answered" && (answer.status === 200 || answer.status === 404)) {
      known.last = answer;
      return answer;
    }
    return known.last ?? answer;
  }

  #ask(cluster: number, before: Known | undefined, ask: () => Promise<ControlAnswer>): Known {
    const known: Known = { answer: ask().then(bounded), atMs: this.#now(), last: before?.last ?? null };
    this.#known.delete(cluster);
    this.#known.set(cluster, known);
    for (const oldest of this.#known.keys()) {
      if (this.#known.size <= MOST_KEPT) break;
      this.#known.delete(oldest);
    }
    return known;
  }
}

const bounded = (answer: ControlAnswer): ControlAnswer =>
  answer.kind === "answered" && answer.body.length > MOST_CHARS
    ? { kind: "unknown", sentAtMs: answer.sentAtMs }
    : answer;
