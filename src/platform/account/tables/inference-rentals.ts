/** Inference instances by the hour, in the table of resources: their ids and holds are of the same counters. */
import type { InferenceRow } from "../../../core/compute/inference.ts";
import type { Sql } from "../schema.ts";

type Stored = { upstream: string; price_rule: string; row: string };

export interface PlacedInference {
  readonly upstream: string;
  readonly priceRule: string;
  readonly row: InferenceRow;
}

export class InferenceRentals {
  readonly #sql: Sql;

  constructor(sql: Sql) {
    this.#sql = sql;
  }

  find(id: number): PlacedInference | undefined {
    return this.#all("AND id = ?", id)[0];
  }

  /** Those that have not ended. */
  live(): PlacedInference[] {
    return this.#all("AND live = 1 ORDER BY id");
  }

  due(nowMs: number, most: number): PlacedInference[] {
    return this.#all("AND due_ms <= ? ORDER BY due_ms LIMIT ?", nowMs, most);
  }

  #all(condition: string, ...values: number[]): PlacedInference[] {
    return this.#sql
      .exec<Stored>(`SELECT upstream, price_rule, row FROM resources WHERE kind = 'inference' ${condition}`, ...values)
      .toArray()
      .map((stored) => ({
        upstream: stored.upstream,
        priceRule: stored.price_rule,
        row: JSON.parse(stored.row) as InferenceRow,
      }));
  }
}
