/**
 * The subjects that a call counts against: its key, the key's team and the account, as the text that windows and sums
 * are stored under.
 */
import type { LEVELS } from "../../../core/account/hold.ts";
import type { Key, Limits, Team } from "../../../core/account/tenant.ts";
import type { KeyId, TeamId } from "../../../core/ids.ts";

export type Subject = "account" | `team:${TeamId}` | `key:${KeyId}`;

/** A key, a team or, without both, the account alone. */
export interface Scope {
  readonly key: Key | null;
  readonly team: Team | null;
}

/** The key, team and account of one call. */
export interface Party {
  readonly keyId: KeyId;
  readonly teamId: TeamId | null;
}

/** Narrowest first. */
export function subjectsOf({ keyId, teamId }: Party): readonly Subject[] {
  return teamId === null ? [`key:${keyId}`, "account"] : [`key:${keyId}`, `team:${teamId}`, "account"];
}

/** A team's only where the key is on one. */
export const subjectOf = ({ key, team }: Scope, level: (typeof LEVELS)[number]): Subject =>
  (level === "key" && key && `key:${key.id}`) || (level === "team" && team && `team:${team.id}`) || "account";

/** The levels that limit a caller, narrowest first. */
export function limitedBy(
  { key, team }: Scope,
  accountLimits: Limits,
): { level: (typeof LEVELS)[number]; subject: Subject; limits: Limits }[] {
  const account = { level: "account", subject: "account", limits: accountLimits } as const;
  const own = key && ({ level: "key", subject: `key:${key.id}`, limits: key.limits } as const);
  const its = team && ({ level: "team", subject: `team:${team.id}`, limits: team.limits } as const);
  return [own, its, account].filter((level) => level !== null);
}

/** Every sum of all subjects. */
export function* eachSum(
  sums: ReadonlyMap<Subject, ReadonlyMap<number, number>>,
): Generator<readonly [subject: Subject, period: number, amount: number]> {
  for (const [subject, periods] of sums) for (const [period, amount] of periods) yield [subject, period, amount];
}

/** Adds to a sum per subject and period. */
export function addTo(sums: Map<Subject, Map<number, number>>, subject: Subject, period: number, amount: number): void {
  const periods = sums.get(subject) ?? new Map<number, number>();
  if (!sums.has(subject)) sums.set(subject, periods);
  periods.set(period, (periods.get(period) ?? 0) + amount);
}
