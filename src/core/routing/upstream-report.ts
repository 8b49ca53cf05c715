/**
 * How an upstream does, by what the calls of the last minutes report: each finished call says which targets it tried.
 * Isolates do not know each other, so this is what they agree on.
 */

/** One try at one target, newest first in lists. */
export interface ReportedTry {
  readonly model: string;
  /** `answered`, or how it failed. */
  readonly result: string;
  /** Until the answer had begun, or was whole. */
  readonly ms: number;
  readonly callId: string;
  /** When its call ended. */
  readonly atMs: number;
  /** Of the call that this try served; null: it served none, or the call had no first byte. */
  readonly firstByteMs: number | null;
}

/**
 * `idle`: nothing was tried. `failing`: its last tries failed. `down`: so many in a row that isolates leave it alone.
 */
export type TargetState = "idle" | "up" | "failing" | "down";

export interface TargetReport {
  readonly model: string;
  readonly state: TargetState;
  readonly tries: number;
  readonly results: Readonly<Record<string, number>>;
  readonly tryMs: Percentiles;
  readonly firstByteMs: Percentiles;
  readonly lastAnsweredMs: number | null;
  readonly lastFailedMs: number | null;
}

export interface Percentiles {
  readonly p50: number | null;
  readonly p95: number | null;
  readonly p99: number | null;
}

/** As many failures in a row as eject a target in one isolate. */
const DOWN_AFTER = 3;
/** What a tenant's own request can bring about says nothing about the target. */
const OF_TENANTS = new Set(["status_400", "status_404", "status_413", "status_422"]);

export const isOfTenants = (result: string): boolean => OF_TENANTS.has(result);
const failed = ({ result }: ReportedTry): boolean => result !== "answered" && !isOfTenants(result);

/** One report for each model that was tried, those in trouble first. */
export function targetReports(tries: readonly ReportedTry[]): readonly TargetReport[] {
  const byModel = Map.groupBy(tries, ({ model }) => model);
  const reports = [...byModel].map(([model, its]): TargetReport => {
    const results: Record<string, number> = {};
    for (const { result } of its) results[result] = (results[result] ?? 0) + 1;
    return {
      model,
      state: stateOf(its),
      tries: its.length,
      results,
      tryMs: percentiles(its.filter((tried) => !failed(tried)).map(({ ms }) => ms)),
      firstByteMs: percentiles(its.flatMap(({ firstByteMs }) => firstByteMs ?? [])),
      lastAnsweredMs: its.find((tried) => !failed(tried))?.atMs ?? null,
      lastFailedMs: its.find(failed)?.atMs ?? null,
    };
  });
  const rank: readonly TargetState[] = ["down", "failing", "up", "idle"];
  return reports.sort((a, b) => rank.indexOf(a.state) - rank.indexOf(b.state) || (a.model < b.model ? -1 : 1));
}

function stateOf(tries: readonly ReportedTry[]): TargetState {
  if (tries.length === 0) return "idle";
  const answered = tries.findIndex((tried) => !failed(tried));
  const inARow = answered === -1 ? tries.length : answered;
  if (inARow === 0) return "up";
  return inARow >= DOWN_AFTER ? "down" : "failing";
}

/** The state of the whole: that of its worst target. */
export const worstState = (reports: readonly TargetReport[]): TargetState => reports[0]?.state ?? "idle";

/** The newest failures. */
export const lastErrors = (tries: readonly ReportedTry[], most: number): readonly ReportedTry[] =>
  tries.filter(failed).slice(0, most);

/** Exact, by nearest rank. */
export function percentiles(values: readonly number[]): Percentiles {
  const sorted = [...values].sort((a, b) => a - b);
  const at = (part: number) => sorted[Math.max(0, Math.ceil(part * sorted.length) - 1)] ?? null;
  return { p50: at(0.5), p95: at(0.95), p99: at(0.99) };
}
