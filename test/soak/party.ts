/** A caller of the soak: its tenant, the answers it got, and what should not have happened. */
import type { Tenant } from "../support/tenant.ts";

/** Statuses that a call may get under faults, kills and revocations. */
const EXPECTED: ReadonlySet<number> = new Set([200, 202, 400, 401, 404, 413, 422, 429, 502, 503, 504]);

export class Party {
  /** How often each workload had each outcome. */
  readonly answers = new Map<string, number>();
  readonly surprises: string[] = [];
  tenant: Tenant;

  constructor(tenant: Tenant) {
    this.tenant = tenant;
  }

  /** Records a call's outcome: a status, or how it was cut short. */
  answered(workload: string, what: number | "left" | "broken", body = "", expected = EXPECTED): void {
    const name = `${workload}: ${what}`;
    this.answers.set(name, (this.answers.get(name) ?? 0) + 1);
    if (typeof what === "number" && !expected.has(what)) this.surprised(`${name}: ${body.slice(0, 200)}`);
  }

  surprised(words: string): void {
    this.surprises.push(`${this.tenant.account}: ${words}`);
  }
}

/** Counts each name, the most frequent first. */
export function tally(names: readonly string[]): string {
  const groups = [...Map.groupBy(names, (name) => name)].sort((a, b) => b[1].length - a[1].length);
  return groups.map(([name, some]) => `${some.length} ${name}`).join(", ");
}
