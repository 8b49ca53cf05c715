/**
 * An honest tenant that makes small calls one after the other, and sometimes a large one, to check that other tenants
 * do not slow it down. Its models have no faults; calls cut short by a kill do not count.
 */
import { sleep } from "../support/eventually.ts";
import type { Operator } from "../support/operator.ts";
import { jsonTo } from "../support/service.ts";
import type { Busy } from "./hostile/crasher.ts";
import { Rogue } from "./hostile/rogue.ts";
import { Party, tally } from "./party.ts";

const PATH = "/v1/chat/completions";
const PAUSE_MS = 40;
const LARGE_EVERY_MS = 7_000;
const LARGE = "word ".repeat(300_000);
const SERVED: ReadonlySet<number> = new Set([200]);
/** After a kill, workerd and every object start again, which slows calls for this long. */
const KILL_FELT_MS = 10_000;
/**
 * The slowest p99 of a small call, ms. Meanwhile this process sends bodies of 20 MB without credit, on two cores; a
 * body that is fully parsed would take twenty times as long.
 */
const MOST_P99_MS = 1_500;
const FEWEST = 100;
const SLOW_MS = 200;

type Span = Busy["span"];
interface Sample {
  readonly span: Span;
  readonly large: boolean;
}

export class Probe extends Party {
  readonly #model: string;
  readonly #samples: Sample[] = [];
  readonly #failed: { readonly span: Span; readonly words: string }[] = [];

  private constructor(rogue: Rogue) {
    super(rogue.tenant);
    this.#model = rogue.chat;
  }

  static async make(operator: Operator): Promise<Probe> {
    return new Probe(await Rogue.make(operator));
  }

  async callUntil(untilMs: number): Promise<void> {
    let largeAtMs = Date.now() + LARGE_EVERY_MS;
    while (Date.now() < untilMs) {
      const large = Date.now() >= largeAtMs;
      if (large) largeAtMs = Date.now() + LARGE_EVERY_MS;
      await this.#call(large);
      await sleep(PAUSE_MS);
    }
  }

  async #call(large: boolean): Promise<void> {
    const messages = [{ role: "user", content: large ? LARGE : "Hi" }];
    const { init } = jsonTo(PATH, { model: this.#model, max_tokens: 1, messages });
    const fromMs = Date.now();
    const name = large ? "probe: large" : "probe: small";
    try {
      const response = await this.tenant.fetch(PATH, init);
      const text = await response.text();
      const span = [fromMs, Date.now()] as const;
      this.answered(name, response.status);
      if (SERVED.has(response.status)) this.#samples.push({ span, large });
      else this.#failed.push({ span, words: `${name}: ${response.status} ${text.slice(0, 200)}` });
    } catch (error) {
      this.answered(name, "broken");
      this.#failed.push({ span: [fromMs, Date.now()], words: `${name}: ${String(error)}` });
    }
  }

  /** `busy`: when crashers were at work. `kills`: when workerd was killed. */
  report(busy: readonly Busy[], kills: readonly number[]): { lines: readonly string[]; wrong: readonly string[] } {
    const felt = ([fromMs, toMs]: Span) => kills.some((at) => at <= toMs && fromMs <= at + KILL_FELT_MS);
    const beside = ([fromMs, toMs]: Span) => busy.find(({ span: [from, to] }) => from <= toMs && fromMs <= to);
    const counted = this.#samples.filter(({ span }) => !felt(span));
    const msOf = (samples: readonly Sample[]) => samples.map(({ span: [from, to] }) => to - from).sort((a, b) => a - b);
    const small = counted.filter(({ large }) => !large);
    const attacked = msOf(small.filter(({ span }) => beside(span)));
    const slow = small.filter(({ span: [from, to] }) => to - from > SLOW_MS).map(({ span }) => beside(span)?.what);
    const lines = [
      `honest calls beside crashers: ${summary(attacked)} (p99 at most ${MOST_P99_MS} ms)`,
      `honest calls otherwise:       ${summary(msOf(small.filter(({ span }) => !beside(span))))}`,
      `of them over ${SLOW_MS} ms:           ${tally(slow.map((what) => `beside ${what ?? "none"}`)) || "none"}`,
      `honest bodies of 1.5 MB:      ${summary(msOf(counted.filter(({ large }) => large)))}`,
    ];
    const wrong = this.#failed.filter(({ span }) => !felt(span)).map(({ words }) => `an honest call failed: ${words}`);
    const p99Ms = quantile(attacked, 0.99);
    if (attacked.length >= FEWEST && p99Ms > MOST_P99_MS) {
      wrong.push(`crashers slow honest calls down: p99 ${p99Ms} ms`);
    }
    return { lines, wrong };
  }
}

const quantile = (sorted: readonly number[], share: number): number =>
  sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0;

function summary(sorted: readonly number[]): string {
  const [p50, p99] = [quantile(sorted, 0.5), quantile(sorted, 0.99)];
  return `${sorted.length} calls, p50 ${p50} ms, p99 ${p99} ms, slowest ${sorted.at(-1) ?? 0} ms`;
}
