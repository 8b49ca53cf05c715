/** Asks the broker what a call must know of its seat and of upstream's market, before it is decided. */
import type { BrokerPort, SeatTerms } from "../../../core/compute/control.ts";
import { readRegions, shownStorage } from "../../../core/compute/market.ts";
import type { ComputeEndpoint } from "../../../core/endpoints/compute/compute-endpoint.ts";
import { log } from "../../log.ts";
import { type Offered, STORAGE_KINDS } from "./decide.ts";

/** Undefined where something of it cannot be known now. `copied`: whether the upstream is shared, by a copy. */
export async function offeredFor(
  broker: BrokerPort,
  upstream: string,
  { needs, seat }: ComputeEndpoint,
  copied: boolean,
): Promise<Offered | undefined> {
  try {
    const [market, terms] = await Promise.all([
      marketFor(broker, upstream, needs),
      seat === null ? ({ shared: copied, references: [] } as const) : broker.terms(upstream, seat),
    ]);
    return market && terms && { ...market, ...seatOf(terms) };
  } catch (error) {
    log({ event: "broker_lost", upstream, verb: "offers", error: String(error) });
    return undefined;
  }
}

type Seat = Pick<Offered, "shared" | "registered">;
const seatOf = (terms: SeatTerms | { readonly shared: boolean }): Seat => ({
  shared: terms.shared,
  registered: "references" in terms ? terms.references : [],
});

type Market = Pick<Offered, "regions" | "storageRegions">;

/** Empty lists for most calls. */
async function marketFor(
  broker: BrokerPort,
  upstream: string,
  needs: ComputeEndpoint["needs"],
): Promise<Market | undefined> {
  if (needs === null) return { regions: [], storageRegions: [] };
  const answer = await broker.market(upstream, needs);
  if (answer.kind !== "answered" || answer.status !== 200) return undefined;
  if (needs === "storage") {
    const shown = shownStorage(answer.body, STORAGE_KINDS);
    return shown && { regions: [], storageRegions: Object.keys(shown) };
  }
  const regions = readRegions(answer.body);
  return regions && { regions, storageRegions: [] };
}
