/** A customer's client that makes videos: it submits one, polls until it has ended, then submits the next. */
import { sleep } from "../support/eventually.ts";
import { jsonTo } from "../support/service.ts";
import type { Customer } from "./customer.ts";
import { pick, type Random } from "./random.ts";

/** An account may submit ten a minute; with these pauses a few are refused. */
const LONGEST_PAUSE_MS = 6_000;
const LONGEST_JOB_S = 5;
/** Much longer than a job, a restart and the gateway's pause between polls take together. */
const PATIENCE_MS = 90_000;
const POLL_EVERY_MS = 500;
const FAILS = "[fail:content_filtered.output_video] ";
const LEAVES = 0.1;

interface Job {
  readonly id: string;
  readonly status: string;
  readonly url?: string;
  readonly billing?: { readonly charge_usd: number; readonly billable_tokens: number };
}
interface Order {
  readonly fields: Readonly<Record<string, unknown>>;
  /** When its client leaves without waiting for the id; the job is still made and paid for. */
  readonly leavesAfterMs: number | null;
  readonly pauseMs: number;
}

export class FilmMaker {
  readonly #customer: Customer;
  readonly #random: Random;

  constructor(customer: Customer, random: Random) {
    this.#customer = customer;
    this.#random = random;
  }

  /** Starts no job after `untilMs`, and waits for the last one to end. */
  async makeUntil(untilMs: number): Promise<void> {
    while (Date.now() < untilMs) {
      const order = this.#draw();
      const job = await this.#submit(order);
      if (job) await this.#waitForEnd(job);
      await sleep(Math.min(order.pauseMs, Math.max(0, untilMs - Date.now())));
    }
  }

  #draw(): Order {
    const random = this.#random;
    const fields = {
      prompt: `${random() < 0.15 ? FAILS : ""}A boat.`,
      resolution: pick(random, ["480p", "720p", "1080p", "4k"]),
      duration: 4 + Math.floor(random() * 12),
      sandbox_job_seconds: Math.round(random() * LONGEST_JOB_S * 10) / 10,
    };
    const [leaves, when, pause] = [random(), random(), random()];
    return {
      fields,
      leavesAfterMs: leaves < LEAVES ? when * 60 : null,
      pauseMs: pause * LONGEST_PAUSE_MS,
    };
  }

  async #submit({ fields, leavesAfterMs }: Order): Promise<Job | null> {
    const { tenant, videoModel } = this.#customer;
    const { path, init } = jsonTo("/v1/video/generations", { model: videoModel, ...fields });
    const leaving = new AbortController();
    const timer = leavesAfterMs === null ? undefined : setTimeout(() => leaving.abort(), leavesAfterMs);
    try {
      const response = await tenant.fetch(path, { ...init, signal: leaving.signal });
      const text = await response.text();
      this.#customer.answered("video", response.status, text);
      return response.status === 202 ? (JSON.parse(text) as Job) : null;
    } catch {
      this.#customer.answered("video", leaving.signal.aborted ? "left" : "broken");
      return null;
    } finally {
      clearTimeout(timer);
    }
  }

  async #waitForEnd({ id }: Job): Promise<void> {
    const deadlineMs = Date.now() + PATIENCE_MS;
    while (Date.now() < deadlineMs) {
      const job = await this.#poll(id);
      if (job?.status === "failed") return;
      if (job?.status === "completed") {
        if (!job.url || !job.billing) this.#customer.surprised(`${id} is completed without a link or a price`);
        return;
      }
      await sleep(POLL_EVERY_MS);
    }
    this.#customer.surprised(`${id} has not ended within ${PATIENCE_MS} ms`);
  }

  async #poll(id: string): Promise<Job | null> {
    try {
      const response = await this.#customer.tenant.fetch(`/v1/video/jobs/${id}`);
      const text = await response.text();
      this.#customer.answered("video poll", response.status, text);
      if (response.status === 404) this.#customer.surprised(`${id} was handed out and is unknown`);
      return response.status === 200 ? (JSON.parse(text) as Job) : null;
    } catch {
      this.#customer.answered("video poll", "broken");
      return null;
    }
  }
}
