/** The range of time that a page is about: in the address, as a name or as two moments. */
import { useAddress } from "./address.ts";
import { time } from "./format.ts";

const HOUR = 3_600_000;
const RANGES = [
  ["1h", "1 h", 1],
  ["24h", "24 h", 24],
  ["7d", "7 days", 168],
  ["30d", "30 days", 720],
  ["90d", "90 days", 2_160],
] as const;

export interface Range {
  readonly name: string;
  readonly fromMs: number;
  readonly toMs: number;
  /** How long one point of a plot is. */
  readonly step: "minute" | "hour" | "day";
}

/** Moments on full hours, since older usage is kept by the hour; the last hour alone is read to the minute. */
export function rangeIn(query: Readonly<Record<string, string>>, nowMs: number): Range {
  const [from, to] = [Date.parse(query.from ?? ""), Date.parse(query.to ?? "")];
  if (from < to) return { name: "", ...aligned(from, to) };
  const [name, , hours] = RANGES.find(([known]) => known === query.range) ?? RANGES[1];
  return { name, ...aligned(nowMs - hours * HOUR, nowMs) };
}

function aligned(from: number, to: number): Omit<Range, "name"> {
  if (to - from <= 2 * HOUR) return { fromMs: from, toMs: to, step: "minute" };
  return { fromMs: from - (from % HOUR), toMs: to, step: to - from > 9 * 24 * HOUR ? "day" : "hour" };
}

export function RangePicker() {
  const { query, set } = useAddress();
  const range = rangeIn(query, Date.now());
  return (
    <fieldset class="range">
      <legend class="hidden">Range</legend>
      {RANGES.map(([name, label]) => (
        <button
          key={name}
          type="button"
          class="plain"
          aria-pressed={range.name === name}
          onClick={() => set({ range: name, from: null, to: null }, true)}
        >
          {label}
        </button>
      ))}
      {range.name === "" && (
        <span class="quiet">
          {time(new Date(range.fromMs).toISOString())} to {time(new Date(range.toMs).toISOString())}
        </span>
      )}
    </fieldset>
  );
}

const STEPS = { minute: 60_000, hour: HOUR, day: 24 * HOUR } as const;

/** The points of a range, Unix seconds. */
export function pointsOf({ fromMs, toMs, step }: Range): number[] {
  const size = STEPS[step];
  const points: number[] = [];
  for (let at = fromMs - (fromMs % size); at < toMs; at += size) points.push(at / 1_000);
  return points;
}
export const stepSeconds = ({ step }: Range): number => STEPS[step] / 1_000;
export const iso = (seconds: number): string => new Date(seconds * 1_000).toISOString();
