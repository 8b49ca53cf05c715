/** Trouble during the soak: faults upstream, kills of the gateway, revoked keys. */
import { sleep } from "../support/eventually.ts";
import type { Operator } from "../support/operator.ts";
import type { TollgateProcess } from "../support/process.ts";
import type { Customer } from "./customer.ts";
import { pick, type Random } from "./random.ts";

type Fault = Readonly<Record<string, unknown>>;

const STATUSES: readonly Fault[] = [400, 429, 500, 502, 503, 504, 520, 524].map((status) => ({
  fault: "status",
  status,
}));
/** Faults that replace a part of an answer. */
const SPOILT: readonly Fault[] = [
  { fault: "garble", after_frames: 2 },
  { fault: "error_frame", after_frames: 2 },
];
const OTHERS: readonly Fault[] = [
  { fault: "json_error_200" },
  { fault: "slow", ms: 400 },
  { fault: "truncate", after_frames: 2 },
  { fault: "no_done" },
  { fault: "no_usage" },
  // Figures that cannot be true; a zero would be believed.
  { fault: "usage", usage: { prompt_tokens: -1, completion_tokens: 1e12, total_tokens: -1 } },
];
const FAULTS: readonly Fault[] = [...STATUSES, ...SPOILT, ...OTHERS];
/** Spoilt audio is shorter audio with a clean end, so nothing can detect that it is incomplete. */
const FAULTS_OF_AUDIO: readonly Fault[] = [...STATUSES, ...OTHERS];
/** A submission refused with a code of the contract was not executed (contract, "Errors", rule 5). */
const FAULTS_OF_SUBMISSIONS: readonly Fault[] = [
  ...STATUSES.map((fault) => ({ ...fault, executed: false })),
  ...SPOILT,
  ...OTHERS,
  { fault: "job_failure", code: "internal_error" },
];

type Place = Parameters<Operator["sandbox"]["faultAt"]>[0];
const PLACES: readonly { readonly match: Place; readonly faults: readonly Fault[] }[] = [
  ...["llama-7b", "image-turbo", "image-edit", "embed-small", "rerank-base", "stt-large"].map((model) => ({
    match: { model },
    faults: FAULTS,
  })),
  { match: { model: "tts-multilingual" }, faults: FAULTS_OF_AUDIO },
  { match: { path: "/v1/video/generations" }, faults: FAULTS_OF_SUBMISSIONS },
  { match: { path: "/v1/video/quote" }, faults: FAULTS },
  { match: { path: "/v1/video/jobs" }, faults: FAULTS },
];

const MOST_TIMES = 3;
const KILLS = 0.05;
const REVOCATIONS = 0.2;

/** Counts over the whole run. */
export interface Done {
  faults: number;
  revocations: number;
  /** When each kill was, ms. */
  readonly killsAtMs: number[];
}

/** Makes trouble every second or so; until `killsUntilMs`, a kill about every twenty seconds. */
export class Trouble {
  readonly done: Done = { faults: 0, revocations: 0, killsAtMs: [] };
  readonly #tollgate: TollgateProcess;
  readonly #operator: Operator;
  readonly #customers: readonly Customer[];
  readonly #random: Random;
  readonly #killsUntilMs: number;
  #pid: number;

  constructor(
    at: { tollgate: TollgateProcess; operator: Operator },
    customers: readonly Customer[],
    random: Random,
    { killsUntilMs }: { killsUntilMs: number },
  ) {
    this.#tollgate = at.tollgate;
    this.#operator = at.operator;
    this.#customers = customers;
    this.#random = random;
    this.#killsUntilMs = killsUntilMs;
    this.#pid = at.tollgate.workerdPid();
  }

  /** True if workerd is still the process that ran after the last kill. */
  get survived(): boolean {
    return this.#tollgate.workerdPid() === this.#pid;
  }

  async makeUntil(untilMs: number): Promise<void> {
    while (Date.now() < untilMs - 2_000) {
      await sleep(500 + this.#random() * 1_000);
      const customer = pick(this.#random, this.#customers);
      try {
        await this.#makeOne(customer, this.#random());
      } catch (error) {
        customer.surprised(`trouble itself failed: ${String(error)}`);
      }
    }
  }

  async #makeOne(customer: Customer, drawn: number): Promise<void> {
    if (drawn < KILLS) {
      if (Date.now() >= this.#killsUntilMs) return;
      if (!this.survived) customer.surprised("workerd died, and nobody killed it");
      this.done.killsAtMs.push(Date.now());
      await this.#tollgate.kill9Workerd();
      this.#pid = this.#tollgate.workerdPid();
    } else if (drawn < REVOCATIONS) {
      await customer.changeKey();
      this.done.revocations += 1;
    } else {
      const { match, faults } = pick(this.#random, PLACES);
      const fault = pick(this.#random, faults);
      const times = 1 + Math.floor(this.#random() * MOST_TIMES);
      await this.#operator.sandbox.faultAt(match, { ...fault, times });
      this.done.faults += 1;
    }
  }
}
