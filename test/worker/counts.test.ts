/**
 * What a call costs, counted: reads of KV, calls of the account object, rows it writes, messages, subrequests. Exact on
 * any machine. The figures are today's and a ceiling: whoever needs more has to say so here, whoever needs less lowers
 * them.
 */
import {
  createExecutionContext,
  createMessageBatch,
  getQueueResult,
  runDurableObjectAlarm,
  runInDurableObject,
  waitOnExecutionContext,
} from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import { createApp } from "../../src/app.ts";
import { type AccountNumber, asId, type KeyDigest } from "../../src/core/ids.ts";
import worker from "../../src/index.ts";
import { accountObject } from "../../src/platform/account/stub.ts";
import { newEdgeState, openDirectory } from "../../src/platform/edge/directory.ts";
import { openPorts } from "../../src/platform/ports.ts";
import { consumeUsage } from "../../src/platform/queue/usage.ts";
import { readSecrets } from "../../src/platform/secrets.ts";
import { fakeClock } from "../support/worker/account-support.ts";
import { Counter, type Counts, type Worker } from "../support/worker/counting.ts";
import { done, settled } from "../support/worker/operator.ts";

/** What is not named is none. */
const CEILING = {
  // A key and routes that this isolate knows. `admit` writes the hold and its index entries, `settle` the hold's end,
  // the ledger's entry and the event; the alarm is set for the event. Another call within half a second sets none.
  "a warm call": { rpcs: 2, rowsWritten: 6, alarmsSet: 1, subrequests: 1 },
  "a warm stream, usage asked for": { rpcs: 2, rowsWritten: 6, alarmsSet: 1, subrequests: 1 },
  "a warm stream, usage not asked for": { rpcs: 2, rowsWritten: 6, alarmsSet: 1, subrequests: 1 },
  // An isolate that knows nothing reads the key's record and the routing snapshot.
  "a cold call": { kvReads: 2, rpcs: 2, rowsWritten: 6, alarmsSet: 1, subrequests: 1 },
  // KV knows nothing either: `findKey`, the snapshot from D1, the record written for the next isolate; the alarm is set
  // for the hold's expiry first.
  "the first call of all": {
    kvReads: 2,
    kvWrites: 1,
    d1Statements: 6,
    rpcs: 3,
    rowsWritten: 6,
    alarmsSet: 2,
    subrequests: 1,
  },
  // `admit` says no and writes nothing. The alarm is set for the message that tells of the refusals of the next
  // seconds.
  "a refusal (429)": { rpcs: 1, alarmsSet: 1 },
  "a call that costs nothing (models)": { rpcs: 1 },
  "a call that costs nothing (account)": { rpcs: 1 },
  // Whether its key is live is asked before anything is said of what is wrong; that question tells of the refusal too.
  "a call that is wrong (400)": { rpcs: 1, alarmsSet: 1 },
  // Its tag is computed, nothing is asked.
  "a forged key": {},
  // A key with a true tag that the object does not have: KV, then the object; its "no" is remembered for a moment.
  "an unknown key": { kvReads: 1, rpcs: 1 },
  "an unknown key again": {},
} satisfies Record<string, Partial<Counts>>;

/**
 * What follows calls that were over within half a second: the alarm ships in one message, the consumer counts, books
 * and confirms.
 */
const CEILING_AFTER = {
  "one call": { rpcs: 1, rowsWritten: 3, alarmsSet: 3, queueMessages: 1, d1Statements: 5 },
  "20 calls": { rpcs: 1, rowsWritten: 22, alarmsSet: 3, queueMessages: 1, d1Statements: 5 },
} satisfies Record<string, Partial<Counts>>;

const ANSWER = {
  id: "c1",
  object: "chat.completion",
  choices: [{ index: 0, message: { role: "assistant", content: "hi" }, finish_reason: "stop" }],
  usage: { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 },
};
const frame = (value: unknown) => `data: ${JSON.stringify(value)}\n\n`;
const STREAM = [
  frame({ id: "c1", choices: [{ index: 0, delta: { content: "hi" }, finish_reason: "stop" }] }),
  frame({ id: "c1", choices: [], usage: ANSWER.usage }),
  "data: [DONE]\n\n",
].join("");

const upstream = (request: Request): Response =>
  request.headers.get("accept") === "text/event-stream"
    ? new Response(STREAM, { headers: { "content-type": "text/event-stream" } })
    : Response.json(ANSWER);

let counter: Counter;
let tick: (byMs: number) => void;
let number: number;
let key: string;
let tenants = 0;

/** Limits at every level, so that each is checked. */
const LIMITS = { rpm_limit: 1000, tpm_limit: 1_000_000, rpd_limit: 10_000, max_parallel_requests: 100, max_budget: 5 };

beforeAll(async () => {
  tick = fakeClock();
  await done("PUT", "/upstreams/counts", { base_url: "https://counts.test", api_key: "k" });
  await done("PUT", "/models/counts", {
    kind: "chat",
    prices: { input_tokens: { cost_usd: 1 }, output_tokens: { cost_usd: 1 } },
    max_output_tokens: 100,
    upstream: "counts",
  });
  await settled();
});
beforeEach(async () => {
  const account = `counts-${++tenants}`;
  number = (await done("POST", "/accounts", { id: account, name: account, balance_usd: 10, ...LIMITS })).number;
  const team = await done("POST", `/accounts/${account}/teams`, { name: "t", ...LIMITS });
  key = (await done("POST", `/accounts/${account}/keys`, { name: "k", team: team.id, ...LIMITS })).key;
  await settled();
  // The alerts of what was just made are not what a call leads to.
  await runInDurableObject(objectOf(number), (_, { storage }) => {
    storage.sql.exec("DELETE FROM outbox");
  });
  counter = new Counter(upstream);
  await counter.watch(objectOf(number));
});
afterEach(() => {
  vi.restoreAllMocks();
});
afterAll(async () => {
  vi.useRealTimers();
  await settled();
});

const objectOf = (account: number) => env.ACCOUNTS.getByName(String(account));

const chat = (fields: Record<string, unknown> = {}, sent = key) =>
  new Request("http://gateway.test/v1/chat/completions", {
    method: "POST",
    headers: { authorization: `Bearer ${sent}`, "content-type": "application/json" },
    body: JSON.stringify({ model: "counts", messages: [{ role: "user", content: "hello" }], ...fields }),
  });

/** What one request makes others do. */
async function countOf(request: Request, status: number, to: Worker = worker as unknown as Worker): Promise<Counts> {
  counter.restart();
  const answer = await counter.call(to, request);
  expect(answer.status, answer.text).toBe(status);
  return counter.counts();
}

/** A Worker whose isolate has just begun: what it remembers of keys and routes is empty. */
async function coldWorker(): Promise<Worker> {
  const opened = await readSecrets(env);
  if (!opened.ok) throw new Error(opened.fault.message);
  const app = createApp();
  const edge = newEdgeState();
  return {
    fetch(request, values, context) {
      const ports = openPorts(values, context, opened.secrets);
      const parts = {
        kv: values.EDGE,
        books: values.BOOKS,
        findKey: (account: AccountNumber, digest: KeyDigest) => accountObject(values, account).findKey(digest),
        now: ports.now,
        waitUntil: ports.waitUntil,
        log: ports.log,
      };
      const cold = { ...ports, directory: openDirectory(parts, edge) };
      return app.fetch(request as never, { ...values, ports: cold }, context) as never;
    },
  };
}

function expectWithin(counts: Counts, ceiling: Partial<Counts>): void {
  const over = Object.entries(counts).filter(([name, count]) => count > (ceiling[name as keyof Counts] ?? 0));
  expect(Object.fromEntries(over), `more than ${JSON.stringify(ceiling)}`).toEqual({});
}

describe("a call makes others do no more than", () => {
  const ask = { include_usage: true };
  it.each<[keyof typeof CEILING, Record<string, unknown>]>([
    ["a warm call", {}],
    ["a warm stream, usage asked for", { stream: true, stream_options: ask }],
    ["a warm stream, usage not asked for", { stream: true }],
  ])("%s", async (name, fields) => {
    await countOf(chat(fields), 200);
    tick(600);
    await runDurableObjectAlarm(objectOf(number));
    expectWithin(await countOf(chat(fields), 200), CEILING[name]);
  });

  it("a cold call: at most two reads of KV and one call of the object before the upstream is asked", async () => {
    // Another isolate has brought the key's record and the snapshot to KV.
    await countOf(chat(), 200);
    expectWithin(await countOf(chat(), 200, await coldWorker()), CEILING["a cold call"]);
    expect(counter.beforeUpstream).toMatchObject({ kvReads: 2, kvWrites: 0, d1Statements: 0, rpcs: 1 });
  });

  it("the first call of all", async () => {
    for (const { name } of (await env.EDGE.list()).keys) await env.EDGE.delete(name);
    expectWithin(await countOf(chat(), 200, await coldWorker()), CEILING["the first call of all"]);
  });

  it("a refusal (429)", async () => {
    const account = `counts-${tenants}`;
    const { key: limited } = await done("POST", `/accounts/${account}/keys`, { name: "l", rpm_limit: 1 });
    await settled();
    await countOf(chat({}, limited), 200);
    expectWithin(await countOf(chat({}, limited), 429), CEILING["a refusal (429)"]);
  });

  it("a call that costs nothing (models)", async () => {
    await countOf(chat(), 200);
    const request = new Request("http://gateway.test/v1/models", { headers: { authorization: `Bearer ${key}` } });
    expectWithin(await countOf(request, 200), CEILING["a call that costs nothing (models)"]);
  });

  it("a call that costs nothing (account)", async () => {
    await countOf(chat(), 200);
    const request = new Request("http://gateway.test/account", { headers: { authorization: `Bearer ${key}` } });
    expectWithin(await countOf(request, 200), CEILING["a call that costs nothing (account)"]);
  });

  it("a call that is wrong (400)", async () => {
    await countOf(chat(), 200);
    expectWithin(await countOf(chat({ messages: 1 }), 400), CEILING["a call that is wrong (400)"]);
  });

  it("a forged key", async () => {
    const forged = `${key.slice(0, -1)}${key.endsWith("a") ? "b" : "a"}`;
    expectWithin(await countOf(chat({}, forged), 401), CEILING["a forged key"]);
  });

  it("an unknown key, and the same again", async () => {
    const secrets = await readSecrets(env);
    if (!secrets.ok) throw new Error(secrets.fault.message);
    const { text } = await secrets.secrets.newKey(asId<AccountNumber>(number));
    expectWithin(await countOf(chat({}, text), 401), CEILING["an unknown key"]);
    expectWithin(await countOf(chat({}, text), 401), CEILING["an unknown key again"]);
  });
});

/**
 * Each call of a hot key with leases, where a report carries eighty. The targets are 0.02 RPCs and 2.2 rows: the
 * ledger's entry and the event, and of each report some rows of its leases, which have the ids of the ended calls.
 */
const CEILING_HOT = { rpcs: 0.02, rowsWritten: 2.2, alarmsSet: 0.04, queueMessages: 0, subrequests: 1 };

describe("a hot key's call with leases makes others do no more than", () => {
  it("its share of a report", async () => {
    Object.assign(counter.env, { LEASES: "on" });
    const account = `counts-${tenants}`;
    await done("PATCH", `/accounts/${account}`, { rpm_limit: null, tpm_limit: null, max_parallel_requests: null });
    const hot = (await done("POST", `/accounts/${account}/keys`, { name: "hot" })).key;
    await settled();
    const behind: Promise<void>[] = [];
    const call = async () => {
      const context = createExecutionContext();
      const answer = await (worker as unknown as Worker).fetch(chat({}, hot) as never, counter.env, context);
      expect(answer.status).toBe(200);
      await answer.text();
      behind.push(waitOnExecutionContext(context));
    };
    const quarters = async (count: number) => {
      for (let quarter = 0; quarter < count; quarter++) {
        for (let calls = 0; calls < 80; calls++) await call();
        tick(250);
        await new Promise((resume) => setTimeout(resume, 300));
      }
    };
    await quarters(3);
    counter.restart();
    await quarters(4);
    const counts = counter.counts();
    const each = Object.fromEntries(Object.entries(counts).map(([name, count]) => [name, count / 320]));
    expectWithin(each as unknown as Counts, CEILING_HOT);
    tick(2_000);
    await Promise.all(behind);
  });
});

describe("what follows calls is no more than", () => {
  it.each<[keyof typeof CEILING_AFTER, number]>([
    ["one call", 1],
    ["20 calls", 20],
  ])("for %s", async (name, calls) => {
    for (let call = 0; call < calls; call++) await countOf(chat(), 200);
    counter.restart();
    tick(600);
    await runDurableObjectAlarm(objectOf(number));
    const batch = createMessageBatch(
      "tollgate-usage",
      counter.messages.map((body, index) => ({ id: `m${index}`, timestamp: new Date(), attempts: 1, body })),
    );
    await consumeUsage(batch, counter.env);
    await getQueueResult(batch, createExecutionContext());
    expectWithin(counter.counts(), CEILING_AFTER[name]);
    expect((await accountObject(env, asId<AccountNumber>(number)).audit())?.problems).toEqual([]);
  });
});
