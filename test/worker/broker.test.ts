/** The broker of an upstream account for compute, over a made-up upstream behind `fetch`. */
import { evictDurableObject, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import type { ControlCall, Observation } from "../../src/core/compute/control.ts";
import { formatTag } from "../../src/core/compute/tag.ts";
import { type AccountNumber, asId, type CallId } from "../../src/core/ids.ts";
import { DEFAULT_TIMEOUTS } from "../../src/core/routing/routes.ts";
import { type ListingPorts, nextListMs, runDueLists } from "../../src/platform/broker/lists.ts";
import { BrokerTables } from "../../src/platform/broker/tables.ts";
import { putUpstream } from "../../src/platform/d1/upstreams.ts";
import { readSecrets } from "../../src/platform/secrets.ts";

const HOST = "https://compute-upstream.example";
const START = Date.UTC(2026, 10, 21);
const account = asId<AccountNumber>(7);
let uses = 0;
let upstream: string;
let answer: (request: Request) => Response | Promise<Response>;
let seen: Request[];

beforeEach(async () => {
  vi.useFakeTimers({ now: START, toFake: ["Date"] });
  upstream = `compute-${++uses}`;
  const secrets = await readSecrets(env);
  if (!secrets.ok) throw new Error(secrets.fault.message);
  const sealedApiKey = await secrets.secrets.seal(upstream, "operators-credential");
  const row = { id: upstream, baseUrl: HOST, region: null, shared: false, sealedApiKey, timeouts: DEFAULT_TIMEOUTS };
  await putUpstream(env.BOOKS, row, Date.now());
  seen = [];
  answer = () => Response.json({});
  vi.spyOn(globalThis, "fetch").mockImplementation(async (input, init) => {
    const request = new Request(input as RequestInfo, init);
    seen.push(request);
    return answer(request);
  });
});
afterEach(() => {
  vi.restoreAllMocks();
  vi.useRealTimers();
});

const broker = () => env.BROKERS.getByName(upstream);
const control = (some: Partial<ControlCall> = {}): ControlCall => ({
  account,
  callId: asId<CallId>("call-1"),
  cls: "call",
  method: "GET",
  path: "/gpu-instances/5",
  body: null,
  needsNanoUsd: null,
  terms: null,
  ...some,
});
const send = (some: Partial<ControlCall> = {}) => broker().send(upstream, control(some));

it("sends with the upstream's credential, and gives status and body back", async () => {
  answer = () => Response.json({ id: 5 }, { status: 202 });
  expect(await send({ method: "POST", path: "/gpu-instances", body: '{"a":1}' })).toEqual({
    kind: "answered",
    status: 202,
    body: '{"id":5}',
    sentAtMs: START,
  });
  expect(seen[0]?.url).toBe(`${HOST}/gpu-instances`);
  expect(seen[0]?.headers.get("authorization")).toBe("Bearer operators-credential");
});

it("shows of an error its text, without the credential and the host", async () => {
  answer = () => Response.json({ error: `no: operators-credential at ${HOST}`, cost: 3 }, { status: 400 });
  const answered = await send();
  expect(answered).toMatchObject({ kind: "answered", status: 400 });
  expect(JSON.stringify(answered)).not.toMatch(/operators-credential|compute-upstream|cost/);
});

it("49 stops a minute are sent, also over a restart of the object; the next is told when to come back, a list goes", async () => {
  for (let sent = 0; sent < 30; sent++) expect(await send({ cls: "stop" })).toMatchObject({ kind: "answered" });
  await evictDurableObject(broker());
  for (let sent = 0; sent < 19; sent++) expect(await send({ cls: "stop" })).toMatchObject({ kind: "answered" });
  expect(await send({ cls: "stop" })).toEqual({ kind: "not_sent", why: "budget", retryAfterMs: 60_000 });
  expect(seen).toHaveLength(49);
  expect(await broker().market(upstream, "gpus")).toMatchObject({ kind: "answered" });
  vi.setSystemTime(START + 60_000);
  expect(await send({ cls: "stop" })).toMatchObject({ kind: "answered" });
});

it("other calls leave 15 for stops, under 64 at once", async () => {
  const answers = await Promise.all(Array.from({ length: 64 }, () => send()));
  expect(answers.filter(({ kind }) => kind === "answered")).toHaveLength(40);
  expect(await send({ cls: "stop" })).toMatchObject({ kind: "answered" });
});

it("obeys the upstream's 429, but never for longer than a minute", async () => {
  answer = () => Response.json({ error: "slow down" }, { status: 429, headers: { "retry-after": "86400" } });
  expect(await send()).toMatchObject({ status: 429 });
  expect(await send({ cls: "stop" })).toEqual({ kind: "not_sent", why: "budget", retryAfterMs: 60_000 });
  expect(seen).toHaveLength(1);
  vi.setSystemTime(START + 60_000);
  answer = () => Response.json({});
  expect(await send({ cls: "stop" })).toMatchObject({ status: 200 });
});

it("a broken connection leaves it open whether the call was executed", async () => {
  answer = () => {
    throw new Error("Network connection lost.");
  };
  expect(await send({ cls: "stop", method: "POST", path: "/gpu-instances/5/terminate" })).toEqual({
    kind: "unknown",
    sentAtMs: START,
  });
});

it("an upstream that is gone from the books cannot be called", async () => {
  await env.BOOKS.prepare("delete from upstreams where id = ?1").bind(upstream).run();
  const gone = `gone-${uses}`;
  expect(await env.BROKERS.getByName(gone).send(gone, control())).toMatchObject({
    kind: "not_sent",
    why: "not_usable",
  });
  expect(seen).toEqual([]);
});

it("launches nothing that the upstream account cannot pay with two hours of what runs", async () => {
  const logged = vi.spyOn(console, "log").mockImplementation(() => undefined);
  const running = { id: 1, name: "by hand", status: "running", hourly_rate_usd: 2 };
  answer = (request) => {
    const { pathname } = new URL(request.url);
    if (pathname === "/billing/balance") return Response.json({ balance: 7.5, account_id: 1, bills_monthly: false });
    return Response.json(pathname === "/gpu-instances" && request.method === "GET" ? [running] : {});
  };
  await broker().reconcile(upstream);
  const launch = { cls: "create", method: "POST", path: "/gpu-instances", body: "{}" } as const;
  expect(await send({ ...launch, needsNanoUsd: 3_500_000_001 })).toMatchObject({ why: "upstream_balance" });
  expect(logged.mock.calls.join()).toContain("upstream_balance_low");
  expect(await send({ ...launch, needsNanoUsd: 3_500_000_000 })).toMatchObject({ kind: "answered" });
  // What was launched is taken off at once, before the balance is read again.
  expect(await send({ ...launch, needsNanoUsd: 1 })).toMatchObject({ why: "upstream_balance" });
  expect(await broker().view(upstream)).toMatchObject({
    balanceNanoUsd: 4_000_000_000,
    burnNanoUsdPerHour: 2_000_000_000,
    seen: [{ kind: "instance", upstreamId: 1, tag: "by hand", account: null }],
  });
});

it("asks the market once in 5 s, whoever asks", async () => {
  await Promise.all([1, 2, 3].map(() => broker().market(upstream, "gpus")));
  expect(seen).toHaveLength(1);
  vi.setSystemTime(START + 5_000);
  await broker().market(upstream, "gpus");
  expect(seen).toHaveLength(2);
});

const tag = (number: number, id: number) =>
  formatTag({ deployment: "abcdef", account: asId<AccountNumber>(number), id, random: "aaaaaa" });
const instance = (upstreamId: number, name: string, status: string) => ({ id: upstreamId, name, status });

const fresh = (document: unknown) => ({ document: JSON.stringify(document), sameUntilMs: null });

/** Lists that show `documents`, and what accounts were told of them. */
function listing(documents: unknown, failing: ReadonlySet<number> = new Set(), unknown: readonly string[] = []) {
  const told: (Observation & { account: number })[] = [];
  const asked: string[] = [];
  const ports: ListingPorts = {
    upstream,
    deployment: "abcdef",
    async list(path) {
      asked.push(path);
      return { kind: "answered", status: 200, body: JSON.stringify(documents), sentAtMs: Date.now() };
    },
    account: (number) => ({
      async observed(observation) {
        if (failing.has(number)) throw new Error("not reached");
        told.push({ account: number, ...observation });
        return unknown;
      },
    }),
    now: () => Date.now(),
  };
  return { ports, told, asked };
}

it("tells each account of its own, of what changed, and of what is in transition at every list", async () => {
  await runInDurableObject(broker(), async (_, { storage }) => {
    const tables = new BrokerTables(storage.sql);
    tables.watch(account, [{ kind: "instance", tags: [tag(7, 2), tag(7, 3)], inTransition: [tag(7, 2), tag(7, 3)] }]);
    tables.watch(asId<AccountNumber>(8), [{ kind: "instance", tags: [], inTransition: [] }]);
    const documents = [
      instance(1, tag(7, 1), "running"),
      instance(2, tag(7, 2), "pending"),
      instance(3, tag(8, 1), "running"),
      instance(4, "by hand", "running"),
      instance(5, tag(7, 1).replace("abcdef", "123456"), "running"),
    ];
    const first = listing(documents);
    await runDueLists(tables, first.ports);
    expect(first.asked).toEqual(["/gpu-instances"]);
    expect(first.told).toEqual([
      {
        account: 7,
        upstream,
        kind: "instance",
        documents: [fresh(documents[0]), fresh(documents[1])],
        absent: [{ tag: tag(7, 3), sameUntilMs: null }],
        askedAtMs: START,
      },
      {
        account: 8,
        upstream,
        kind: "instance",
        documents: [fresh(documents[2])],
        absent: [],
        askedAtMs: START,
      },
    ]);

    expect(nextListMs(tables)).toBe(START + 5_000);
    vi.setSystemTime(START + 5_000);
    const second = listing(documents);
    await runDueLists(tables, second.ports);
    const again = { document: JSON.stringify(documents[1]), sameUntilMs: START };
    expect(second.told).toMatchObject([
      { account: 7, documents: [again], absent: [{ tag: tag(7, 3), sameUntilMs: null }] },
    ]);
  });
});

it("at rest it lists once a minute, wakes nobody without a change, and not at all when nobody watches", async () => {
  await runInDurableObject(broker(), async (_, { storage }) => {
    const tables = new BrokerTables(storage.sql);
    expect(nextListMs(tables)).toBeNull();
    tables.watch(account, [{ kind: "instance", tags: [], inTransition: [] }]);
    const documents = [instance(1, tag(7, 1), "running")];
    await runDueLists(tables, listing(documents).ports);
    for (const laterMs of [5_000, 59_999]) {
      vi.setSystemTime(START + laterMs);
      const early = listing(documents);
      await runDueLists(tables, early.ports);
      expect(early.asked).toEqual([]);
    }
    vi.setSystemTime(START + 60_000);
    const quiet = listing(documents);
    await runDueLists(tables, quiet.ports);
    expect(quiet).toMatchObject({ asked: ["/gpu-instances"], told: [] });
    tables.watch(account, []);
    expect(nextListMs(tables)).toBeNull();
  });
});

it("reads a list of any length that tenants' scripts give it, and says of what it cannot read that it could not", async () => {
  const logged = vi.spyOn(console, "log").mockImplementation(() => undefined);
  const machine = { name: tag(7, 1), status: "running", init_script: "\u0001".repeat(40_000), startup_command: "x" };
  const list = JSON.stringify(Array.from({ length: 40 }, (_, index) => ({ id: index + 1, ...machine })));
  expect(list.length).toBeGreaterThan(8 * 1024 * 1024);
  answer = () => new Response(list);
  const fresh = await broker().fresh(upstream, "instance");
  expect(fresh.ok && fresh.seen.map(({ document }) => document)).toEqual(
    Array.from({ length: 40 }, (_, index) => JSON.stringify({ id: index + 1, name: machine.name, status: "running" })),
  );
  answer = () => new Response(`${list.slice(0, -1)},`);
  expect(await broker().fresh(upstream, "instance")).toEqual({ ok: false });
  const events = logged.mock.calls.map(([line]) => JSON.parse(String(line)));
  expect(events).toMatchObject([
    { event: "compute_answer_unreadable" },
    { event: "compute_list_failed", why: "unknown" },
  ]);
});

it("tells again what an account did not take", async () => {
  vi.spyOn(console, "log").mockImplementation(() => undefined);
  await runInDurableObject(broker(), async (_, { storage }) => {
    const tables = new BrokerTables(storage.sql);
    tables.watch(account, [{ kind: "instance", tags: [], inTransition: [] }]);
    const documents = [instance(1, tag(7, 1), "running")];
    const lost = listing(documents, new Set([7]));
    await runDueLists(tables, lost.ports);
    vi.setSystemTime(START + 60_000);
    const again = listing(documents);
    await runDueLists(tables, again.ports);
    expect([lost.told.length, again.told.length]).toEqual([0, 1]);
  });
});

it.each([
  ["no JSON", "<html>"],
  ["no list", { error: "?" }],
])("a list that is %s tells nobody anything", async (_, body) => {
  vi.spyOn(console, "log").mockImplementation(() => undefined);
  await runInDurableObject(broker(), async (_object, { storage }) => {
    const tables = new BrokerTables(storage.sql);
    tables.watch(account, [{ kind: "instance", tags: [tag(7, 1)], inTransition: [tag(7, 1)] }]);
    const { ports, told } = listing(body);
    await runDueLists(tables, ports);
    expect(told).toEqual([]);
  });
});
