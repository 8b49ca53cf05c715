/**
 * What one body takes of memory, measured on a fresh process each. The platform allows an isolate 128 MB. The process
 * takes more: it holds the local copies of queue, database and outbound traffic too. Text that is not Latin-1 is the
 * worst case. All bodies with `ALL_BODIES=1`.
 */
import { afterEach, beforeEach, expect, test } from "vitest";
import { sleep } from "../../support/eventually.ts";
import { HeapMeter } from "../../support/heap-meter.ts";
import { forgetPeak, residentMb } from "../../support/memory.ts";
import { Operator } from "../../support/operator.ts";
import { freePorts } from "../../support/ports.ts";
import { TollgateProcess } from "../../support/process.ts";
import type { Tenant } from "../../support/tenant.ts";

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

test.each(process.env.ALL_BODIES ? [...WORST, ...OTHERS] : WORST)(
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
