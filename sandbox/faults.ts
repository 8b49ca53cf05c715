/**
 * Faults that the sandbox's operator sets, and which of them a call meets.
 *
 * A fault acts at the edge of the service, so there is no failover around it. Each call meets the first matching fault
 * of each kind. Only the faults it meets are counted down; the others wait for the next call. A fault that replaces the
 * whole answer (`status`, `redirect`, `echo_headers`, `json_error_200`) can only be combined with `slow`.
 */
import { z } from "zod";
import type { KeptFault } from "./kept-faults.ts";

const common = {
  match: z
    .strictObject({ model: z.string().optional(), region: z.string().optional(), path: z.string().optional() })
    .default({}),
  /** How many calls meet it; without it, every call until faults are cleared. */
  times: z.int().min(1).optional(),
};
const ms = z.int().min(0).max(600_000);
const executed = z.boolean().optional();

export const FaultRequest = z.discriminatedUnion("fault", [
  z.strictObject({
    ...common,
    fault: z.literal("status"),
    status: z.int().min(200).max(599),
    headers: z.record(z.string(), z.string()).optional(),
    body: z.unknown().optional(),
    executed,
  }),
  z.strictObject({ ...common, fault: z.literal("redirect"), location: z.url().optional(), executed }),
  z.strictObject({ ...common, fault: z.literal("echo_headers"), executed }),
  z.strictObject({ ...common, fault: z.literal("json_error_200"), executed }),
  z.strictObject({ ...common, fault: z.literal("slow"), ms }),
  z.strictObject({ ...common, fault: z.literal("stall"), ms }),
  z.strictObject({ ...common, fault: z.literal("pace"), ms }),
  z.strictObject({ ...common, fault: z.literal("truncate"), after_frames: z.int().min(0).default(1) }),
  z.strictObject({ ...common, fault: z.literal("garble"), after_frames: z.int().min(0).default(1) }),
  z.strictObject({
    ...common,
    fault: z.literal("error_frame"),
    after_frames: z.int().min(0).default(1),
    error: z.unknown().optional(),
  }),
  z.strictObject({ ...common, fault: z.literal("no_done") }),
  z.strictObject({ ...common, fault: z.literal("no_usage") }),
  z.strictObject({ ...common, fault: z.literal("usage"), usage: z.unknown() }),
  z.strictObject({ ...common, fault: z.literal("job_failure"), code: z.string() }),
]);
export type Fault = z.infer<typeof FaultRequest>;
type FaultName = Fault["fault"];
/** The faults that one call meets, at most one of each kind. */
export type MetFaults = { readonly [N in FaultName]?: Extract<Fault, { fault: N }> };

/** A fault as stored. */
/** What faults can match on: where the call goes. */
export interface Place {
  readonly model: string | null;
  readonly region: string;
  readonly path: string;
}

const REPLACING: ReadonlySet<FaultName> = new Set(["status", "redirect", "echo_headers", "json_error_200"]);

function matches({ match }: Fault, place: Place): boolean {
  return (
    (match.model === undefined || match.model === place.model) &&
    (match.region === undefined || match.region === place.region) &&
    (match.path === undefined || place.path.startsWith(match.path))
  );
}

/** The faults that a call at this place meets, in the order they were set. */
export function metBy(place: Place, kept: readonly KeptFault<Fault>[]): KeptFault<Fault>[] {
  const matching = kept.filter(({ fault }) => matches(fault, place));
  const replacing = matching.find(({ fault }) => REPLACING.has(fault.fault));
  const seen = new Set<FaultName>();
  return matching.filter((one) => {
    const name = one.fault.fault;
    if (replacing && one !== replacing && name !== "slow") return false;
    if (seen.has(name)) return false;
    seen.add(name);
    return true;
  });
}

export const byName = (faults: readonly Fault[]): MetFaults =>
  Object.fromEntries(faults.map((fault) => [fault.fault, fault]));

/** A 500, 502 or 504 comes after the work was done. Any other replaced answer means that no work was done. */
export function countsAsExecuted(met: MetFaults): boolean {
  const replacing = met.status ?? met.redirect ?? met.echo_headers ?? met.json_error_200;
  if (!replacing) return true;
  if (replacing.executed !== undefined) return replacing.executed;
  return replacing.fault === "status" && [500, 502, 504].includes(replacing.status);
}

export const replacesAnswer = (met: MetFaults): boolean =>
  Boolean(met.status ?? met.redirect ?? met.echo_headers ?? met.json_error_200);
