/**
 * Clients that repeat on their own do not become a storm upstream (invariant 13): a hundred SDK clients ask in the same
 * instant, of targets that are all down, and come back without heeding `retry-after` until a second window of 10 s has
 * begun. (A region that falls: region-down.test.ts.) Times are of this process's steady clock: one that is set while
 * the test runs would move calls into another window.
 */
import { createServer, type Socket } from "node:net";
import OpenAI from "openai";
import { afterAll, describe, expect, test } from "vitest";
import { IN_FULL } from "../../support/in-full.ts";
import { LogTail } from "../../support/log-tail.ts";
import { unique } from "../../support/operator.ts";
import { freePorts } from "../../support/ports.ts";
import { ScriptedUpstream } from "../../support/upstream.ts";
import { world } from "../../support/world.ts";

const { operator, logFile } = world();
const log = new LogTail(logFile);
const toStop: (() => void | Promise<void>)[] = [() => log.close()];
afterAll(async () => {
  for (const stop of toStop) await stop();
});

const CLIENTS = 100;
const WINDOW_MS = 10_000;
/** Before each repeat, ms; together longer than a window. */
const PAUSES_MS = [250, 500, 1_000, 2_500, 6_250] as const;
/** Upstream calls per client call, and those that a target gets in any window however few client calls there are. */
const RATIO = 1.2;
const FLOOR = 3;

const now = (): number => performance.timeOrigin + performance.now();

/** A target that is down, and when it was called, ms. */
interface Down {
  readonly url: string;
  calls(upstream: string): readonly number[];
}

async function answering503(): Promise<Down> {
  const times: number[] = [];
  const upstream = await ScriptedUpstream.start((exchange) => {
    times.push(now());
    exchange.answer({ error: { message: "down" } }, 503);
  });
  toStop.push(() => upstream.stop());
  return { url: upstream.url, calls: () => times };
}

/** Takes what is sent and dies of it; a connection over which nothing is sent is no call. */
async function resetting(): Promise<Down> {
  const times: number[] = [];
  const server = createServer((socket: Socket) => {
    socket.on("error", () => undefined);
    socket.once("data", () => {
      times.push(now());
      socket.resetAndDestroy();
    });
  });
  const [port = 0] = await freePorts(1);
  await new Promise<void>((listening) => server.listen(port, "127.0.0.1", listening));
  toStop.push(() => new Promise<void>((closed) => void server.close(() => closed())));
  return { url: `http://localhost:${port}`, calls: () => times };
}

/** Nobody sees a connection that is refused: here alone our own log is the judge. */
async function refusing(): Promise<Down> {
  const [port = 0] = await freePorts(1);
  const calls = (upstream: string) => {
    const lines = log.lines().filter((line) => line.includes('"upstream_failed"'));
    const own = lines.filter((line) => line.includes(`"upstream":"${upstream}"`));
    return own.map((line) => timeOf(line));
  };
  return { url: `http://localhost:${port}`, calls };
}

/** A line of the log begins with the time of a day that ended at most a moment ago. */
function timeOf(line: string): number {
  const nowMs = Date.now();
  const time = Date.parse(`${new Date(nowMs).toISOString().slice(0, 11)}${line.slice(0, 12)}Z`);
  return time > nowMs + WINDOW_MS ? time - 86_400_000 : time;
}

/** One HTTP call of a client, from its first byte to the answer's. */
interface Span {
  readonly fromMs: number;
  readonly toMs: number;
}

/** All clients ask in the same instant, and again after every failure. Gives what each of them was told at last. */
function storm(url: string, key: string, model: string, sent: Span[]): Promise<unknown[]> {
  /** The client comes back after the test's own pauses, whatever it was told. */
  const pacing = (): typeof fetch => {
    let repeats = 0;
    return async (...asked) => {
      const fromMs = now();
      const response = await fetch(...asked);
      sent.push({ fromMs, toMs: now() });
      const headers = new Headers(response.headers);
      headers.set("retry-after-ms", String(PAUSES_MS[repeats++]));
      return new Response(response.body, { status: response.status, headers });
    };
  };
  const options = { baseURL: `${url}/v1`, apiKey: key, maxRetries: PAUSES_MS.length };
  const messages = [{ role: "user" as const, content: "Hi" }];
  const clients = Array.from({ length: CLIENTS }, () => new OpenAI({ ...options, fetch: pacing() }));
  return Promise.all(
    clients.map((client) =>
      client.chat.completions
        .create({ model, messages })
        .then(() => "served")
        .catch((error: InstanceType<typeof OpenAI.APIError>) => error.status),
    ),
  );
}

/** By how much the bound was passed in the window where it was passed most; below zero: not at all. */
function worstExcess(called: readonly number[], sent: readonly Span[]): number {
  const excesses = called.map((end) => {
    const start = end - WINDOW_MS;
    const upstreamCalls = called.filter((at) => at > start && at <= end).length;
    const clientCalls = sent.filter(({ fromMs, toMs }) => toMs > start && fromMs <= end).length;
    return upstreamCalls - (RATIO * clientCalls + FLOOR);
  });
  return Math.max(...excesses);
}

type Row = [number, string, () => Promise<Down>, number[]];
const rows: Row[] = [
  // What took a call and died of it may have executed it; what is ejected was not asked.
  [2, "by connections that are reset", resetting, [502, 503]],
];
const others: Row[] = [
  [2, "by 503", answering503, [503]],
  [1, "by 503", answering503, [503]],
  [1, "by refused connections", refusing, [503]],
  [2, "by refused connections", refusing, [503]],
];
describe("a hundred SDK clients at once and again: a target is called at most 1.2 x the client calls + 3 in any 10 s", () => {
  test.concurrent.each(IN_FULL ? [...rows, ...others] : rows)("%i down %s", async (count, _, fall, told) => {
    const tenant = await operator.tenant({ rpm_limit: null });
    const targets = await Promise.all(
      Array.from({ length: count }, async () => {
        const down = await fall();
        const upstream = await operator.upstream(down.url);
        return { down, upstream, model: await operator.model(unique("down"), { upstream }) };
      }),
    );
    const alias = await operator.alias(
      tenant,
      targets.map(({ upstream, model }) => ({ upstream, model })),
    );
    const sent: Span[] = [];
    const outcomes = await storm(operator.url, tenant.key, alias, sent);
    expect(outcomes.filter((outcome) => !told.includes(outcome as number))).toEqual([]);
    expect(sent).toHaveLength(CLIENTS * (1 + PAUSES_MS.length));
    // They asked together, and again in a second window.
    const began = sent.map(({ fromMs }) => fromMs);
    expect(Math.max(...began) - Math.min(...began)).toBeGreaterThan(WINDOW_MS);
    for (const { down, upstream } of targets) {
      const called = down.calls(upstream);
      expect(called.length).toBeGreaterThan(0);
      expect(called.filter(Number.isNaN)).toEqual([]);
      expect(worstExcess(called, sent)).toBeLessThanOrEqual(0);
      // The breaker does far better than the bound: the first burst finds out, then one probes.
      expect(called.length).toBeLessThan(sent.length / 2);
    }
    expect(await tenant.audit()).toMatchObject({ ok: true, open_holds: 0, balance_usd: 1, held_usd: 0 });
  });
});
