import {
  createExecutionContext,
  createMessageBatch,
  getQueueResult,
  runDurableObjectAlarm,
  runInDurableObject,
} from "cloudflare:test";
import { env, exports } from "cloudflare:workers";
import { Webhook } from "standardwebhooks";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { Alert } from "../../src/core/alerts/alert.ts";
import { FAILING_LIFE_MS, MOST_WAITING, RETRY_AFTER_MS } from "../../src/core/alerts/retries.ts";
import { type AccountId, asId } from "../../src/core/ids.ts";
import { consumeUsage } from "../../src/platform/queue/usage.ts";
import { consumeWebhooks } from "../../src/platform/webhooks/deliver.ts";
import { queueDue, raise } from "../../src/platform/webhooks/raise.ts";
import { tellBooksSize } from "../../src/platform/webhooks/upkeep.ts";
import { fakeClock, fakeQueue, newAccount, request, settlement } from "../support/worker/account-support.ts";
import { call, done, type Json } from "../support/worker/operator.ts";

const DAY = 86_400_000;
const URL_OF = "https://hooks.example.com/alerts?x=1";

interface Received {
  readonly url: string;
  readonly headers: Headers;
  readonly body: string;
}

let advance: (byMs: number) => void;
let received: Received[];
/** What the next receivers do. */
let answer: (url: string, signal: AbortSignal) => Promise<Response> | Response;
/** Deliveries that were put into the queue, and how late they are to come. */
let queued: { delivery: number; delaySeconds: number }[];

const WEBHOOKS = {
  send: async (body: { delivery: number }, { delaySeconds = 0 } = {}) => {
    queued.push({ ...body, delaySeconds });
  },
  sendBatch: async (messages: Iterable<{ body: { delivery: number } }>) => {
    for (const { body } of messages) queued.push({ ...body, delaySeconds: 0 });
  },
} as unknown as Queue;
const values = { ...env, WEBHOOKS };

beforeEach(async () => {
  advance = fakeClock();
  received = [];
  queued = [];
  answer = () => new Response(null, { status: 204 });
  vi.spyOn(console, "log").mockImplementation(() => {});
  vi.spyOn(globalThis, "fetch").mockImplementation(async (input, init) => {
    const request = new Request(input as string, { ...init, signal: null });
    received.push({ url: request.url, headers: request.headers, body: await request.text() });
    expect(init).toMatchObject({ method: "POST", redirect: "manual" });
    return answer(request.url, init?.signal as AbortSignal);
  });
  await env.BOOKS.batch(
    ["webhooks", "alerts", "webhook_deliveries"].map((table) => env.BOOKS.prepare(`delete from ${table}`)),
  );
});
afterEach(() => {
  vi.restoreAllMocks();
  vi.useRealTimers();
});

const make = (events = ["balance.low"], url = URL_OF): Promise<Json> => done("POST", "/webhooks", { url, events });

let alerts = 0;
const alert = (some: Partial<Alert> = {}): Alert =>
  ({
    id: `evt_${++alerts}`,
    type: "balance.low",
    account: asId<AccountId>("acme"),
    atMs: Date.now(),
    data: { balance_usd: 1, threshold_usd: 2 },
    ...some,
  }) as Alert;
const tell = (some: Partial<Alert> = {}) => raise(values, [alert(some)], Date.now());

/** Tries these deliveries, in one batch. */
async function attempt(deliveries: readonly number[]): Promise<void> {
  const context = createExecutionContext();
  const batch = createMessageBatch(
    "tollgate-webhooks",
    deliveries.map((delivery, index) => ({ id: `m${index}`, timestamp: new Date(), attempts: 1, body: { delivery } })),
  );
  await consumeWebhooks(batch, values);
  await getQueueResult(batch, context);
}
/** Tries what is in the queue, and what comes of that without a wait. */
async function drain(): Promise<void> {
  while (queued.some(({ delaySeconds }) => delaySeconds === 0)) {
    const now = queued.filter(({ delaySeconds }) => delaySeconds === 0);
    queued = queued.filter(({ delaySeconds }) => delaySeconds > 0);
    await attempt(now.map(({ delivery }) => delivery));
  }
}
const deliveriesOf = async (id: string): Promise<Json[]> => (await done("GET", `/webhooks/${id}/deliveries`)).data;

describe("a delivery", () => {
  it("is signed so that the package verifies it, and has no more in it than what happened", async () => {
    const { id, secret } = await make();
    await tell();
    await drain();
    const [{ url, headers, body }] = received as [Received];
    expect(url).toBe(URL_OF);
    // The library reads the true clock.
    vi.useRealTimers();
    const nowMs = Number(headers.get("webhook-timestamp")) * 1000;
    vi.spyOn(Date, "now").mockReturnValue(nowMs);
    const content = new Webhook(secret).verify(body, Object.fromEntries(headers));
    expect(content).toEqual({
      type: "balance.low",
      timestamp: expect.any(String),
      data: { account: "acme", balance_usd: 1, threshold_usd: 2 },
    });
    expect(() => new Webhook(secret).verify(`${body} `, Object.fromEntries(headers))).toThrow();
    expect(headers.get("webhook-id")).toMatch(/^evt_\d+$/);
    expect(await deliveriesOf(id)).toMatchObject([{ state: "delivered", attempts: 1, status: 204, problem: null }]);
  });

  it("is signed by both secrets for a day after a rotation", async () => {
    const { id, secret: old } = await make();
    const { secret } = await done("POST", `/webhooks/${id}/rotate`);
    expect(secret).not.toBe(old);
    const verified = async () => {
      await tell();
      await drain();
      const { headers, body } = received.at(-1) as Received;
      const nowMs = Number(headers.get("webhook-timestamp")) * 1000;
      const spy = vi.spyOn(Date, "now").mockReturnValue(nowMs);
      const by = [secret, old].map((one) => {
        try {
          return Boolean(new Webhook(one).verify(body, Object.fromEntries(headers)));
        } catch {
          return false;
        }
      });
      spy.mockRestore();
      return by;
    };
    expect(await verified()).toEqual([true, true]);
    advance(DAY);
    expect(await verified()).toEqual([true, false]);
    const row = await env.BOOKS.prepare("select secret, old_secret from webhooks").first<Record<string, string>>();
    expect(Object.values(row ?? {}).join()).not.toMatch(/whsec_/);
  });

  it("goes to who subscribed, once, however often the alert is written", async () => {
    const { id } = await make();
    await make(["balance.empty"]);
    const one = alert();
    await raise(values, [one], Date.now());
    await make();
    await raise(values, [one, one], Date.now());
    await drain();
    expect(received).toHaveLength(1);
    expect(await deliveriesOf(id)).toHaveLength(1);
  });
});

it("what an object finds comes to the operator alone: a call sold at a loss, a store that is 70 % full", async () => {
  const { id } = await make(["margin.negative", "store.filling"], "https://watch.example.com/");
  const { stub, number } = await newAccount({ balance: 10_000 });
  const tenants = {
    id: "wh_t",
    account: `acc-${number}`,
    url: URL_OF,
    events: JSON.stringify(["margin.negative", "store.filling"]),
  };
  await env.BOOKS.prepare(
    "insert into webhooks (id, account, url, events, secret, created_ms) values (?, ?, ?, ?, '', 0)",
  )
    .bind(...Object.values(tenants))
    .run();
  const queue = await fakeQueue(stub);
  await runInDurableObject(stub, (_, { storage }) => {
    Object.defineProperty(storage.sql, "databaseSize", { configurable: true, value: 7_000_000_000 });
  });
  await stub.admit(request("c1", 10));
  await stub.settle(settlement("c1", 10, { costNanoUsd: 99 }));
  for (let alarm = 0; alarm < 3; alarm++) {
    advance(2_000);
    await runInDurableObject(stub, (_, { storage }) => storage.setAlarm(Date.now()));
    await runDurableObjectAlarm(stub);
  }
  const messages = queue.messages.map((body, index) => ({ id: `u${index}`, timestamp: new Date(), attempts: 1, body }));
  await consumeUsage(createMessageBatch("tollgate-usage", messages), values);
  for (let run = 0; run < 2; run++) await tellBooksSize(values, 7_000_000_000, Date.now());
  await drain();
  expect(received.map(({ url, body }) => [url, JSON.parse(body)])).toMatchObject([
    [
      "https://watch.example.com/",
      { type: "margin.negative", data: { call: "c1", price_usd: 10e-9, cost_usd: 99e-9 } },
    ],
    ["https://watch.example.com/", { type: "store.filling", data: { store: "account", bytes: 7_000_000_000 } }],
    ["https://watch.example.com/", { type: "store.filling", data: { account: null, store: "d1" } }],
  ]);
  expect(await deliveriesOf(id)).toHaveLength(3);
});

describe("a receiver that fails", () => {
  it("is tried at the times of the schedule under one id, then given up", async () => {
    answer = () => new Response("no", { status: 500 });
    const { id } = await make();
    await tell();
    await drain();
    for (const waitMs of RETRY_AFTER_MS) {
      const [{ next_try_at }] = (await deliveriesOf(id)) as [Json];
      const inMs = Date.parse(next_try_at) - Date.now();
      expect(inMs).toBeGreaterThanOrEqual(waitMs);
      expect(inMs).toBeLessThanOrEqual(waitMs * 1.1 + 1);
      const { delivery } = (queued.shift() as { delivery: number } | undefined) ?? { delivery: 0 };
      const tries = received.length;
      // Neither early nor twice.
      if (delivery) await attempt([delivery, delivery]);
      expect(received).toHaveLength(tries);
      advance(inMs);
      if (delivery) await attempt([delivery, delivery]);
      else {
        await queueDue(values, Date.now());
        await drain();
      }
      expect(received).toHaveLength(tries + 1);
    }
    expect(await deliveriesOf(id)).toMatchObject([{ state: "failed", attempts: 10, status: 500, problem: "status" }]);
    expect(new Set(received.map(({ headers }) => headers.get("webhook-id"))).size).toBe(1);
    expect(queued).toEqual([]);
    expect(await done("GET", `/webhooks/${id}`)).toMatchObject({ enabled: true, failing_since: expect.any(String) });
  });

  it("is disabled by a 410 at once, and after five days of failures; the operator is told", async () => {
    const watched = await make(["webhook.disabled"], "https://watch.example.com/");
    const gone = await make();
    answer = (url) => new Response(null, { status: url === URL_OF ? 410 : 200 });
    await tell();
    await drain();
    expect(await done("GET", `/webhooks/${gone.id}`)).toMatchObject({ enabled: false, disabled_why: "gone" });
    const failing = await make(["balance.empty"]);
    answer = (url) => new Response(null, { status: url === URL_OF ? 503 : 200 });
    for (let days = 0; days <= 5; days++) {
      expect(await done("GET", `/webhooks/${failing.id}`)).toMatchObject({ enabled: true, disabled_why: null });
      await tell({ type: "balance.empty" });
      await drain();
      queued = [];
      advance(DAY);
    }
    expect(await done("GET", `/webhooks/${failing.id}`)).toMatchObject({ enabled: false, disabled_why: "failing" });
    expect(new Set((await deliveriesOf(failing.id)).map(({ state }) => state))).toEqual(new Set(["failed"]));
    const heard = received
      .filter(({ url }) => url.startsWith("https://watch"))
      .map(({ body }) => JSON.parse(body).data);
    expect(heard).toEqual([
      { account: null, webhook: gone.id, why: "gone" },
      { account: null, webhook: failing.id, why: "failing" },
    ]);
    expect(await deliveriesOf(watched.id)).toHaveLength(2);
    const tries = received.length;
    await tell({ type: "balance.empty" });
    await drain();
    expect(received).toHaveLength(tries);
    await done("PATCH", `/webhooks/${failing.id}`, { enabled: true });
    await tell({ type: "balance.empty" });
    await drain();
    expect(received).toHaveLength(tries + 1);
  });

  it("that succeeds again is not failing any more", async () => {
    const { id } = await make();
    answer = () => new Response(null, { status: 503 });
    await tell();
    await drain();
    expect((await done("GET", `/webhooks/${id}`)).failing_since).not.toBeNull();
    answer = () => new Response(null, { status: 200 });
    advance(6_000);
    await attempt([queued.shift()?.delivery ?? 0]);
    expect((await done("GET", `/webhooks/${id}`)).failing_since).toBeNull();
  });

  it("and is not asked for days has not failed all the time: it is disabled by tries, not by silence", async () => {
    const { id } = await make();
    answer = () => new Response(null, { status: 503 });
    await tell();
    await drain();
    queued = [];
    advance(FAILING_LIFE_MS + DAY);
    await env.BOOKS.prepare("update webhook_deliveries set state = 'failed'").run();
    await tell();
    await drain();
    expect(await done("GET", `/webhooks/${id}`)).toMatchObject({ enabled: true });
    expect(queued).toHaveLength(1);
    advance(4 * DAY);
    await done("PATCH", `/webhooks/${id}`, { url: "https://moved.example.com/" });
    expect(await done("GET", `/webhooks/${id}`)).toMatchObject({ failing_since: null });
  });

  it("is not followed elsewhere, and its answer's body is not read", async () => {
    const { id } = await make();
    const endless = new ReadableStream({ pull: (controller) => controller.enqueue(new Uint8Array(65_536)) });
    answer = () => new Response(endless, { status: 302, headers: { location: "http://169.254.169.254/" } });
    await tell();
    await drain();
    expect(received).toHaveLength(1);
    expect(await deliveriesOf(id)).toMatchObject([{ status: 302, problem: "redirect" }]);
  });

  it("and has many alerts is tried one by one with pauses, so that it holds up nobody else's", async () => {
    answer = (url) => new Response(null, { status: url === URL_OF ? 500 : 200 });
    await make();
    const other = await make(["balance.empty"], "https://other.example.com/");
    await tell();
    await drain();
    for (let one = 0; one < 8; one++) await tell();
    await tell({ type: "balance.empty" });
    await drain();
    expect(received.filter(({ url }) => url === URL_OF)).toHaveLength(1);
    expect(await deliveriesOf(other.id)).toMatchObject([{ state: "delivered" }]);
    expect(queued.filter(({ delaySeconds }) => delaySeconds >= 60)).toHaveLength(8);
    // Once it is back it gets them all, without their waits.
    answer = () => new Response(null, { status: 200 });
    advance(6_000);
    await attempt([queued.shift()?.delivery ?? 0]);
    await drain();
    expect(received.filter(({ url }) => url === URL_OF)).toHaveLength(10);
  });

  it("has a thousand deliveries waiting at most; what comes on top can be sent again", async () => {
    answer = () => new Response(null, { status: 500 });
    const { id } = await make();
    await tell();
    await drain();
    await raise(
      values,
      Array.from({ length: MOST_WAITING }, () => alert()),
      Date.now(),
    );
    await tell();
    expect((await deliveriesOf(id)).slice(0, 2)).toMatchObject([
      { state: "failed", problem: "too_many" },
      { state: "pending" },
    ]);
    // Those that wait come back as seldom as they can be served.
    queued = queued.slice(0, 5);
    const [first = 0] = queued.map(({ delivery }) => delivery);
    await attempt([first + 1, first + 2]);
    expect(queued.slice(5).map(({ delaySeconds }) => delaySeconds >= 3_600)).toEqual([]);
    const rows = await env.BOOKS.prepare("select next_ms from webhook_deliveries where seq > ?1 and next_ms > ?2")
      .bind(first, Date.now() + 3_500_000)
      .all();
    expect(rows.results).toHaveLength(2);
  });

  it("only answers slowly has pauses too", async () => {
    const { id } = await make();
    answer = async () => {
      advance(5_000);
      return new Response(null, { status: 200 });
    };
    await tell();
    await drain();
    await tell();
    await drain();
    expect(received).toHaveLength(1);
    advance(50_000);
    await tell();
    await drain();
    expect(received).toHaveLength(2);
    expect(await done("GET", `/webhooks/${id}`)).toMatchObject({ failing_since: null });
  });

  it("whose message was lost is queued again by the scheduled run", async () => {
    await make();
    await tell();
    queued = [];
    await queueDue(values, Date.now());
    expect(queued).toEqual([]);
    advance(121_000);
    await queueDue(values, Date.now());
    await drain();
    expect(received).toHaveLength(1);
  });
});

describe("the calls", () => {
  it("send again what was delivered, under its id, and test at once", async () => {
    const { id } = await make();
    await tell();
    await drain();
    const [{ id: delivery }] = (await deliveriesOf(id)) as [Json];
    expect(await done("POST", `/webhooks/${id}/deliveries/${delivery}/resend`)).toEqual({
      id: delivery,
      state: "pending",
    });
    expect(await call("POST", `/webhooks/${id}/deliveries/${delivery}/resend`)).toMatchObject({ status: 409 });
    expect(await call("POST", `/webhooks/${id}/deliveries/evt_none/resend`)).toMatchObject({ status: 404 });
    answer = () => new Response(null, { status: 418 });
    expect(await done("POST", `/webhooks/${id}/test`)).toMatchObject({ ok: false, status: 418, problem: "status" });
    expect(JSON.parse(received.at(-1)?.body ?? "")).toMatchObject({ type: "webhook.test", data: { webhook: id } });
  });

  it("refuse URLs that could reach inside, events that are none, and the gateway itself", async () => {
    const refused = [
      "http://hooks.example.com/",
      "https://hooks.example.com:8443/",
      "https://user:pass@hooks.example.com/",
      "https://8.8.8.8/",
      "https://[2606:4700::1111]/",
      "https://localhost/",
      "https://printer.local/",
      "https://gateway.test/admin/accounts",
      "ftp://hooks.example.com/",
      "hooks.example.com",
    ];
    for (const url of refused) {
      const { status, body } = await call("POST", "/webhooks", { url, events: ["balance.low"] });
      expect([url, status, body.error.param]).toEqual([url, 400, "url"]);
    }
    const { id } = await make();
    expect(await call("PATCH", `/webhooks/${id}`, { url: "https://127.0.0.1/" })).toMatchObject({ status: 400 });
    for (const events of [[], ["balance.high"], "balance.low"]) {
      expect((await call("POST", "/webhooks", { url: URL_OF, events })).status).toBe(400);
    }
  });
});

describe("an account's owners", () => {
  const tenant = async (method: string, path: string, key: string, body?: object) => {
    const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };
    const init = { method, headers, ...(body && { body: JSON.stringify(body) }) };
    const response = await exports.default.fetch(new Request(`http://gateway.test/account/webhooks${path}`, init));
    return { status: response.status, body: (await response.json()) as Json };
  };

  it("hear of their own account alone, of nothing of the operator's, and have five webhooks at most", async () => {
    vi.useRealTimers();
    const { id: account } = await done("POST", "/accounts", { name: "owners" });
    const { key } = await done("POST", `/accounts/${account}/keys`, { name: "o", role: "owner" });
    const { key: admin } = await done("POST", `/accounts/${account}/keys`, { name: "a", role: "admin" });
    const body = { url: URL_OF, events: ["balance.low"] };
    expect((await tenant("POST", "", admin, body)).status).toBe(403);
    expect((await tenant("GET", "", admin)).status).toBe(403);
    expect((await tenant("POST", "", key, { ...body, events: ["margin.negative"] })).status).toBe(400);
    const made = await tenant("POST", "", key, body);
    expect(made).toMatchObject({ status: 201, body: { secret: expect.stringMatching(/^whsec_/), enabled: true } });
    for (let more = 0; more < 4; more++) await tenant("POST", "", key, { ...body, events: ["balance.empty"] });
    expect(await tenant("POST", "", key, body)).toMatchObject({
      status: 409,
      body: { error: { code: "too_many_webhooks" } },
    });
    const operators = await make();
    expect((await tenant("GET", `/${operators.id}`, key)).status).toBe(404);
    expect((await call("GET", `/webhooks/${made.body.id}`)).status).toBe(404);
    await tell({ account: asId<AccountId>("somebody-else") });
    await tell({ account: asId<AccountId>(account) });
    await tell({ account: null as never });
    const { body: list } = await tenant("GET", `/${made.body.id}/deliveries`, key);
    expect(list.data).toMatchObject([{ type: "balance.low", state: "pending" }]);
    expect(await deliveriesOf(operators.id)).toHaveLength(3);
  });
});
