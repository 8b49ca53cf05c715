/** The table: one row a quantity, medians with quartiles, ratios and differences of sides measured together. */
import { MOST_GZIPPED_KB } from "../scripts/bundle.ts";
import type { Figure, Row, Values } from "./measure.ts";
import { type Spread, spread } from "./stats.ts";
import type { Side } from "./subject.ts";

/** What both sides gave for one figure, one right after the other. */
export type Pair = Readonly<Partial<Record<Side, Values>>>;

export interface Measured {
  readonly figure: Figure;
  readonly pairs: readonly Pair[];
}

const HEAD = ["Figure", "Unit", "Bare", "Portkey", "Gateway", "By bare", "By Portkey", "Added", "Target", ""];

export function table(all: readonly Measured[], gatewayGzippedKb: number): string {
  const lines = all.flatMap(({ figure, pairs }) => figure.rows.map((row) => line(row, pairs)));
  const size = gatewayGzippedKb;
  const bundle = [
    "The gateway's code, gzipped",
    "kB",
    "",
    "",
    size.toFixed(1),
    "",
    "",
    "",
    `<= ${MOST_GZIPPED_KB}`,
    size <= MOST_GZIPPED_KB ? "met" : "missed",
  ];
  return align([HEAD, ...lines, bundle]);
}

function line(row: Row, measured: readonly Pair[]): string[] {
  const pairs = measured
    .map(({ bare, gateway, portkey }) => ({
      bare: bare?.[row.id] ?? Number.NaN,
      gateway: gateway?.[row.id] ?? Number.NaN,
      portkey: portkey?.[row.id] ?? Number.NaN,
    }))
    .filter(({ bare, gateway }) => Number.isFinite(bare) && Number.isFinite(gateway));
  const start = [row.label, row.unit];
  // A row that could mostly not be measured says nothing.
  if (pairs.length * 2 <= measured.length)
    return [...start, "-", "-", "-", "-", "-", "-", row.target?.text ?? "", "not measured"];
  const bare = spread(pairs.map((pair) => pair.bare));
  const gateway = spread(pairs.map((pair) => pair.gateway));
  const ratio = spread(pairs.map((pair) => pair.gateway / pair.bare));
  const added = spread(pairs.map((pair) => pair.gateway - pair.bare));
  const beside = pairs.filter(({ portkey }) => Number.isFinite(portkey));
  const portkey = beside.length > 0 ? spread(beside.map((pair) => pair.portkey)) : null;
  const byPortkey = spread(beside.map((pair) => pair.gateway / pair.portkey));
  const medians = {
    gateway: gateway.median,
    ratio: ratio.median,
    added: added.median,
    byPortkey: portkey ? byPortkey.median : Number.NaN,
  };
  const judged = row.target && (portkey || !row.target.text.includes("Portkey"));
  const met = judged && (row.target?.met(medians) ? "met" : "missed");
  return [
    ...start,
    show(bare, row.digits),
    portkey ? show(portkey, row.digits) : "",
    show(gateway, row.digits),
    Number.isFinite(ratio.q1 + ratio.q3) ? show(ratio, 2) : "",
    portkey ? show(byPortkey, 2) : "",
    show(added, row.digits),
    row.target?.text ?? "",
    met || "",
  ];
}

/** What the gateway beside gave, and by how much ours differs from it in the same pair. */
export function besideTable(all: readonly Measured[]): string {
  const lines = all.flatMap(({ figure, pairs }) =>
    figure.rows.map((row) => {
      const both = pairs
        .map((pair) => [pair.gateway?.[row.id] ?? Number.NaN, pair.beside?.[row.id] ?? Number.NaN] as const)
        .filter(([gateway, beside]) => Number.isFinite(gateway) && Number.isFinite(beside));
      const column = (of: (gateway: number, beside: number) => number, digits: number) =>
        both.length === 0 ? "-" : show(spread(both.map(([gateway, beside]) => of(gateway, beside))), digits);
      return [
        row.label,
        row.unit,
        `${both.length}`,
        column((_, beside) => beside, row.digits),
        column((gateway) => gateway, row.digits),
        column((gateway, beside) => gateway / beside, 2),
        column((gateway, beside) => gateway - beside, row.digits),
      ];
    }),
  );
  return align([["Figure", "Unit", "Pairs", "Beside", "Gateway", "By beside", "More than beside"], ...lines]);
}

const show = ({ q1, median, q3 }: Spread, digits: number): string =>
  `${median.toFixed(digits)} [${q1.toFixed(digits)}, ${q3.toFixed(digits)}]`;

/** A Markdown table that reads as well in a terminal. */
function align(rows: readonly (readonly string[])[]): string {
  const widths = (rows[0] ?? []).map((_, column) => Math.max(3, ...rows.map((row) => row[column]?.length ?? 0)));
  const text = (row: readonly string[]) =>
    `| ${widths.map((width, column) => (row[column] ?? "").padEnd(width)).join(" | ")} |`;
  const [head = [], ...body] = rows;
  return [text(head), `|${widths.map((width) => "-".repeat(width + 2)).join("|")}|`, ...body.map(text)].join("\n");
}

export interface Conditions {
  readonly machine: string;
  readonly versions: string;
  readonly placement: string;
  readonly command: string;
  readonly rounds: number;
  readonly notes: readonly string[];
}

export function document(text: string, of: Conditions): string {
  const notes = of.notes.length > 0 ? `\n${of.notes.map((note) => `- ${note}`).join("\n")}\n` : "";
  return `# What the gateway costs

${EXPLAINED}

- Machine: ${of.machine}
- Versions: ${of.versions}
- Placement: ${of.placement}
- Command: \`${of.command}\`, ${of.rounds} rounds
${notes}
${text}
`;
}

const EXPLAINED = `Measured by \`npm run bench\` (see the header of each file in \`bench/\`). A bare Worker, \`fetch\` with only the host
changed, and the gateway run in the same workerd and ask the same upstream. Each figure is measured on both in every
round, one right after the other in random order; latencies two or three times a round. Cells are medians with the first
and third quartile; **by bare**, **by Portkey** and **added** (gateway less bare) are of values measured together. Portkey
is its gateway on Node, which knows no keys and counts nothing (\`npm install --prefix bench\`). Miniflare's extra Worker behind
each outbound fetch, which production does not have, is taken out. CPU is the time of the workerd process (Portkey's: of its
own), all threads, until what a call left behind is done; KV, D1 and queues are miniflare's
simulators in that process and are part of the gateway's. Every limit and budget is set at key, team and account. The targets
are the design's.`;
