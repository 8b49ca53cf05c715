/** What is measured, in the order of the table. */
import { anonymousBytes, quiet } from "./machine.ts";
import {
  type Bench,
  called,
  cpuOf,
  type Figure,
  type Medians,
  SATURATED,
  scaled,
  TRAIL_MS,
  timesOf,
} from "./measure.ts";
import { MANNERS, type Manner, type Scenario, type Usage } from "./scenario.ts";

const JSON_CALL = { frames: 0, paceMs: 0 };

const calls: Figure = {
  name: "calls",
  fresh: false,
  // A bare call is short: measured once a round, its nine rounds lay between 236 and 476 us.
  turns: 3,
  rows: [
    {
      id: "cpu_call",
      label: "CPU of a JSON call, hot key",
      unit: "us",
      digits: 0,
      target: { text: "<= 2.0 x bare", met: ({ ratio }) => ratio <= 2 },
    },
    {
      id: "cpu_beside",
      label: "CPU of a JSON call, hot key, by Portkey",
      unit: "us",
      digits: 0,
      target: { text: "<= 0.75 x Portkey", met: ({ byPortkey }) => byPortkey <= 0.75 },
    },
  ],
  portkey: true,
  async measure(on, side) {
    const count = scaled(on, 2_000, 300);
    const order = {
      kind: "closed",
      scenario: JSON_CALL,
      usage: "asked",
      connections: 8,
      calls: count,
      pauseMs: 0,
    } as const;
    const { micros } = await cpuOf(on, side, () => on.load.run(called(on, side).target, order));
    return { cpu_call: micros / count, cpu_beside: micros / count };
  },
};

/** Whose keys call: ones that this isolate has never seen, or twenty of ten accounts in turn. */
function byKeys(
  name: string,
  label: string,
  most: number | null,
  keysOf: (on: Bench) => Promise<readonly string[]>,
): Figure {
  const target = most !== null && { text: `<= ${most} x bare`, met: ({ ratio }: Medians) => ratio <= most };
  return {
    name,
    fresh: false,
    turns: 1,
    rows: [{ id: "cpu_call", label: `CPU of a JSON call, ${label}`, unit: "us", digits: 0, ...(target && { target }) }],
    async measure(on, side) {
      const keys = await keysOf(on);
      await quiet(on.subject.pid, TRAIL_MS[side]);
      const calls = name === "cold" ? keys.length : scaled(on, 1_000, 200);
      const order = {
        kind: "closed",
        scenario: JSON_CALL,
        usage: "asked",
        connections: 8,
        calls,
        pauseMs: 0,
        keys,
      } as const;
      const { micros } = await cpuOf(on, side, () => on.load.run(called(on, side).target, order));
      return { cpu_call: micros / calls };
    },
  };
}
const COLD_KEYS = 200;

const oneConnection: Figure = {
  name: "latency",
  fresh: false,
  turns: 2,
  rows: [
    { id: "p50", label: "Latency p50, JSON, one connection", unit: "ms", digits: 2 },
    { id: "p99", label: "Latency p99, JSON, one connection", unit: "ms", digits: 2 },
  ],
  async measure(on, side) {
    const count = scaled(on, 600, 150);
    const order = {
      kind: "closed",
      scenario: JSON_CALL,
      usage: "asked",
      connections: 1,
      calls: count,
      pauseMs: 0,
    } as const;
    const { outcome, sound } = await timesOf(on, side, "Latency", () => on.load.run(called(on, side).target, order));
    return sound ? outcome.totalMs : {};
  },
};

/** `most`: ms that the p99 may be above a bare one's. */
function atRate(rate: number, most?: number): Figure {
  const target = most && { text: `added <= ${most} ms`, met: ({ added }: Medians) => added <= most };
  return {
    name: `rate-${rate}`,
    fresh: false,
    turns: 2,
    rows: [
      { id: "p50", label: `Latency p50, JSON, ${rate} calls/s open loop`, unit: "ms", digits: 2 },
      {
        id: "p99",
        label: `Latency p99, JSON, ${rate} calls/s open loop`,
        unit: "ms",
        digits: 2,
        ...(target && { target }),
      },
      { id: "busy", label: `Share of the core, ${rate} calls/s`, unit: "%", digits: 1 },
    ],
    async measure(on, side) {
      const seconds = scaled(on, 8, 3);
      const order = { kind: "open", scenario: JSON_CALL, rate, seconds } as const;
      const what = `${rate} calls/s`;
      const { outcome, busy, sound } = await timesOf(on, side, what, () => on.load.run(called(on, side).target, order));
      const saturated = busy > SATURATED || (outcome.unanswered ?? 0) > rate / 4 || outcome.failed > 0;
      if (saturated) on.note(`${what}: ${side} is saturated, its latency is left out.`);
      return { ...(sound && !saturated && outcome.totalMs), busy: busy * 100 };
    },
  };
}

const FRAMES = 2_000;

/** What one frame of a stream costs that comes as fast as it is taken. */
function perFrame(name: string, label: string, asked: Pick<Scenario, "manner">, usage: Usage, most?: number): Figure {
  const target = most && { text: `ratio <= ${most}`, met: ({ ratio }: Medians) => ratio <= most };
  return {
    name,
    fresh: false,
    turns: 1,
    rows: [{ id: "cpu_frame", label: `CPU per SSE frame, ${label}`, unit: "us", digits: 2, ...(target && { target }) }],
    async measure(on, side) {
      const count = scaled(on, 30, 8);
      const scenario = { frames: FRAMES, paceMs: 0, ...asked };
      const order = { kind: "closed", scenario, usage, connections: 4, calls: count, pauseMs: 0 } as const;
      const { micros } = await cpuOf(on, side, () => on.load.run(called(on, side).target, order));
      return { cpu_frame: micros / count / FRAMES };
    },
  };
}

const SHORT_FRAMES = 100;

/** A stream as long as most answers are: what it costs to begin and to end one weighs more than its frames. */
function shortStream(usage: Usage, most: number): Figure {
  const words = usage === "asked" ? "usage asked for" : "usage not asked for";
  return {
    name: `stream-${usage}`,
    fresh: false,
    turns: 1,
    rows: [
      {
        id: "cpu_call",
        label: `CPU of a stream of ${SHORT_FRAMES} frames, unpaced, ${words}`,
        unit: "us",
        digits: 0,
        target: { text: `<= ${most} x Portkey`, met: ({ byPortkey }) => byPortkey <= most },
      },
    ],
    portkey: true,
    async measure(on, side) {
      const count = scaled(on, 300, 60);
      const scenario = { frames: SHORT_FRAMES, paceMs: 0 };
      const order = { kind: "closed", scenario, usage, connections: 4, calls: count, pauseMs: 0 } as const;
      const { micros } = await cpuOf(on, side, () => on.load.run(called(on, side).target, order));
      return { cpu_call: micros / count };
    },
  };
}

/**
 * What an upstream leaves out of a response is added on the way; `whole` shows what a stream costs that lacks nothing.
 */
const MANNER_WORDS: Record<Manner, string> = {
  whole: "all events",
  placed: "the contract's, placed",
  least: "the contract's",
};

const firstToken: Figure = {
  name: "first-token",
  fresh: false,
  turns: 3,
  rows: [
    {
      id: "p50",
      label: "Time to first token p50, one stream at a time",
      unit: "ms",
      digits: 2,
      target: { text: "added <= 0.5 ms", met: ({ added }) => added <= 0.5 },
    },
  ],
  async measure(on, side) {
    const scenario = { frames: 3, paceMs: 5 };
    const count = scaled(on, 200, 60);
    const order = { kind: "closed", scenario, usage: "asked", connections: 1, calls: count, pauseMs: 2 } as const;
    const work = () => on.load.run(called(on, side).target, order);
    const { outcome, sound } = await timesOf(on, side, "First token", work);
    return sound ? outcome.firstByteMs : {};
  },
};

const STALLED_MS = 250;
const MEMORY_EVERY_MS = 100;
const MOST_STREAM_KB = 350;

function paced(usage: Usage): Figure {
  const words = usage === "asked" ? "usage asked for" : "usage not asked for";
  return {
    name: `paced-${usage}`,
    fresh: true,
    turns: 1,
    rows: [
      {
        id: "stalled",
        label: `500 streams, 20 frames/s each, ${words}: frames over ${STALLED_MS} ms late`,
        unit: "frames",
        digits: 0,
        target: { text: "0", met: ({ gateway }) => gateway === 0 },
      },
      { id: "late", label: `500 streams, ${words}: lateness of a frame p99`, unit: "ms", digits: 1 },
      {
        id: "memory",
        label: `500 streams, ${words}: memory per stream`,
        unit: "kB",
        digits: 0,
        target: { text: `<= ${MOST_STREAM_KB} kB`, met: ({ gateway }) => gateway <= MOST_STREAM_KB },
      },
      { id: "busy", label: `500 streams, ${words}: share of the core`, unit: "%", digits: 0 },
    ],
    async measure(on, side) {
      const { subject, load } = on;
      const { target } = called(on, side);
      const few = { frames: 20, paceMs: 1 };
      await load.run(target, { kind: "closed", scenario: few, usage, connections: 8, calls: 200, pauseMs: 0 });
      await quiet(subject.pid, TRAIL_MS[side]);
      const idleBytes = anonymousBytes(subject.pid);
      let mostBytes = idleBytes;
      const watch = setInterval(() => {
        mostBytes = Math.max(mostBytes, anonymousBytes(subject.pid));
      }, MEMORY_EVERY_MS);
      const count = 500;
      const scenario = { frames: scaled(on, 120, 100), paceMs: 50 };
      const order = { kind: "streams", scenario, usage, count, rampMs: 4_000, stalledMs: STALLED_MS } as const;
      const what = `500 streams, ${words}`;
      const { outcome, busy, sound } = await timesOf(on, side, what, () => load.run(target, order));
      clearInterval(watch);
      if (outcome.failed > 0) throw new Error(`${outcome.failed} streams of ${side} failed`);
      return {
        ...(sound && outcome.lateMs && { stalled: outcome.stalled ?? Number.NaN, late: outcome.lateMs.p99 }),
        memory: (mostBytes - idleBytes) / count / 1000,
        busy: busy * 100,
      };
    },
  };
}

export const FIGURES: readonly Figure[] = [
  calls,
  byKeys("cold", "cold key", 4.5, ({ subject, scale }) => subject.tenants.newKeys(Math.round(COLD_KEYS * scale))),
  byKeys("keys", "20 keys of 10 accounts in turn", null, async ({ subject }) => subject.tenants.keys),
  shortStream("asked", 1),
  shortStream("unasked", 1.2),
  oneConnection,
  atRate(25),
  atRate(50),
  atRate(100, 5),
  perFrame("frames-asked", "unpaced, usage asked for", {}, "asked", 2),
  perFrame("frames-unasked", "unpaced, usage not asked for", {}, "unasked", 2),
  ...MANNERS.map((manner) =>
    perFrame(`responses-${manner}`, `unpaced, a response: ${MANNER_WORDS[manner]}`, { manner }, "asked"),
  ),
  firstToken,
  paced("asked"),
  paced("unasked"),
];
