/** Faults of the compute side. A call meets the first matching fault of each kind, as with the other faults. */
import { z } from "zod";

const ms = z.int().min(0).max(600_000);
const common = {
  /** `path` is a prefix, the others are exact. */
  match: z
    .strictObject({
      account: z.string().optional(),
      key: z.string().optional(),
      method: z.string().optional(),
      path: z.string().optional(),
    })
    .default({}),
  /** How many calls meet it; without it, every call until faults are cleared. */
  times: z.int().min(1).optional(),
};

export const ComputeFaultRequest = z.discriminatedUnion("fault", [
  /** This answer in place of the real one. */
  z.strictObject({
    ...common,
    fault: z.literal("status"),
    status: z.int().min(200).max(599),
    headers: z.record(z.string(), z.string()).optional(),
    body: z.unknown().optional(),
    executed: z.boolean().default(false),
  }),
  /** The connection is cut before anything is done. */
  z.strictObject({ ...common, fault: z.literal("reset") }),
  /** Nothing is done and nothing answered; cut after so long. */
  z.strictObject({ ...common, fault: z.literal("silence"), ms: ms.default(60_000) }),
  /** It is done, then the connection is cut. */
  z.strictObject({ ...common, fault: z.literal("lost_answer") }),
  /** The answer comes so late; the work is done at once, or only then. */
  z.strictObject({
    ...common,
    fault: z.literal("late"),
    ms,
    executes: z.enum(["at_once", "at_end"]).default("at_once"),
  }),
  /** Lists leave these resources out; without ids, all. */
  z.strictObject({ ...common, fault: z.literal("omit"), ids: z.array(z.int()).optional() }),
  /** The authorization header goes on to the pod. */
  z.strictObject({ ...common, fault: z.literal("leak") }),
]);
export type ComputeFault = z.infer<typeof ComputeFaultRequest>;
type FaultName = ComputeFault["fault"];
export type MetComputeFaults = { readonly [N in FaultName]?: Extract<ComputeFault, { fault: N }> };

interface Kept {
  readonly id: number;
  readonly fault: ComputeFault;
  readonly left: number | null;
}

export interface Place {
  readonly account: string | null;
  readonly key: string | null;
  readonly method: string;
  readonly path: string;
}

/** Those that end a call in a way of their own; a call meets one of them. */
const ENDING: ReadonlySet<FaultName> = new Set(["status", "reset", "silence", "lost_answer"]);

export class ComputeFaults {
  readonly #sql: SqlStorage;
  #kept: Kept[];

  constructor(sql: SqlStorage) {
    this.#sql = sql;
    this.#kept = sql
      .exec<{ id: number; fault: string; remaining: number | null }>("SELECT * FROM faults ORDER BY id")
      .toArray()
      .map((row) => ({ id: row.id, fault: JSON.parse(row.fault) as ComputeFault, left: row.remaining }));
  }

  add(fault: ComputeFault): Kept {
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

  list(): readonly Kept[] {
    return this.#kept;
  }

  /** Those of one account, or all. */
  clear(account: string | null): void {
    const goes = ({ fault }: Kept) => account === null || fault.match.account === account;
    for (const { id } of this.#kept.filter(goes)) this.#sql.exec("DELETE FROM faults WHERE id = ?", id);
    this.#kept = this.#kept.filter((kept) => !goes(kept));
  }

  /** `only`: other faults are neither met nor counted down. */
  meet(place: Place, only: (name: FaultName) => boolean): MetComputeFaults {
    const met: Partial<Record<FaultName, ComputeFault>> = {};
    let ended = false;
    for (const kept of this.#kept.filter(({ fault }) => only(fault.fault) && matches(fault, place))) {
      const name = kept.fault.fault;
      if (met[name] || (ENDING.has(name) && ended)) continue;
      ended ||= ENDING.has(name);
      met[name] = kept.fault;
      this.#countDown(kept);
    }
    return met as MetComputeFaults;
  }

  #countDown(met: Kept): void {
    if (met.left === null) return;
    const left = met.left - 1;
    if (left === 0) this.#sql.exec("DELETE FROM faults WHERE id = ?", met.id);
    else this.#sql.exec("UPDATE faults SET remaining = ? WHERE id = ?", left, met.id);
    this.#kept = this.#kept.flatMap((one) => (one !== met ? [one] : left === 0 ? [] : [{ ...one, left }]));
  }
}

function matches({ match }: ComputeFault, place: Place): boolean {
  return (
    (match.account === undefined || match.account === place.account) &&
    (match.key === undefined || match.key === place.key) &&
    (match.method === undefined || match.method === place.method) &&
    (match.path === undefined || place.path.startsWith(match.path))
  );
}
