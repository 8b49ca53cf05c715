/** The service's faults, as its calls meet them. */
import { byName, type Fault, type MetFaults, metBy, type Place } from "../faults.ts";
import { KeptFaults } from "../kept-faults.ts";

export class FaultStore extends KeptFaults<Fault> {
  /** The faults that a call at this place meets. Counts each of them down by one. */
  meet(place: Place): MetFaults {
    const met = metBy(place, this.list());
    for (const one of met) this.countDown(one);
    return byName(met.map(({ fault }) => fault));
  }
}
