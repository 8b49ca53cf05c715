/** Faults of the compute side. A call meets the first matching fault of each kind, as with the other faults. */
import { z } from "zod";
import { KeptFaults } from "../kept-faults.ts";

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

export interface Place {
  readonly account: string | null;
  readonly key: string | null;
  readonly method: string;
  readonly path: string;
}

/** Those that end a call in a way of their own; a call meets one of them. */
const ENDING: ReadonlySet<FaultName> = new Set(["status", "reset", "silence", "lost_answer"]);

export class ComputeFaults extends KeptFaults<ComputeFault> {
  /** `only`: other faults are neither met nor counted down. */
  meet(place: Place, only: (name: FaultName) => boolean): MetComputeFaults {
    const met: Partial<Record<FaultName, ComputeFault>> = {};
    let ended = false;
    for (const kept of this.list().filter(({ fault }) => only(fault.fault) && matches(fault, place))) {
      const name = kept.fault.fault;
      if (met[name] || (ENDING.has(name) && ended)) continue;
      ended ||= ENDING.has(name);
      met[name] = kept.fault;
      this.countDown(kept);
    }
    return met as MetComputeFaults;
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
