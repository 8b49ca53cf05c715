/**
 * What bodies take of memory, one alone or many at once, measured on a fresh process each. The platform allows an
 * isolate 128 MB. The process takes more: it holds the local copies of queue, database and outbound traffic too. Text
 * that is not Latin-1 is the worst case. All bodies with `ALL_BODIES=1`.
 */
import { afterEach, beforeEach, expect, test } from "vitest";
import { sleep } from "../../support/eventually.ts";
import { HeapMeter } from "../../support/heap-meter.ts";
import { IN_FULL } from "../../support/in-full.ts";
import { forgetPeak, residentMb } from "../../support/memory.ts";
import { Operator, unique } from "../../support/operator.ts";
import { freePorts } from "../../support/ports.ts";
import { TollgateProcess } from "../../support/process.ts";
import type { Tenant } from "../../support/tenant.ts";
import { completion, ScriptedUpstream } from "../../support/upstream.ts";

const MB = 1024 * 1024;
const ISOLATE_MB = 128;
let inspectorPort = 0;
let tollgate: TollgateProcess;
let tenant: Tenant;
let model: string;

/** A process for each body: later ones find room that earlier ones made. */
beforeEach(async () => {
  [inspectorPort = 0] = await freePorts(1);
  tollgate = await TollgateProcess.start({ env: { INSPECTOR_PORT: String(inspectorPort) } });
  const operator = new Operator(tollgate);
  tenant = await operator.tenant({ balance_usd: 1_000 });
  model = await operator.instance(tenant);
  expect((await tenant.chat({ model, max_tokens: 1 })).status).toBe(200);
});
afterEach(() => tollgate.stop());

const says = (content: string) => ({ role: "user", content });
const wide = (characters: number) => says(`\u4e16${"x".repeat(characters - 1)}`);
const named = (_: unknown, at: number) => ({ [`${at}${"\u4e16".repeat(50)}`]: at });

type Case = [what: string, messages: () => object[]];
const WORST: Case[] = [
  ["39,000 messages of 500 bytes with one wide character each", () => Array.from({ length: 39_000 }, () => wide(496))],
  ["messages that are all wide", () => Array.from({ length: 79_000 }, () => says("\u4e16".repeat(76)))],
];
const OTHERS: Case[] = [
  ["twenty messages with one wide character each", () => Array.from({ length: 20 }, () => wide(MB - 100))],
  ["messages of 60 kB with one wide character each", () => Array.from({ length: 340 }, () => wide(61_500))],
  ["one message with one wide character", () => [wide(20 * MB - 300)]],
  ["different names with wide characters", () => [{ ...wide(2), noise: Array.from({ length: 120_000 }, named) }]],
];

test.each(process.env.ALL_BODIES ? [...WORST, ...OTHERS] : IN_FULL ? WORST : WORST.slice(0, 1))(
  "20 MB of %s: the isolate stays under 128 MB",
  async (name, messages) => {
    const body = new TextEncoder().encode(JSON.stringify({ model, max_tokens: 1, messages: messages() }));
    expect(body.length).toBeGreaterThan(19 * MB);
    const pid = tollgate.workerdPid();
    await sleep(500);
    const { now } = residentMb(pid);
    const heap = await HeapMeter.attach(inspectorPort);
    forgetPeak(pid);
    const headers = { "content-type": "application/json" };
    const response = await tenant.fetch("/v1/chat/completions", { method: "POST", body, headers });
    expect(response.status).toBe(200);
    await response.arrayBuffer();
    const grownMb = residentMb(pid).peak - now;
    heap.detach();
    console.log(`${name}: isolate ${heap.peak.mb} MB; process grown by ${grownMb} MB from ${now} MB`);
    expect(heap.peak.samples).toBeGreaterThan(10);
    expect(heap.peak.mb).toBeLessThan(ISOLATE_MB);
    expect(grownMb).toBeLessThan(140);
  },
);

/** Of a body that is all of one letter but for a wide one: as text it takes twice its bytes. */
const almostMegabyte = (name: string): string =>
  JSON.stringify({ model: name, max_tokens: 1, messages: [wide(MB - 200)] });

/** A hundred accounts are made first; on a busy machine that alone takes half a minute. */
const CROWD_TIMEOUT_MS = 150_000;

test(
  "bodies of 1 MB of 100 accounts at once: the isolate stays under 128 MB, and no small call is refused",
  async () => {
    const operator = new Operator(tollgate);
    const upstream = await ScriptedUpstream.start(async (exchange) => {
      // Long enough that bodies pile up, and others wait.
      if (exchange.text.length > MB / 2) await sleep(700);
      exchange.answer(completion("one"));
    });
    try {
      const id = await operator.upstream(upstream.url);
      const slow = await operator.model(unique("crowd"), { upstream: id });
      const crowd = await inTens(100, () => operator.tenant({ balance_usd: 100 }));
      const body = almostMegabyte(slow);
      const headers = { "content-type": "application/json" };
      let over = false;
      const large = Promise.all(
        crowd.map(async (one) => {
          const response = await one.fetch("/v1/chat/completions", { method: "POST", body, headers });
          await response.arrayBuffer();
          return [response.status, response.status === 200 ? null : response.headers.get("retry-after")];
        }),
      ).finally(() => {
        over = true;
      });
      // A runtime without the platform's limit collects late: what counts is what is held.
      const heldMb = HeapMeter.afterCollection(inspectorPort, () => over);
      const small: number[] = [];
      while (!over) {
        small.push((await tenant.chat({ model: slow, max_tokens: 1 })).status);
        await sleep(20);
      }
      const told = await large;
      const mb = await heldMb;
      const served = told.filter(([status]) => status === 200).length;
      console.log(`isolate ${mb} MB; ${served} of 100 served, ${small.length} small calls`);
      expect(told.filter(([status, wait]) => status !== 200 && (status !== 503 || wait !== "5"))).toEqual([]);
      expect(served).toBeGreaterThanOrEqual(10);
      expect(small.length).toBeGreaterThan(5);
      expect(small.filter((status) => status !== 200)).toEqual([]);
      expect(mb).toBeLessThan(ISOLATE_MB);
    } finally {
      await upstream.stop();
    }
  },
  CROWD_TIMEOUT_MS,
);

/** Ten at a time. */
async function inTens<Made>(count: number, make: () => Promise<Made>): Promise<Made[]> {
  const made: Made[] = [];
  while (made.length < count) made.push(...(await Promise.all(Array.from({ length: 10 }, make))));
  return made;
}
