/** The faults that are set: they survive restarts and are counted down as calls meet them. */
import { byName, type Fault, type KeptFault, type MetFaults, metBy, type Place } from "../faults.ts";

export class FaultStore {
  readonly #sql: SqlStorage;
  #kept: KeptFault[];

  constructor(sql: SqlStorage) {
    this.#sql = sql;
    this.#kept = sql
      .exec<{ id: number; fault: string; remaining: number | null }>("SELECT * FROM faults ORDER BY id")
      .toArray()
      .map((row) => ({ id: row.id, fault: JSON.parse(row.fault) as Fault, left: row.remaining }));
  }

  add(fault: Fault): KeptFault {
    const left = fault.times ?? null;
    const { id } = this.#sql
      .exec<{ id: number }>(
        "INSERT INTO faults (fault, remaining) VALUES (?, ?) RETURNING id",
        JSON.stringify(fault),
        left,
      )
      .one();
    const kept = { id, fault, left };
    this.#kept.push(kept);
    return kept;
  }

  list(): readonly KeptFault[] {
    return this.#kept;
  }

  clear(): void {
    this.#sql.exec("DELETE FROM faults");
    this.#kept = [];
  }

  /** The faults that a call at this place meets. Counts each of them down by one. */
  meet(place: Place): MetFaults {
    if (this.#kept.length === 0) return {};
    const met = metBy(place, this.#kept);
    for (const one of met) this.#countDown(one);
    return byName(met.map(({ fault }) => fault));
  }

  #countDown(met: KeptFault): void {
    if (met.left === null) return;
    if (met.left === 1) {
      this.#sql.exec("DELETE FROM faults WHERE id = ?", met.id);
      this.#kept = this.#kept.filter((one) => one !== met);
      return;
    }
    const left = met.left - 1;
    this.#sql.exec("UPDATE faults SET remaining = ? WHERE id = ?", left, met.id);
    this.#kept = this.#kept.map((one) => (one === met ? { ...met, left } : one));
  }
}
