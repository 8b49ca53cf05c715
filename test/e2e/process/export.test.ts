/**
 * A month of calls is exported from a real process at flat memory, by readers that are quick, slow, cut off, or leave.
 * The archive is made by hand: one part of 50,000 lines under many names, with the records that the books have of them.
 * `PROOF=1` exports ten million lines, else 100,000.
 */
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { gzipSync } from "node:zlib";
import { afterAll, beforeAll, expect, test } from "vitest";
import { timedCallId } from "../../../src/core/account/call-time.ts";
import { callPartLine } from "../../../src/core/archive/call-line.ts";
import { BLOCK_LINES, footerText, HOUR_MS, hashOf, PART_LINES, partName } from "../../../src/core/archive/part.ts";
import { sleep } from "../../support/eventually.ts";
import { HeapMeter } from "../../support/heap-meter.ts";
import { IN_FULL } from "../../support/in-full.ts";
import { residentMb } from "../../support/memory.ts";
import { Operator } from "../../support/operator.ts";
import { freePorts } from "../../support/ports.ts";
import { ADMIN_TOKEN, TollgateProcess } from "../../support/process.ts";
import { StoppedState } from "../../support/stopped-state.ts";

const PARTS = Number(process.env.EXPORT_PARTS ?? (IN_FULL ? 200 : 2));
const LINES = PARTS * PART_LINES;
const FROM = Date.UTC(2026, 9, 1);
const MB = 1024 * 1024;
/** What a stream may hold at any time: a block as text and as values, and what the sockets take. */
const MOST_HELD_MB = 25;

let inspectorPort = 0;
let tollgate: TollgateProcess;
let account = "";

beforeAll(async () => {
  [inspectorPort = 0] = await freePorts(1);
  tollgate = await TollgateProcess.start({ env: { INSPECTOR_PORT: String(inspectorPort) } });
  ({ account } = await new Operator(tollgate).tenant());
  const { number } = await new Operator(tollgate).call<{ number: number }>("GET", `/accounts/${account}`);
  await tollgate.end();
  await fill(number);
  await tollgate.launch();
}, 600_000);
afterAll(() => tollgate?.stop());

/** Made in the part's hour, as its first bytes say. */
const callId = (index: number) =>
  timedCallId(`00000000-0000-4000-8000-${String(index).padStart(12, "0")}`, FROM + index);

/** Lines of a part as the scheduled run writes them. */
function partOf(number: number) {
  const price = 1_924_000;
  const tries = [{ upstream: "main-eu", model: "llama-3-70b", result: "answered", ms: 345 }];
  const detail = { stream: false, costs: null, tries, heldNanoUsd: price, prices: {}, entry: null };
  const lines = Array.from({ length: PART_LINES }, (_, index) =>
    callPartLine({
      ...{
        event_id: callId(index),
        account,
        key: "key_0123456789abcdef",
      },
      ...{ endpoint: "chat.completions", model: "llama-3-70b", upstream: "main-eu", outcome: "completed", status: 200 },
      ...{ source: "exact", input_tokens: 1_234, output_tokens: index, price_nano_usd: price, cost_nano_usd: 962_000 },
      ...{ price_rule: "book:llama-3-70b", started_ms: FROM, ended_ms: FROM + index, latency_ms: 1_234 },
      ...{ first_byte_ms: 345, detail: JSON.stringify(detail) },
    }),
  );
  const blocks: Buffer[] = [];
  for (let at = 0; at < lines.length; at += BLOCK_LINES) {
    const some = lines.slice(at, at + BLOCK_LINES);
    blocks.push(gzipSync(some.map(({ text }) => `${text}\n`).join("")));
  }
  const sizes = blocks.map(({ length }) => length);
  const told = { version: 1, series: "calls", account: number, hour_ms: FROM, n: 1, lines: lines.length } as const;
  const calls = lines.map(({ callId }) => hashOf(callId));
  const nanoUsd = price * lines.length;
  const footer = gzipSync(footerText({ ...told, nano_usd: nanoUsd, blocks: sizes, calls }));
  return { bytes: Buffer.concat([...blocks, footer]), footer, sizes, nanoUsd };
}

async function fill(number: number): Promise<void> {
  const { bytes, footer, sizes, nanoUsd } = partOf(number);
  const sha256 = createHash("sha256").update(bytes).digest("hex");
  const state = await StoppedState.open(tollgate.stateDir);
  const [bucket, books] = [await state.bucket(), await state.books()];
  for (let n = 1; n <= PARTS; n++) {
    const hourMs = FROM + Math.floor(n / 8) * HOUR_MS;
    const { etag } = await bucket.put(partName({ series: "calls", account: number, hourMs, n }), bytes);
    const values = [number, n, "kept", hourMs, 0, 0, 0, 0, hourMs + PART_LINES, 0, PART_LINES, 0, nanoUsd];
    const record = [...values, bytes.length, footer.length, JSON.stringify(sizes), sha256, etag];
    const marks = record.map(() => "?").join(", ");
    await books
      .prepare(`insert into call_parts values (${marks})`)
      .bind(...record)
      .run();
  }
  await state.close();
}

function ask(query: string, signal?: AbortSignal): Promise<Response> {
  const headers = { authorization: `Bearer ${ADMIN_TOKEN}` };
  const url = `${tollgate.url}/admin/export?kind=calls&account=${account}&month=2026-10${query}`;
  return fetch(url, { headers, ...(signal && { signal }) });
}

/** Cursors of lines as they come; each must follow the one before. */
class Lines {
  count = 0;
  cursor = "";
  readonly #beginning: RegExp;
  #tail = "";

  constructor(beginning: RegExp, after = 0) {
    this.#beginning = beginning;
    this.count = after;
  }

  take(text: string): void {
    const lines = (this.#tail + text).split("\n");
    this.#tail = lines.pop() ?? "";
    for (const line of lines) {
      const [, cursor = ""] = this.#beginning.exec(line) ?? [];
      if (cursor !== `${1 + Math.floor(this.count / PART_LINES)}-${this.count % PART_LINES}`)
        throw new Error(`line ${this.count} has the cursor '${cursor}': ${line.slice(0, 100)}`);
      this.count += 1;
      this.cursor = cursor;
    }
  }

  get whole(): boolean {
    return this.#tail === "";
  }
}

/** Reads until `enough`, and asks for what the isolate holds on the way. */
async function read(response: Response, lines: Lines, enough: number, each: (count: number) => Promise<void>) {
  expect(response.status).toBe(200);
  const reader = (response.body as ReadableStream<Uint8Array>).getReader();
  const decoder = new TextDecoder();
  let first = true;
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    let text = decoder.decode(value, { stream: true });
    // The names of the columns.
    if (first && text.startsWith("cursor,")) text = text.slice(text.indexOf("\n") + 1);
    first = false;
    lines.take(text);
    await each(lines.count);
    if (lines.count >= enough) return reader.cancel();
  }
}

/** What the isolate holds, MB. One without any request does not answer its inspector. */
async function held(): Promise<number> {
  let over = false;
  const requests = (async () => {
    for (; !over; await sleep(50)) await (await fetch(`${tollgate.url}/`)).arrayBuffer();
  })();
  try {
    return await HeapMeter.afterCollection(inspectorPort);
  } finally {
    over = true;
    await requests;
  }
}

/** Seconds of processor time that the gateway has used. */
const busyS = (): number => {
  const stat = readFileSync(`/proc/${tollgate.workerdPid()}/stat`, "utf8").split(") ")[1]?.split(" ") ?? [];
  return (Number(stat[11]) + Number(stat[12])) / 100;
};

test(
  `${LINES} calls as JSON Lines, cut off and gone on with, and as CSV: the memory stays flat`,
  async () => {
    const before = await held();
    const measured: number[] = [];
    let next = LINES / 10;
    const measure = async (count: number) => {
      if (count < next) return;
      next += LINES / 5;
      measured.push(await held());
    };
    const startedMs = performance.now();
    const json = new Lines(/^\{"cursor":"([\d-]+)"/);
    await read(await ask(""), json, LINES / 2, measure);
    const rest = new Lines(/^\{"cursor":"([\d-]+)"/, json.count);
    await read(await ask(`&cursor=${json.cursor}`), rest, Number.POSITIVE_INFINITY, measure);
    expect([rest.count, rest.whole]).toEqual([LINES, true]);
    const jsonS = (performance.now() - startedMs) / 1_000;
    next = LINES / 10;
    const csv = new Lines(/^([\d-]+),/);
    await read(await ask("&format=csv"), csv, Number.POSITIVE_INFINITY, measure);
    expect([csv.count, csv.whole]).toEqual([LINES, true]);
    const after = await held();
    const csvS = (performance.now() - startedMs) / 1_000 - jsonS;
    console.info(
      `${LINES} lines: JSON Lines ${jsonS.toFixed(1)} s, CSV ${csvS.toFixed(1)} s; the isolate holds ${before} MB before, ` +
        `${measured.join(", ")} MB on the way, ${after} MB after; the process has ${residentMb(tollgate.workerdPid()).now} MB`,
    );
    expect(measured.length).toBeGreaterThanOrEqual(8);
    expect(Math.max(...measured, after) - before).toBeLessThan(MOST_HELD_MB);
  },
  IN_FULL ? 3 * 3_600_000 : 60_000,
);

/** Processor time of the gateway in a while, s. An export that goes on takes nearly all of a core. */
async function idle(): Promise<number> {
  await sleep(500);
  const before = busyS();
  await sleep(1_000);
  return busyS() - before;
}

test("a reader that stops reading holds nothing up and is waited for; one that leaves ends the work", async () => {
  const before = await held();
  const slow = await ask("");
  const reader = (slow.body as ReadableStream<Uint8Array>).getReader();
  try {
    const lines = new Lines(/^\{"cursor":"([\d-]+)"/);
    const decoder = new TextDecoder();
    const some = async (bytes: number) => {
      for (let got = 0; got < bytes; ) {
        const { value, done } = await reader.read();
        if (done) throw new Error(`the answer ended behind ${lines.count} lines`);
        got += value.length;
        lines.take(decoder.decode(value, { stream: true }));
      }
    };
    await some(MB);
    const waiting = await idle();
    const whileWaiting = await held();
    // Two at once, and the slow one goes on where it was.
    const other = new Lines(/^\{"cursor":"([\d-]+)"/);
    await read(await ask(""), other, 20_000, async () => undefined);
    await some(MB);
    await reader.cancel();
    const left = await idle();
    console.info(`busy for ${waiting} s of 1 s while it waits, ${left} s once it left; holds ${whileWaiting} MB`);
    expect(Math.max(waiting, left)).toBeLessThan(0.5);
    expect(whileWaiting - before).toBeLessThan(MOST_HELD_MB);
  } finally {
    await reader.cancel();
  }
});

test("a call of a part of 50,000 is found with its proof in less than a second", async () => {
  const headers = { authorization: `Bearer ${ADMIN_TOKEN}` };
  const times: number[] = [];
  for (const index of [0, 31_234, PART_LINES - 1]) {
    const startedMs = performance.now();
    const answer = await fetch(`${tollgate.url}/admin/calls/${callId(index)}?account=${account}`, { headers });
    const { id, proof } = (await answer.json()) as { id: string; proof: { source: string } };
    times.push(performance.now() - startedMs);
    expect(answer.status).toBe(200);
    expect([id, proof.source]).toEqual([callId(index), "archive"]);
  }
  console.info(`a call in ${times.map((ms) => ms.toFixed(0)).join(", ")} ms`);
  // The quickest of three: others use the machine too.
  expect(Math.min(...times)).toBeLessThan(1_000);
});
