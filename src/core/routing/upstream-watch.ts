/**
 * Whether an upstream is down, by the tries of all isolates in the last minutes, and whether it refuses the operator.
 */
import type { News } from "../alerts/alert.ts";
import { isOfTenants } from "./upstream-report.ts";

/** Tries at one target that ended alike. */
export interface TryCount {
  readonly upstream: string;
  readonly model: string;
  readonly result: string;
  readonly tries: number;
}

type WatchedState = "down" | "refuses";
/** What was told of an upstream and still holds. */
export interface KnownState {
  readonly upstream: string;
  readonly state: WatchedState;
  readonly sinceMs: number;
}

export const WATCHED_MS = 300_000;
/** Fewer failures than this are no outage. */
const LEAST_FAILED = 3;
/**
 * A target is bad if this part of its tries failed, an upstream if this part of its targets is bad. So a model that a
 * tenant deployed neither brings its upstream down by failing nor hides that others fail.
 */
const BAD_PART = 0.5;
/** The credential is wrong, the operator's account there is empty, or closed. */
const REFUSALS = new Set(["status_401", "status_402", "status_403"]);

export interface StateChange {
  readonly upstream: string;
  readonly state: WatchedState;
  /** False: it does not hold any more. */
  readonly holds: boolean;
  readonly news: News | null;
}

/** What changed. An upstream that nobody tried stays as it was. */
export function watchUpstreams(counts: readonly TryCount[], known: readonly KnownState[]): readonly StateChange[] {
  const changes: StateChange[] = [];
  for (const [upstream, results] of Map.groupBy(counts, (count) => count.upstream)) {
    const tries = sum(results, () => true);
    const failed = sum(results, isFailure);
    const was = (state: WatchedState) => known.find((one) => one.upstream === upstream && one.state === state);
    const down = was("down");
    const bad = mostTargets(results, (of) => sum(of, isFailure) >= sum(of, () => true) * BAD_PART);
    if (!down && bad && failed >= LEAST_FAILED) {
      const news: News = { type: "upstream.down", data: { upstream, tries, failed } };
      changes.push({ upstream, state: "down", holds: true, news });
    }
    if (down && !bad) {
      const data = { upstream, down_since: new Date(down.sinceMs).toISOString() };
      changes.push({ upstream, state: "down", holds: false, news: { type: "upstream.recovered", data } });
    }
    const refused = mostTargets(results, (of) => of.some(isRefusal));
    const refusal = refused ? results.find(isRefusal)?.result : undefined;
    if (refusal !== undefined && !was("refuses")) {
      const news: News = { type: "upstream.refuses_operator", data: { upstream, result: refusal } };
      changes.push({ upstream, state: "refuses", holds: true, news });
    }
    if (refusal === undefined && was("refuses")) {
      changes.push({ upstream, state: "refuses", holds: false, news: null });
    }
  }
  return changes;
}

const isFailure = ({ result }: TryCount): boolean => result !== "answered" && !isOfTenants(result);
const isRefusal = ({ result }: TryCount): boolean => REFUSALS.has(result);

const sum = (counts: readonly TryCount[], of: (count: TryCount) => boolean): number =>
  counts.filter(of).reduce((total, { tries }) => total + tries, 0);

function mostTargets(counts: readonly TryCount[], are: (of: readonly TryCount[]) => boolean): boolean {
  const targets = [...Map.groupBy(counts, ({ model }) => model).values()];
  return targets.filter(are).length >= targets.length * BAD_PART;
}
