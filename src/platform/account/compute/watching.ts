/** Tells the broker which kinds the account has upstream, and which resources are in transition. */
import type { BrokerPort } from "../../../core/compute/control.ts";
import { LISTED_KINDS, type Watch } from "../../../core/compute/listing.ts";
import type { ResourceRow } from "../../../core/compute/resource.ts";
import { rowInTransition, rowIsWatched } from "../../../core/compute/rows.ts";
import type { AccountNumber } from "../../../core/ids.ts";
import { log } from "../../log.ts";
import type { Store } from "../store.ts";
import { UNHEARD_MS } from "./resource-rows.ts";

/** The broker is told again after so long, ms, or after `UNHEARD_MS`: it may have lost what it was told. */
const TOLD_AGAIN_MS = 3_600_000;
/** A step back of the clock by more than this is none that is waited out, ms. */
const STEP_MS = 5_000;
const LONG_AGO_MS = 0;
/** A tenant's read of such a row makes the broker be told again, this often at most, ms. */
const NUDGED_AFTER_MS = 10_000;

interface Wanted {
  readonly upstream: string;
  readonly watches: readonly Omit<Watch, "account">[];
  /** For how long nothing was heard of a row in transition, ms. */
  readonly unheardMs: number;
}

export class Watching {
  readonly #store: Store;
  readonly #broker: (upstream: string) => BrokerPort;
  /** What each broker was told last, as JSON, by this run of the object; after a restart it is told again. */
  readonly #told = new Map<string, { readonly text: string; readonly atMs: number }>();
  #nudgedMs = 0;
  /** The latest time that was seen, ms. */
  #latestMs = 0;
  #last: Promise<void> = Promise.resolve();

  constructor(store: Store, broker: (upstream: string) => BrokerPort) {
    this.#store = store;
    this.#broker = broker;
  }

  /** Never rejects: what a broker did not take is told again with the next change or alarm. */
  update(): Promise<void> {
    // One after the other, so that the broker is left with the newest.
    this.#last = this.#last
      .then(() => this.#update())
      .catch((error) => log({ event: "watching_failed", error: String(error) }));
    return this.#last;
  }

  async #update(): Promise<void> {
    const now = this.#store.transact((state, nowMs) => ({
      nowMs,
      account: state.tenants.account().number,
      wanted: wantedOf(
        state.resources.watched().filter(({ row }) => rowIsWatched(row)),
        nowMs,
      ),
    }));
    if (!now) return;
    const { account, nowMs, wanted } = now;
    this.#look(nowMs);
    for (const { upstream, watches, unheardMs } of wanted) {
      const text = JSON.stringify(watches);
      const told = this.#told.get(upstream);
      const agoMs = told ? nowMs - told.atMs : 0;
      const lost = agoMs >= TOLD_AGAIN_MS || (unheardMs >= UNHEARD_MS && agoMs >= UNHEARD_MS);
      if (told?.text !== text || lost) await this.#tell(upstream, account, watches, text, nowMs);
    }
    for (const [upstream, { text }] of [...this.#told]) {
      if (text === "[]" || wanted.some((one) => one.upstream === upstream)) continue;
      await this.#tell(upstream, account, [], "[]", nowMs);
    }
  }

  /** A tenant reads a row in transition of which nothing was heard for a while. */
  async nudge(rows: readonly ResourceRow[]): Promise<void> {
    const nowMs = Date.now();
    const isBack = this.#look(nowMs);
    const waits = rows.some((row) => rowInTransition(row, nowMs) && unheard(row, nowMs) >= NUDGED_AFTER_MS);
    if (!isBack && (!waits || nowMs < this.#nudgedMs + NUDGED_AFTER_MS)) return;
    this.#nudgedMs = nowMs;
    for (const [upstream, { text }] of this.#told) this.#told.set(upstream, { text, atMs: LONG_AGO_MS });
    await this.update();
  }

  /** Whether the clock was set back. Brokers are told again then: their alarms may wait until it has caught up. */
  #look(nowMs: number): boolean {
    const isBack = nowMs < this.#latestMs - STEP_MS;
    this.#latestMs = isBack ? nowMs : Math.max(this.#latestMs, nowMs);
    if (isBack) for (const [upstream, { text }] of this.#told) this.#told.set(upstream, { text, atMs: LONG_AGO_MS });
    return isBack;
  }

  async #tell(
    upstream: string,
    account: AccountNumber,
    watches: Wanted["watches"],
    text: string,
    atMs: number,
  ): Promise<void> {
    try {
      await this.#broker(upstream).watch(upstream, account, watches);
      this.#told.set(upstream, { text, atMs });
    } catch (error) {
      log({ event: "broker_lost", upstream, verb: "watch", error: String(error) });
    }
  }
}

/** How long ago what is known of a row was asked for. */
const unheard = (row: ResourceRow, nowMs: number): number =>
  "seen" in row ? nowMs - Math.max(row.seen.askedAtMs, row.changedAtMs) : 0;

function wantedOf(live: readonly { upstream: string; row: ResourceRow }[], nowMs: number): Wanted[] {
  const upstreams = [...new Set(live.map(({ upstream }) => upstream))];
  return upstreams.map((upstream) => {
    const its = live.filter((one) => one.upstream === upstream).map(({ row }) => row);
    const waiting = its.filter((row) => rowInTransition(row, nowMs));
    const watches = LISTED_KINDS.flatMap((kind) => {
      const tags = its.filter((row) => row.kind === kind).map(({ tag }) => tag);
      const inTransition = waiting.filter((row) => row.kind === kind).map(({ tag }) => tag);
      return tags.length === 0 ? [] : [{ kind, tags, inTransition }];
    });
    return { upstream, watches, unheardMs: Math.max(0, ...waiting.map((row) => unheard(row, nowMs))) };
  });
}
