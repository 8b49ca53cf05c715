/** The faults that are set: they survive restarts and are counted down as calls meet them. */
export interface KeptFault<Fault> {
  readonly id: number;
  readonly fault: Fault;
  /** How many calls still meet it; null: every one. */
  readonly left: number | null;
}

export class KeptFaults<Fault extends { readonly times?: number | undefined }> {
  readonly #sql: SqlStorage;
  #kept: readonly KeptFault<Fault>[];

  constructor(sql: SqlStorage) {
    this.#sql = sql;
    this.#kept = sql
      .exec<{ id: number; fault: string; remaining: number | null }>("SELECT * FROM faults ORDER BY id")
      .toArray()
      .map((row) => ({ id: row.id, fault: JSON.parse(row.fault) as Fault, left: row.remaining }));
  }

  add(fault: Fault): KeptFault<Fault> {
    const left = fault.times ?? null;
    const insert = "INSERT INTO faults (fault, remaining) VALUES (?, ?) RETURNING id";
    const { id } = this.#sql.exec<{ id: number }>(insert, JSON.stringify(fault), left).one();
    const kept = { id, fault, left };
    this.#kept = [...this.#kept, kept];
    return kept;
  }

  list(): readonly KeptFault<Fault>[] {
    return this.#kept;
  }

  clear(goes: (fault: Fault) => boolean = () => true): void {
    for (const { id } of this.#kept.filter(({ fault }) => goes(fault))) this.#delete(id);
    this.#kept = this.#kept.filter(({ fault }) => !goes(fault));
  }

  /** A call met it. */
  countDown(met: KeptFault<Fault>): void {
    if (met.left === null) return;
    const left = met.left - 1;
    if (left === 0) this.#delete(met.id);
    else this.#sql.exec("UPDATE faults SET remaining = ? WHERE id = ?", left, met.id);
    this.#kept = this.#kept.flatMap((one) => (one.id !== met.id ? [one] : left === 0 ? [] : [{ ...one, left }]));
  }

  #delete(id: number): void {
    this.#sql.exec("DELETE FROM faults WHERE id = ?", id);
  }
}
