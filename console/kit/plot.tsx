/**
 * A plot over time: exact values on hover, a stretch dragged over becomes the page's range, a click opens its calls.
 */
import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import { time } from "./format.ts";
import { iso } from "./range.tsx";

interface Line {
  readonly label: string;
  readonly values: readonly (number | null)[];
  /** Of the axis and the legend. */
  shown(value: number): string;
  readonly color: "blue" | "green" | "red" | "amber";
}
interface Props {
  readonly title: string;
  /** Unix seconds, one for each value. */
  readonly times: readonly number[];
  readonly lines: readonly Line[];
  /** Unix seconds. */
  onRange(from: number, to: number): void;
  onPoint(at: number): void;
}
const HEIGHT = 190;

export function Plot(props: Props) {
  const { title, times, lines } = props;
  const box = useRef<HTMLDivElement>(null);
  const latest = useRef(props);
  latest.current = props;
  useEffect(() => {
    const element = box.current;
    if (!element) return;
    const made = new uPlot(options(latest, element), dataOf(times, lines), element);
    const dark = matchMedia("(prefers-color-scheme: dark)");
    const repaint = () => made.redraw(false, true);
    const watch = new ResizeObserver(() => made.setSize({ width: element.clientWidth, height: HEIGHT }));
    watch.observe(element);
    dark.addEventListener("change", repaint);
    return () => {
      watch.disconnect();
      dark.removeEventListener("change", repaint);
      made.destroy();
    };
  }, [times, lines]);
  return (
    <figure class="plot" data-sum={sumOf(lines[0])}>
      <figcaption>{title}</figcaption>
      <i class="hidden" />
      <div ref={box} role="img" aria-label={`${title}: ${summary(times, lines)}`} class="canvas" />
    </figure>
  );
}

const dataOf = (times: readonly number[], lines: readonly Line[]): uPlot.AlignedData =>
  [times, ...lines.map(({ values }) => values)] as uPlot.AlignedData;

/** Of the first line: what its points come to. */
const sumOf = (line: Line | undefined): number =>
  (line?.values ?? []).reduce<number>((sum, value) => sum + (value ?? 0), 0);

/** For who does not see it. */
function summary(times: readonly number[], lines: readonly Line[]): string {
  const said = lines.map(({ label, values, shown }) => {
    const known = values.filter((value) => value !== null);
    return known.length === 0
      ? `no ${label}`
      : `${label} from ${shown(Math.min(...known))} to ${shown(Math.max(...known))}`;
  });
  return times.length === 0 ? "nothing in this range" : said.join(", ");
}

function options(latest: { current: Props }, element: HTMLElement): uPlot.Options {
  const style = getComputedStyle(element);
  // A canvas knows no variables: what they come to is read where a text has that colour.
  const probe = element.parentElement?.querySelector<HTMLElement>("i") ?? element;
  const color = (name: string) => () => {
    probe.style.color = `var(--${name})`;
    return getComputedStyle(probe).color;
  };
  const { lines } = latest.current;
  const axis = {
    stroke: color("quiet"),
    grid: { stroke: color("line"), width: 1 },
    ticks: { show: false },
    font: `11px ${style.fontFamily}`,
  };
  const first = lines[0];
  return {
    width: element.clientWidth,
    height: HEIGHT,
    tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1_000), "UTC"),
    cursor: { drag: { x: true, y: false }, points: { size: 7 } },
    scales: { y: { range: (_plot, _low, high) => [0, high > 0 ? high * 1.08 : 1] } },
    axes: [
      {
        ...axis,
        values: (_plot, ticks) =>
          ticks.map((tick, index) => tickText(tick, (ticks[1] ?? tick) - (ticks[0] ?? tick), index)),
      },
      { ...axis, size: 64, values: (_plot, ticks) => ticks.map((tick) => first?.shown(tick) ?? String(tick)) },
    ],
    series: [
      { label: "Time (UTC)", value: (_plot, at) => (at === null ? "–" : time(new Date(at * 1_000).toISOString())) },
      ...lines.map((line) => ({
        label: line.label,
        stroke: color(line.color),
        width: 1.6,
        points: { show: line.values.length < 40, size: 4 },
        value: (_plot: uPlot, value: number | null) => (value === null ? "–" : line.shown(value)),
      })),
    ],
    hooks: {
      setSelect: [
        (plot) => {
          if (plot.select.width < 4) return;
          const at = (px: number) => plot.posToVal(px, "x");
          const { left, width } = plot.select;
          latest.current.onRange(...spanOf(latest.current.times, at(left), at(left + width)));
        },
      ],
      ready: [(plot) => plot.over.addEventListener("click", () => clicked(plot, latest.current))],
    },
  };
}

/** Whole points: each stands where its minute, hour or day begins, so the last one's end is a step further. */
function spanOf(times: readonly number[], from: number, to: number): [from: number, to: number] {
  const step = (times[1] ?? 0) - (times[0] ?? 0);
  const last = times.findLast((at) => at <= to) ?? from;
  const first = Math.min(times.find((at) => at >= from) ?? last, last);
  return [first, last + step];
}

/** An hour of the day, and the day where it begins. */
function tickText(tick: number, step: number, index: number): string {
  const [dayOf, clock = ""] = [time(iso(tick)).slice(0, -9), time(iso(tick)).slice(-8, -3)];
  if (step >= 86_400) return dayOf;
  return index === 0 || clock === "00:00" ? `${clock}\n${dayOf}` : clock;
}

function clicked(plot: uPlot, { times, onPoint }: Props): void {
  const at = plot.cursor.idx;
  const point = at === null || at === undefined ? undefined : times[at];
  if (point !== undefined && plot.select.width < 4) onPoint(point);
}
