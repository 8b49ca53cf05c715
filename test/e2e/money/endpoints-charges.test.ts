/**
 * What each endpoint costs when things go wrong: clients that leave, calls that fail, usage figures that are missing or
 * absurd. In a process of its own: the faults are set on models that all tenants share.
 */
import { readFileSync } from "node:fs";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { eventually } from "../../support/eventually.ts";
import { IN_FULL } from "../../support/in-full.ts";
import { Operator } from "../../support/operator.ts";
import { ownInputTokens } from "../../support/own-count.ts";
import { TollgateProcess } from "../../support/process.ts";
import { RawClient } from "../../support/raw-client.ts";
import {
  type Asked,
  ask,
  billOf,
  callIdOf,
  callOf,
  ENDPOINT_NAMES,
  executionsOf,
  instanceFor,
  type Names,
  owedNanoUsd,
  PRICES_USD,
  serviceFor,
  useOf,
} from "../../support/service.ts";
import type { Tenant } from "../../support/tenant.ts";
import { type StoredEvent, usageEventOf } from "../../support/usage-events.ts";

let tollgate: TollgateProcess;
let operator: Operator;
let tenant: Tenant;
let names: Names;

beforeAll(async () => {
  tollgate = await TollgateProcess.start();
  operator = new Operator(tollgate);
  tenant = await operator.tenant({ balance_usd: 50 });
  names = await serviceFor(operator, tenant);
});
afterAll(() => tollgate?.stop());
afterEach(async () => {
  await operator.sandbox.clearFaults();
  const audit = await eventually("nothing is held", async () => {
    const found = await tenant.audit();
    return found.open_holds === 0 && found;
  });
  expect(audit).toMatchObject({ ok: true, held_usd: 0, problems: [] });
});

/** Names whose target nobody has called: what failed for another test is not asked for a while. */
async function unusedNames(): Promise<Names> {
  return serviceFor(operator, tenant, { upstreams: [await operator.upstream(tollgate.sandboxUrl)] });
}

/** What the usage events must say; they come with the queue, seconds later, and are looked at by the last test. */
const expectedEvents: [callId: string | null, event: Partial<StoredEvent>][] = [];
const expectEvent = (callId: string | null, event: Partial<StoredEvent>) => void expectedEvents.push([callId, event]);

const smallCall = (endpoint: string, fields: Record<string, unknown> = {}): Asked =>
  callOf(endpoint, names[useOf(endpoint)], fields);

async function balance(): Promise<number> {
  return (await tenant.audit()).balance_usd;
}

describe("a client that leaves mid stream pays for what was relayed, and the service stops", () => {
  test.each([
    ["chat", { max_tokens: 200, sandbox_output_tokens: 200 }, 20],
    ["responses", { max_output_tokens: 200, sandbox_output_tokens: 200 }, 20],
    ["speech", { input: "x".repeat(3_000), response_format: "wav" }, 20],
    ["speech", { input: "x".repeat(3_000), response_format: "mp3" }, 20],
    ["speech", { input: "x".repeat(3_000), response_format: "opus" }, 20],
  ])("%s", async (endpoint, fields, delayMs) => {
    const asked = smallCall(endpoint, { ...fields, stream: true, sandbox_frame_delay_ms: delayMs });
    const client = post(asked);
    await eventually("some of the stream", () => client.text.length > 2_000, { everyMs: 10 });
    const callId = /x-request-id: (\S+)/i.exec(client.text)?.[1] ?? null;
    client.reset();
    const [execution] = await eventually("the service noticed", async () => {
      const found = await executionsOf(tenant, callId);
      return found[0]?.ended_ms ? found : undefined;
    });
    expect(execution).toMatchObject({ closed_early: true });
    const { chargedNanoUsd } = await billOf(tenant, callId);
    const used = execution?.usage ?? {};
    // Frames that were on their way when the client left may be in the one count and not in the other.
    const isText = endpoint !== "speech";
    const most = owedNanoUsd({ ...used, ...(isText && { input_tokens: ownInputTokens(asked) }) });
    expect(chargedNanoUsd).toBeGreaterThan(isText ? owedNanoUsd({ input_tokens: used.input_tokens ?? 0 }) : 0);
    expect(chargedNanoUsd).toBeLessThanOrEqual(most);
    const source = endpoint === "speech" ? "exact" : "own_count";
    expectEvent(callId, { outcome: "client_gone", price_nano_usd: chargedNanoUsd, source });
  });

  test.each(["embeddings", "rerank", "images", "transcription", "clone", "edits"])(
    "%s is drained: it is charged as if the client had stayed",
    async (endpoint) => {
      await operator.sandbox.faultAt({}, { fault: "slow", ms: 400 });
      const before = await tenant.charges();
      const controller = new AbortController();
      const { path, init } = smallCall(endpoint);
      const left = tenant.fetch(path, { ...init, signal: controller.signal }).catch(() => "left");
      setTimeout(() => controller.abort(), 200);
      expect(await left).toBe("left");
      const charge = await eventually("a charge", async () => (await tenant.charges())[before.length]);
      const { chargedNanoUsd, executions } = await billOf(tenant, charge.call_id);
      expect(chargedNanoUsd).toBe(owedNanoUsd(executions[0]?.usage ?? {}));
      expect(executions).toHaveLength(1);
    },
  );
});

/** The request on a socket of its own, to be left by a reset. */
function post({ path, init }: Asked): RawClient {
  const body = String(init.body);
  const head = [
    `POST ${path} HTTP/1.1`,
    "host: tollgate",
    `authorization: Bearer ${tenant.key}`,
    "content-type: application/json",
    `content-length: ${Buffer.byteLength(body)}`,
  ];
  return new RawClient(operator.url, `${head.join("\r\n")}\r\n\r\n${body}`);
}

describe("a call that failed costs nothing", () => {
  const faults: [string, Record<string, unknown>, number][] = [
    ["400", { fault: "status", status: 400 }, 400],
    ["429", { fault: "status", status: 429 }, 503],
    ["500", { fault: "status", status: 500 }, 502],
    ["503", { fault: "status", status: 503 }, 503],
    ["an error under status 200", { fault: "json_error_200" }, 502],
    ["a redirect", { fault: "redirect" }, 502],
    ["401, the operator's credential", { fault: "status", status: 401 }, 503],
  ];
  test.each(faults)("%s", async (what, fault, status) => {
    const before = await balance();
    const unused = await unusedNames();
    await operator.sandbox.faultAt({}, fault);
    const first = faults.findIndex(([name]) => name === what);
    // In short every fault at every other endpoint, three or four faults at each.
    const tried = ENDPOINT_NAMES.filter((_, at) => IN_FULL || (first + at) % 2 === 0);
    for (const endpoint of tried) {
      const response = await ask(tenant, callOf(endpoint, unused[useOf(endpoint)]));
      const body = (await response.json()) as { error: Record<string, unknown> };
      expect([endpoint, response.status]).toEqual([endpoint, status]);
      expect(Object.keys(body.error).sort()).toEqual(["code", "message", "param", "type"]);
      expectEvent(callIdOf(response), { price_nano_usd: 0, images: 0, audio_ms: 0, input_tokens: 0 });
    }
    expect(await balance()).toBe(before);
  });

  test("a whole answer that is cut or garbled, where it can be told", async () => {
    const before = await balance();
    for (const fault of ["truncate", "garble"]) {
      const unused = await unusedNames();
      await operator.sandbox.faultAt({}, { fault });
      for (const endpoint of ["responses", "images", "edits", "embeddings", "rerank", "transcription"]) {
        const response = await ask(tenant, callOf(endpoint, unused[useOf(endpoint)]));
        expect([fault, endpoint, response.status]).toEqual([fault, endpoint, expect.toBeOneOf([502, 504])]);
      }
      await operator.sandbox.clearFaults();
    }
    expect(await balance()).toBe(before);
  });
});

describe("a stream that breaks costs what was delivered", () => {
  test.each(["truncate", "garble", "error_frame"])("responses, %s", async (fault) => {
    await operator.sandbox.faultAt({}, { fault, after_frames: 6 });
    const asked = smallCall("responses", { stream: true, sandbox_output_tokens: 50 });
    const response = await ask(tenant, asked);
    const text = await readAll(response);
    expect(text).toContain("response.output_text.delta");
    expect(text).not.toContain("response.completed");
    const { chargedNanoUsd, executions } = await billOf(tenant, callIdOf(response));
    expect(executions).toHaveLength(1);
    const deltas = text.match(/response\.output_text\.delta/g)?.length ?? 0;
    // Each delta is four bytes.
    expect(chargedNanoUsd).toBe(owedNanoUsd({ input_tokens: ownInputTokens(asked), output_tokens: deltas }));
    const event = { outcome: "stream_broken", source: "own_count", price_nano_usd: chargedNanoUsd } as const;
    expectEvent(callIdOf(response), event);
  });

  test("speech, cut", async () => {
    await operator.sandbox.faultAt({}, { fault: "truncate", after_frames: 5 });
    const input = "x".repeat(1_000);
    const response = await ask(tenant, smallCall("speech", { input, stream: true, response_format: "mp3" }));
    await readAll(response);
    const { chargedNanoUsd, executions } = await billOf(tenant, callIdOf(response));
    expect(chargedNanoUsd).toBe(owedNanoUsd(executions[0]?.usage ?? {}));
    expect(chargedNanoUsd).toBeLessThan(60 * PRICES_USD.audio_seconds * 1e9);
  });
});

/** All that came before it broke. */
async function readAll(response: Response): Promise<string> {
  let text = "";
  try {
    for await (const piece of response.body as ReadableStream<Uint8Array>) text += new TextDecoder().decode(piece);
  } catch {
    // Broken off, as it should be.
  }
  return text;
}

describe("usage that is missing or absurd is settled from our own count, and marked", () => {
  const ABSURD = [
    { input_tokens: -1, output_tokens: -1, prompt_tokens: -1, completion_tokens: -1, total_tokens: -1 },
    { input_tokens: 1e15, output_tokens: 5, prompt_tokens: 1e15, completion_tokens: 5, total_tokens: 1e15 },
    { input_tokens: "9", output_tokens: "9", prompt_tokens: "9", completion_tokens: "9", total_tokens: "9" },
    { input_tokens: 1.5, output_tokens: 5, prompt_tokens: 1.5, completion_tokens: 5, total_tokens: 1.5 },
    [],
    "much",
  ];
  const faults = [{ fault: "no_usage" }, ...ABSURD.map((usage) => ({ fault: "usage", usage }))];

  test.each(faults)("%j", async (fault) => {
    await operator.sandbox.faultAt({}, fault);
    const said = "0123456789abcdef";
    const reply = { sandbox_reply: "x".repeat(40) };
    const calls: [string, Record<string, unknown>, Record<string, number>][] = [
      ["chat", { messages: [{ role: "user", content: said }], ...reply }, { output_tokens: 10 }],
      ["responses", { input: said, ...reply }, { output_tokens: 10 }],
      ["responses", { input: said, ...reply, stream: true }, { output_tokens: 10 }],
      ["embeddings", { input: [said, said] }, {}],
      ["rerank", { query: "four", documents: [said, said] }, {}],
    ];
    for (const [endpoint, fields, output] of calls) {
      const asked = smallCall(endpoint, fields);
      const usage = { input_tokens: ownInputTokens(asked), ...output };
      const response = await ask(tenant, asked);
      await response.text();
      expect([endpoint, response.status]).toEqual([endpoint, 200]);
      expect([endpoint, (await billOf(tenant, callIdOf(response))).chargedNanoUsd]).toEqual([
        endpoint,
        owedNanoUsd(usage),
      ]);
      expectEvent(callIdOf(response), { source: "own_count" });
    }
  });

  test("an explicit zero stays zero; the event is marked and the operator told", async () => {
    const exact = await ask(tenant, smallCall("embeddings"));
    await exact.text();
    const zero = { prompt_tokens: 0, total_tokens: 0 };
    await operator.sandbox.faultAt({}, { fault: "usage", usage: zero });
    const free = await ask(tenant, smallCall("embeddings"));
    await free.text();
    expect((await billOf(tenant, callIdOf(free))).chargedNanoUsd).toBe(0);
    expectEvent(callIdOf(exact), { source: "exact", low_input: 0 });
    expectEvent(callIdOf(free), { source: "exact", low_input: 1 });
    // The log is written once the books are, and read from another process.
    const told = await eventually("it is told", () => {
      const lines = readFileSync(tollgate.logFile, "utf8").split("\n");
      const low = lines.filter((line) => line.includes("input_figure_low"));
      return low.length > 0 && low;
    });
    expect(told).toEqual([expect.stringContaining(callIdOf(free) ?? "no id")]);
  });

  test("endpoints that are charged by what passes do not ask for usage figures", async () => {
    await operator.sandbox.faultAt({}, { fault: "no_usage" });
    const { model } = await instanceFor(operator, tenant, "image");
    for (const [endpoint, name] of [
      ["images", model],
      ["edits", names.imageEdit],
      ["speech", names.speech],
      ["clone", names.voice],
      ["localEdit", names.voice],
      ["transcription", names.transcription],
    ] as const) {
      const response = await ask(tenant, callOf(endpoint, name));
      await response.arrayBuffer();
      const { chargedNanoUsd, executions } = await billOf(tenant, callIdOf(response));
      expect([endpoint, chargedNanoUsd]).toEqual([endpoint, owedNanoUsd(executions[0]?.usage ?? {})]);
      expectEvent(callIdOf(response), { source: "exact" });
    }
  });
});

test("the usage events of all these calls say the same, and how each was counted", async () => {
  expect(expectedEvents.length).toBeGreaterThan(IN_FULL ? 100 : 50);
  for (const [callId, event] of expectedEvents) {
    expect(await usageEventOf(tollgate.stateDir, callId)).toMatchObject(event);
  }
});
