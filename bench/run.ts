/**
 * `npm run bench`: what the gateway costs beside a bare Worker. Prints a table and writes it to `bench/RESULTS.md`.
 *
 *     --rounds 7       how many rounds
 *     --only a,b       figures by name (--list names them); writes nothing
 *     --targets        figures that have a target; writes nothing
 *     --quick          two short rounds, to see that it runs; writes nothing
 *     --write          writes the table all the same
 *     --no-pin         leaves processes where the system puts them
 *     --no-leases      asks the account's object for each call
 *     --beside .       measures the gateway of that checkout too, pair by pair; writes nothing
 *     --beside-leases off   that gateway without leases; `on` otherwise
 *     --rpc-delay 20   calls to an account's object take so many ms longer, on both; writes nothing
 *     --disk           keeps the storage on disk, where memory is the default
 */
import { readFileSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { watchForShutdown } from "../scripts/shutdown.ts";
import { FIGURES } from "./figures.ts";
import { chooseCores, describeMachine, load as machineLoad, pin, quiet } from "./machine.ts";
import type { Figure, Values } from "./measure.ts";
import { takeHopOut } from "./no-hop.ts";
import { type Portkey, startPortkey } from "./portkey.ts";
import { type Load, startLoad, startUpstream, type Upstream } from "./processes.ts";
import { besideTable, document, type Measured, type Pair, table } from "./report.ts";
import { MANNERS } from "./scenario.ts";
import { shuffled } from "./stats.ts";
import { chooseStorage } from "./storage.ts";
import {
  type Bundles,
  makeBundles,
  type Place,
  type Side,
  type Subject,
  startSubject,
  WORKERS,
  workerdVersion,
} from "./subject.ts";

Object.assign(process.env, {
  WRANGLER_LOG: "none",
  WRANGLER_SEND_METRICS: "false",
  CLOUDFLARE_CF_FETCH_ENABLED: "false",
});

// Every miniflare leaves a listener behind.
process.setMaxListeners(0);

const { values: flags } = parseArgs({
  options: {
    rounds: { type: "string" },
    only: { type: "string" },
    targets: { type: "boolean", default: false },
    quick: { type: "boolean", default: false },
    write: { type: "boolean", default: false },
    list: { type: "boolean", default: false },
    "no-pin": { type: "boolean", default: false },
    disk: { type: "boolean", default: false },
    "no-leases": { type: "boolean", default: false },
    beside: { type: "string" },
    "beside-leases": { type: "string", default: "on" },
    "rpc-delay": { type: "string", default: "0" },
  },
});
const root = join(import.meta.dirname, "..");
const BESIDE = "beside";
const QUICK_SCALE = 0.25;
const BELOW = "## By other commands\n";
const out = (text: string) => process.stdout.write(`${text}\n`);

if (flags.list) {
  out(FIGURES.map(({ name }) => name).join("\n"));
  process.exit(0);
}
const running = watchForShutdown();
try {
  await main();
  running.end(0);
} catch (error) {
  out(error instanceof Error ? (error.stack ?? error.message) : String(error));
  running.end(1);
}

interface World {
  readonly bundles: Bundles;
  /** Of the gateway that is measured beside. */
  readonly beside: Bundles | null;
  readonly upstream: Upstream;
  readonly load: Load;
  readonly place: Place;
  readonly portkey: Portkey | null;
  readonly notes: Set<string>;
  readonly scale: number;
}

async function main(): Promise<void> {
  takeHopOut(WORKERS);
  const figures = choose();
  const rounds = Number(flags.rounds ?? (flags.quick ? 2 : 7));
  const cores = flags["no-pin"] ? null : chooseCores();
  const storage = chooseStorage(flags.disk);
  const loadBefore = machineLoad();
  const delayMs = Number(flags["rpc-delay"]);
  const [bundles, beside, upstream, load] = await Promise.all([
    makeBundles(root, delayMs),
    flags.beside === undefined ? null : makeBundles(resolve(flags.beside), delayMs),
    startUpstream(),
    startLoad(),
  ]);
  running.onEnd(async () => {
    upstream.stop();
    load.stop();
  });
  const portkey = figures.some((figure) => figure.portkey) ? await startPortkey(upstream.port) : null;
  running.onEnd(async () => portkey?.stop());
  if (cores) for (const pid of [process.pid, upstream.pid, load.pid]) pin(pid, cores.others);
  if (cores && portkey) pin(portkey.pid, cores.subject);
  const notes = new Set<string>();
  if (loadBefore > 0.3) notes.add(`The machine was not quiet: its load was ${loadBefore.toFixed(1)} when this began.`);
  const world: World = {
    bundles,
    beside,
    upstream,
    load,
    place: { cores, storage, leases: !flags["no-leases"] },
    portkey,
    notes,
    scale: flags.quick ? QUICK_SCALE : 1,
  };

  const measured = await measureAll(figures, rounds, world);
  const text = table(measured, bundles.gatewayGzippedKb);
  const conditions = {
    machine: describeMachine(),
    versions: `workerd ${workerdVersion()}`,
    placement: `${
      cores
        ? `workerd on core ${cores.subject}; upstream, load and harness on the rest (${cores.others})`
        : "no process bound to a core"
    }; storage ${storage.inMemory ? "in memory" : "on disk"}`,
    command: `npm run bench${process.argv.length > 2 ? ` -- ${process.argv.slice(2).join(" ")}` : ""}`,
    rounds,
    notes: [...notes],
  };
  out(`\n${document(text, conditions)}`);
  if (beside) out(besideTable(measured));
  const own = beside === null && delayMs === 0;
  if (own && (flags.write || !(flags.quick || flags.only || flags.targets))) writeResults(document(text, conditions));
}

/** Replaces the table; what other commands measured stands below it and stays. */
function writeResults(results: string): void {
  const file = join(import.meta.dirname, "RESULTS.md");
  const before = readFileSync(file, "utf8");
  const below = before.indexOf(BELOW);
  writeFileSync(file, below < 0 ? results : `${results}\n${before.slice(below)}`);
}

function choose(): readonly Figure[] {
  if (flags.targets) return FIGURES.filter(({ rows }) => rows.some(({ target }) => target !== undefined));
  if (!flags.only) return FIGURES;
  const names = flags.only.split(",");
  const unknown = names.filter((name) => !FIGURES.some((figure) => figure.name === name));
  if (unknown.length > 0) throw new Error(`no figure is called ${unknown.join(", ")}; --list names them`);
  return FIGURES.filter(({ name }) => names.includes(name));
}

/** Rounds of figures, figures of sides: each in random order. */
async function measureAll(figures: readonly Figure[], rounds: number, world: World): Promise<Measured[]> {
  const results = new Map<Figure, Pair[]>(figures.map((figure) => [figure, []]));
  const shared = figures.some(({ fresh }) => !fresh) ? await startShared(world) : undefined;
  for (let round = 1; round <= rounds; round++) {
    for (const figure of shuffled(figures)) {
      for (let turn = 0; turn < figure.turns; turn++) {
        const values: Partial<Record<Side, Values>> = {};
        for (const side of shuffled(sidesOf(figure, world))) values[side] = await measure(figure, side, shared, world);
        results.get(figure)?.push(values);
        out(`round ${round}/${rounds} ${figure.name.padEnd(15)} ${JSON.stringify(values, rounded)}`);
      }
    }
  }
  for (const subject of new Set(shared?.values())) await subject.stop();
  return figures.map((figure) => ({ figure, pairs: results.get(figure) ?? [] }));
}

function sidesOf(figure: Figure, { portkey, beside }: World): readonly Side[] {
  const sides: Side[] = ["bare", "gateway"];
  if (figure.portkey && portkey) sides.push("portkey");
  if (beside) sides.push(BESIDE);
  return sides;
}

/** The subject of each side, started and warm. */
async function startShared(world: World): Promise<ReadonlyMap<Side, Subject>> {
  const own = await start("gateway", world);
  const shared = new Map<Side, Subject>([...own.targets.keys()].map((side) => [side, own]));
  if (world.beside) shared.set(BESIDE, await start(BESIDE, world));
  for (const subject of new Set(shared.values())) await warm(subject, world);
  return shared;
}

async function measure(figure: Figure, side: Side, shared: ReadonlyMap<Side, Subject> | undefined, world: World) {
  const { load, scale, notes } = world;
  const note = (text: string) => void notes.add(text);
  const kept = figure.fresh ? undefined : shared?.get(side);
  const subject = kept ?? (await start(side, world));
  try {
    return await figure.measure({ subject, load, scale, note }, side);
  } finally {
    if (subject !== kept) await subject.stop();
  }
}

async function start(side: Side, { bundles, beside, upstream, place, portkey }: World): Promise<Subject> {
  const subject =
    side === BESIDE && beside
      ? await startSubject(beside, upstream.port, { ...place, leases: flags["beside-leases"] !== "off" }, null, BESIDE)
      : await startSubject(bundles, upstream.port, place, portkey);
  running.onEnd(subject.stop);
  return subject;
}

/** Until both sides' code is compiled as well as it will be. */
async function warm(subject: Subject, { load, scale }: World): Promise<void> {
  for (const [side, { target }] of subject.targets) {
    for (const [frames, calls] of [
      [0, 1_500 * scale],
      [200, 200 * scale],
    ] as const) {
      for (const usage of ["asked", "unasked"] as const) {
        const scenario = { frames, paceMs: 0 };
        const order = { kind: "closed", scenario, usage, connections: 8, calls, pauseMs: 0 } as const;
        await load.run(target, order);
      }
    }
    for (const manner of side === "portkey" ? [] : MANNERS) {
      const scenario = { frames: 200, paceMs: 0, manner };
      const order = {
        kind: "closed",
        scenario,
        usage: "asked",
        connections: 8,
        calls: 100 * scale,
        pauseMs: 0,
      } as const;
      await load.run(target, order);
    }
  }
  await quiet(subject.pid, 3_000);
}

function rounded(_name: string, value: unknown): unknown {
  return typeof value === "number" ? Number(value.toPrecision(4)) : value;
}
