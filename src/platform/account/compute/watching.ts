/** Tells the broker which kinds the account has upstream, and which resources are in transition. */
import type { BrokerPort } from "../../../core/compute/control.ts";
import { LISTED_KINDS, type Watch } from "../../../core/compute/listing.ts";
import { rowInTransition } from "../../../core/compute/rows.ts";
import { log } from "../../log.ts";
import type { Store } from "../store.ts";

interface Wanted {
  readonly upstream: string;
  readonly watches: readonly Omit<Watch, "account">[];
}

/** Kinds that are watched. An SSH key's own row says all of it. */
const KINDS = LISTED_KINDS.filter((kind) => kind !== "ssh_key" && kind !== "image");

export class Watching {
  readonly #store: Store;
  readonly #broker: (upstream: string) => BrokerPort;
  /** What each broker was told last, as JSON, by this run of the object; after a restart it is told again. */
  readonly #told = new Map<string, string>();

  constructor(store: Store, broker: (upstream: string) => BrokerPort) {
    this.#store = store;
    this.#broker = broker;
  }

  /** Never rejects: what a broker did not take is told again with the next change or alarm. */
  async update(): Promise<void> {
    const now = this.#store.transact((books, nowMs) => ({
      account: books.tenants.account().number,
      wanted: wantedOf(books.resources.live(), nowMs),
    }));
    if (!now) return;
    for (const { upstream, watches } of now.wanted) {
      const text = JSON.stringify(watches);
      if (this.#told.get(upstream) === text) continue;
      try {
        await this.#broker(upstream).watch(upstream, now.account, watches);
        this.#told.set(upstream, text);
      } catch (error) {
        log({ event: "broker_lost", upstream, verb: "watch", error: String(error) });
      }
    }
    for (const upstream of [...this.#told.keys()]) {
      if (now.wanted.some((wanted) => wanted.upstream === upstream) || this.#told.get(upstream) === "[]") continue;
      try {
        await this.#broker(upstream).watch(upstream, now.account, []);
        this.#told.set(upstream, "[]");
      } catch (error) {
        log({ event: "broker_lost", upstream, verb: "watch", error: String(error) });
      }
    }
  }
}

function wantedOf(
  live: readonly { upstream: string; row: Parameters<typeof rowInTransition>[0] }[],
  nowMs: number,
): Wanted[] {
  const upstreams = [...new Set(live.map(({ upstream }) => upstream))];
  return upstreams.map((upstream) => ({
    upstream,
    watches: KINDS.flatMap((kind) => {
      const rows = live.filter((one) => one.upstream === upstream && one.row.kind === kind).map(({ row }) => row);
      if (rows.length === 0) return [];
      const tags = rows.map(({ tag }) => tag);
      return [{ kind, tags, inTransition: rows.filter((row) => rowInTransition(row, nowMs)).map(({ tag }) => tag) }];
    }),
  }));
}
