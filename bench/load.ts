/**
 * The load, a process of its own: does what the harness says over IPC and answers with times. Its connections are its
 * own; nothing of it runs in the subject's process.
 */
import { monitorEventLoopDelay } from "node:perf_hooks";
import { type Connection, Connection as Keep, requestOf, type Timing } from "./client.ts";
import { clockMs } from "./http1.ts";
import { callOf, type Scenario, type Usage } from "./scenario.ts";
import { quantile } from "./stats.ts";

/** Whom to call. */
export interface Target {
  readonly port: number;
  readonly key: string;
  /** Besides those of every call. */
  readonly headers?: Readonly<Record<string, string>>;
}

export type Order =
  /**
   * Each connection calls again as soon as it has its answer. `keys`: of the calls in turn, instead of the target's.
   */
  | {
      kind: "closed";
      scenario: Scenario;
      usage: Usage;
      connections: number;
      calls: number;
      pauseMs: number;
      keys?: readonly string[];
    }
  /** Calls begin at random times of a fixed rate, whether or not earlier ones are answered. */
  | { kind: "open"; scenario: Scenario; rate: number; seconds: number }
  /** Streams at once, opened over `rampMs`. */
  | { kind: "streams"; scenario: Scenario; usage: Usage; count: number; rampMs: number; stalledMs: number };

export interface Outcome {
  readonly calls: number;
  readonly failed: number;
  /** The first status that was not 200. */
  readonly failedWith?: number;
  readonly elapsedMs: number;
  readonly totalMs: { p50: number; p99: number };
  readonly firstByteMs: { p50: number };
  /** Open loop: how late calls were sent, and how many were unanswered when the last was sent. */
  readonly sendLateMs?: number;
  readonly unanswered?: number;
  /** Streams: frames, those that took longer through the subject than the order allows, and how long they took. */
  readonly frames?: number;
  readonly stalled?: number;
  readonly lateMs?: { p50: number; p99: number };
  /** Streams: the harness's own lateness, p99: the upstream's in sending and this process's in reading. */
  readonly ownLateMs?: number;
}

const pause = (ms: number) => new Promise<void>((resume) => setTimeout(resume, ms));

function summary(timings: readonly Timing[], failed: number, startMs: number): Outcome {
  const good = timings.filter(({ status }) => status === 200);
  const totals = good.map(({ totalMs }) => totalMs);
  const bad = timings.find(({ status }) => status !== 200);
  return {
    calls: timings.length,
    failed: failed + timings.length - good.length,
    ...(bad && { failedWith: bad.status }),
    elapsedMs: clockMs() - startMs,
    totalMs: { p50: quantile(totals, 0.5), p99: quantile(totals, 0.99) },
    firstByteMs: {
      p50: quantile(
        good.map(({ firstByteMs }) => firstByteMs),
        0.5,
      ),
    },
  };
}

async function closed(target: Target, order: Order & { kind: "closed" }): Promise<Outcome> {
  const keys = order.keys ?? [target.key];
  const requests = keys.map((key) => requestOf({ ...target, key }, callOf(order.scenario, order.usage)));
  const connections = await Promise.all(Array.from({ length: order.connections }, () => Keep.open(target.port)));
  const timings: Timing[] = [];
  const startMs = clockMs();
  let begun = 0;
  const work = async (connection: Connection) => {
    while (begun < order.calls) {
      const request = requests[begun++ % requests.length] as Buffer;
      timings.push(await connection.call(request));
      if (order.pauseMs > 0) await pause(Math.random() * 2 * order.pauseMs);
    }
  };
  try {
    await Promise.all(connections.map(work));
  } finally {
    for (const connection of connections) connection.close();
  }
  return summary(timings, 0, startMs);
}

async function open(target: Target, { scenario, rate, seconds }: Order & { kind: "open" }): Promise<Outcome> {
  const request = requestOf(target, callOf(scenario));
  const idle: Connection[] = await Promise.all(Array.from({ length: 16 }, () => Keep.open(target.port)));
  const all = [...idle];
  const timings: Timing[] = [];
  const late: number[] = [];
  let failed = 0;
  let unanswered = 0;
  const one = async () => {
    unanswered++;
    try {
      let connection = idle.pop();
      while (connection && !connection.usable) connection = idle.pop();
      if (!connection) {
        connection = await Keep.open(target.port);
        all.push(connection);
      }
      timings.push(await connection.call(request));
      idle.push(connection);
    } catch {
      failed++;
    }
    unanswered--;
  };
  const startMs = clockMs();
  const calls: Promise<void>[] = [];
  let dueMs = startMs;
  for (;;) {
    dueMs += (-Math.log(1 - Math.random()) * 1000) / rate;
    if (dueMs > startMs + seconds * 1000) break;
    const waitMs = dueMs - clockMs();
    if (waitMs > 0) await pause(waitMs);
    late.push(Math.max(0, clockMs() - dueMs));
    calls.push(one());
  }
  const left = unanswered;
  await Promise.all(calls);
  for (const connection of all) connection.close();
  return { ...summary(timings, failed, startMs), sendLateMs: quantile(late, 0.99), unanswered: left };
}

const SENT = Buffer.from('"sent_ms":');
const DUE = Buffer.from('"due_ms":');

const numberAfter = (piece: Buffer, name: Buffer, from: number): number => {
  const at = piece.indexOf(name, from);
  return at < 0 ? Number.NaN : Number.parseFloat(piece.toString("latin1", at + name.length, at + name.length + 20));
};

async function streams(target: Target, order: Order & { kind: "streams" }): Promise<Outcome> {
  const request = requestOf(target, callOf(order.scenario, order.usage));
  const late: number[] = [];
  const sentLate: number[] = [];
  const watch = (piece: Buffer, nowMs: number) => {
    for (let at = piece.indexOf(DUE); at >= 0; at = piece.indexOf(DUE, at + 1)) {
      const sentMs = numberAfter(piece, SENT, at);
      if (Number.isNaN(sentMs)) continue;
      late.push(nowMs - sentMs);
      sentLate.push(sentMs - numberAfter(piece, DUE, at));
    }
  };
  const delay = monitorEventLoopDelay({ resolution: 5 });
  delay.enable();
  const connections: Connection[] = [];
  const timings: Timing[] = [];
  let failed = 0;
  const startMs = clockMs();
  const one = async () => {
    try {
      const connection = await Keep.open(target.port);
      connections.push(connection);
      timings.push(await connection.call(request, watch));
    } catch {
      failed++;
    }
  };
  const running: Promise<void>[] = [];
  for (let index = 0; index < order.count; index++) {
    running.push(one());
    const waitMs = startMs + ((index + 1) * order.rampMs) / order.count - clockMs();
    if (waitMs > 0) await pause(waitMs);
  }
  await Promise.all(running);
  for (const connection of connections) connection.close();
  delay.disable();
  return {
    ...summary(timings, failed, startMs),
    frames: late.length,
    stalled: late.filter((ms) => ms > order.stalledMs).length,
    lateMs: { p50: quantile(late, 0.5), p99: quantile(late, 0.99) },
    ownLateMs: Math.max(quantile(sentLate, 0.99), delay.percentile(99) / 1e6),
  };
}

const work = (target: Target, order: Order): Promise<Outcome> => {
  if (order.kind === "closed") return closed(target, order);
  return order.kind === "open" ? open(target, order) : streams(target, order);
};

process.on("message", async ({ target, order }: { target: Target; order: Order }) => {
  try {
    process.send?.({ outcome: await work(target, order) });
  } catch (error) {
    process.send?.({ error: String(error) });
  }
});
process.on("disconnect", () => process.exit(0));
process.send?.({ ready: true });
