import { createExecutionContext, reset, waitOnExecutionContext } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, describe, expect, it, vi } from "vitest";
import { type AccountId, type AccountNumber, asId, type KeyDigest, type KeyId } from "../../src/core/ids.ts";
import { DEFAULT_TIMEOUTS } from "../../src/core/routing/routes.ts";
import type { LogLine } from "../../src/gateway/ports.ts";
import { putAlias } from "../../src/platform/d1/aliases.ts";
import { putModel } from "../../src/platform/d1/models.ts";
import { putUpstream } from "../../src/platform/d1/upstreams.ts";
import { type DirectoryParts, newEdgeState, openDirectory } from "../../src/platform/edge/directory.ts";
import { republish } from "../../src/platform/edge/routing-cache.ts";
import { migrate } from "../support/worker/empty.ts";
import { allowedMs } from "../support/worker/slowness.ts";

const NUMBER = asId<AccountNumber>(7);
const DIGEST = asId<KeyDigest>("d".repeat(64));
const FOUND = { account: asId<AccountId>("acme"), keyId: asId<KeyId>("key_1") };

/** What the tests left running is waited for before the storage is emptied. */
const opened: ExecutionContext[] = [];

/** One isolate: its own memory, over the same KV and D1 as the others, at a clock that the test moves. */
function isolate(changes: Partial<DirectoryParts> = {}) {
  const ctx = createExecutionContext();
  const clock = { ms: 1_000_000_000_000 };
  const lines: LogLine[] = [];
  const findKey = vi.fn<DirectoryParts["findKey"]>(async () => FOUND);
  const kvGet = vi.spyOn(env.EDGE, "get");
  const prepare = vi.spyOn(env.BOOKS, "prepare");
  const parts: DirectoryParts = {
    kv: env.EDGE,
    books: env.BOOKS,
    findKey,
    now: () => clock.ms,
    waitUntil: (work) => ctx.waitUntil(work),
    log: (line) => lines.push(line),
    ...changes,
  };
  const directory = openDirectory(parts, newEdgeState());
  opened.push(ctx);
  return { directory, parts, clock, lines, findKey, kvGet, prepare, settled: () => waitOnExecutionContext(ctx) };
}

/** A binding of which some methods answer otherwise. */
const altered = <T extends object>(binding: T, changes: object): T =>
  new Proxy(binding, {
    get(target, name) {
      if (Object.hasOwn(changes, name)) return Reflect.get(changes, name);
      const value = Reflect.get(target, name);
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
const down = async (): Promise<never> => {
  throw new Error("unavailable");
};
const brokenKv = () => altered(env.EDGE, { get: down, put: down, delete: down });
const brokenBooks = () =>
  altered(env.BOOKS, { prepare: () => ({ bind: down, first: down, all: down, run: down }), batch: down });

const upstream = (id: string) =>
  putUpstream(
    env.BOOKS,
    {
      id,
      baseUrl: "https://inference.example",
      region: null,
      shared: false,
      sealedApiKey: "v1.x.y",
      timeouts: DEFAULT_TIMEOUTS,
    },
    1,
  );
const model = (name: string, fromMs: number, cost: number) =>
  putModel(
    env.BOOKS,
    { model: name, kind: "chat", upstream: "main", maxOutputTokens: 100 },
    { fromMs, costNanoUsd: { input_tokens: cost }, priceNanoUsd: {}, free: false },
    1,
  );

afterEach(async () => {
  for (const ctx of opened.splice(0)) await waitOnExecutionContext(ctx);
  vi.restoreAllMocks();
  await reset();
  await migrate();
});

describe("callers", () => {
  it("a key unknown to KV is found in its account's object, and KV learns it", async () => {
    const here = isolate();
    expect(await here.directory.findCaller(NUMBER, DIGEST)).toEqual({
      account: "acme",
      number: 7,
      keyId: "key_1",
      digest: DIGEST,
    });
    await here.settled();
    const elsewhere = isolate();
    expect(await elsewhere.directory.findCaller(NUMBER, DIGEST)).toMatchObject({ account: "acme" });
    expect(elsewhere.findKey).not.toHaveBeenCalled();
  });

  it("a warm key reads neither KV nor the object for 30 s, and KV after that", async () => {
    const here = isolate();
    await here.directory.findCaller(NUMBER, DIGEST);
    await here.settled();
    here.kvGet.mockClear();
    here.clock.ms += 29_999;
    await here.directory.findCaller(NUMBER, DIGEST);
    expect(here.kvGet).not.toHaveBeenCalled();
    here.clock.ms += 1;
    await here.directory.findCaller(NUMBER, DIGEST);
    expect(here.kvGet).toHaveBeenCalledTimes(1);
    expect(here.findKey).toHaveBeenCalledTimes(1);
  });

  it("a new key works at once though KV goes on remembering that it is not there", async () => {
    const here = isolate({ kv: altered(env.EDGE, { get: async () => null }) });
    here.findKey.mockResolvedValueOnce(undefined);
    expect(await here.directory.findCaller(NUMBER, DIGEST)).toBeUndefined();
    const elsewhere = isolate({ kv: altered(env.EDGE, { get: async () => null }) });
    expect(await elsewhere.directory.findCaller(NUMBER, DIGEST)).toMatchObject({ keyId: "key_1" });
    here.clock.ms += 1_500;
    expect(await here.directory.findCaller(NUMBER, DIGEST)).toMatchObject({ keyId: "key_1" });
  });

  it("an unknown key asks its object once in 1.5 s", async () => {
    const here = isolate();
    here.findKey.mockResolvedValue(undefined);
    for (let call = 0; call < 5; call++) expect(await here.directory.findCaller(NUMBER, DIGEST)).toBeUndefined();
    expect(here.findKey).toHaveBeenCalledTimes(1);
  });

  it("KV failing fails no call", async () => {
    const here = isolate({ kv: brokenKv() });
    expect(await here.directory.findCaller(NUMBER, DIGEST)).toMatchObject({ account: "acme" });
    await here.settled();
    expect(here.lines.map((line) => line.event)).toEqual(["edge_key_unreadable", "edge_key_not_written"]);
  });

  it("an object that cannot be asked rejects and is not taken for an unknown key", async () => {
    const here = isolate();
    here.findKey.mockRejectedValueOnce(new Error("object unreachable"));
    await expect(here.directory.findCaller(NUMBER, DIGEST)).rejects.toThrow("object unreachable");
    expect(await here.directory.findCaller(NUMBER, DIGEST)).toMatchObject({ account: "acme" });
  });

  it("a record of another account's number under this digest is passed over", async () => {
    await env.EDGE.put(`key:${DIGEST}`, JSON.stringify({ account: "other", number: 8, keyId: "key_9" }));
    const here = isolate();
    expect(await here.directory.findCaller(NUMBER, DIGEST)).toMatchObject({ account: "acme", number: 7 });
    await here.settled();
  });

  it("dropped keys leave the isolate and KV", async () => {
    const here = isolate();
    await env.EDGE.put(`key:${DIGEST}`, JSON.stringify({ ...FOUND, number: NUMBER }));
    await here.directory.findCaller(NUMBER, DIGEST);
    here.directory.keysDropped([DIGEST]);
    await here.settled();
    here.findKey.mockResolvedValue(undefined);
    expect(await env.EDGE.get(`key:${DIGEST}`)).toBeNull();
    expect(await here.directory.findCaller(NUMBER, DIGEST)).toBeUndefined();
  });
});

describe("routing", () => {
  it("what one isolate changed it uses at once, and another from KV", async () => {
    await upstream("main");
    const here = isolate();
    await here.directory.routingChanged();
    expect(Object.keys((await here.directory.routing()).upstreams)).toEqual(["main"]);
    await here.settled();
    const elsewhere = isolate();
    elsewhere.prepare.mockClear();
    expect(Object.keys((await elsewhere.directory.routing()).upstreams)).toEqual(["main"]);
    expect(elsewhere.prepare).not.toHaveBeenCalled();
  });

  it("with KV empty the snapshot comes from the books", async () => {
    await upstream("main");
    const here = isolate();
    expect(Object.keys((await here.directory.routing()).upstreams)).toEqual(["main"]);
  });

  it("a warm snapshot reads nothing for 10 s, is renewed behind a call up to 20 s, and before it later", async () => {
    const here = isolate();
    await here.directory.routing();
    here.kvGet.mockClear();
    here.prepare.mockClear();
    here.clock.ms += 9_999;
    await here.directory.routing();
    expect(here.kvGet).not.toHaveBeenCalled();
    expect(here.prepare).not.toHaveBeenCalled();

    await upstream("main");
    await republish(here.parts);
    here.clock.ms += 1;
    expect((await here.directory.routing()).upstreams).toEqual({});
    await here.settled();
    expect(Object.keys((await here.directory.routing()).upstreams)).toEqual(["main"]);

    await upstream("second");
    await republish(here.parts);
    here.clock.ms += 20_000;
    expect(Object.keys((await here.directory.routing()).upstreams)).toEqual(["main", "second"]);
  });

  it("a hundred calls at a cold isolate read KV once", async () => {
    const here = isolate();
    await Promise.all(Array.from({ length: 100 }, () => here.directory.routing()));
    expect(here.kvGet).toHaveBeenCalledTimes(1);
  });

  it("a stale KV does not take a newer snapshot away", async () => {
    const here = isolate();
    await republish(here.parts);
    const stale = await env.EDGE.get("routing");
    await upstream("main");
    await here.directory.routingChanged();
    await here.settled();
    await env.EDGE.put("routing", stale ?? "");
    here.clock.ms += 60_000;
    expect(Object.keys((await here.directory.routing()).upstreams)).toEqual(["main"]);
  });

  it("KV failing fails no call; with D1 failing too the snapshot serves for 90 s, then calls are refused as an outage", async () => {
    await upstream("main");
    const broken = { value: false };
    const here = isolate({
      kv: brokenKv(),
      books: altered(env.BOOKS, {
        batch: (statements: D1PreparedStatement[]) => (broken.value ? down() : env.BOOKS.batch(statements)),
      }),
    });
    expect(Object.keys((await here.directory.routing()).upstreams)).toEqual(["main"]);
    broken.value = true;
    here.clock.ms += 89_999;
    expect(Object.keys((await here.directory.routing()).upstreams)).toEqual(["main"]);
    here.clock.ms += 1;
    await expect(here.directory.routing()).rejects.toThrow("unavailable");
  });

  const lookUps = ({ prepare }: Pick<ReturnType<typeof isolate>, "prepare">) =>
    prepare.mock.calls.filter(([sql]) => sql === "select version from routing_version").length;

  it("a name that the snapshot lacks is looked up in the books, though KV be stale", async () => {
    const here = isolate();
    await here.directory.routing();
    await upstream("main");
    await model("llama", 5, 10);
    const [one, two] = await Promise.all([here.directory.refresh("acme"), here.directory.refresh("acme")]);
    expect(Object.keys(one.models)).toEqual(["llama"]);
    expect(two).toBe(one);
  });

  it("5,000 made-up names of five accounts make one D1 read a second, and none of them waits longer than that", async () => {
    const here = isolate();
    await here.directory.routing();
    here.prepare.mockClear();
    const flood = (accounts: number) =>
      Array.from({ length: 1_000 }, () => here.directory.refresh(`account-${accounts}`));
    const sinceMs = performance.now();
    await Promise.all([0, 1, 2, 3, 4].flatMap(flood));
    const waitedMs = performance.now() - sinceMs;
    // The clock has not moved: what came after the first look-up waited for one more, all of it for the same.
    expect(here.prepare).toHaveBeenCalledTimes(lookUps(here));
    expect(lookUps(here)).toBeLessThanOrEqual(2);
    // Each of them is told at once from now on, until the second is over.
    const againMs = performance.now();
    for (const account of [0, 1, 2, 3, 4]) await Promise.all(flood(account));
    const againWaitedMs = performance.now() - againMs;
    expect(lookUps(here)).toBeLessThanOrEqual(2);
    here.clock.ms += 1_000;
    await Promise.all(flood(0));
    expect(lookUps(here)).toBeLessThanOrEqual(3);
    // Asked last, as this reads from the books too.
    expect(waitedMs).toBeLessThan(await allowedMs(2_500));
    expect(againWaitedMs).toBeLessThan(await allowedMs(500));
  });

  it("in a second that another account's made-up names have used up, a name that was just made is still found", async () => {
    const here = isolate();
    await here.directory.routing();
    await here.directory.refresh("hostile");
    await upstream("main");
    await model("llama", 5, 10);
    const [hostile, ...others] = await Promise.all(
      ["hostile", "acme", "other"].map((account) => here.directory.refresh(account)),
    );
    // The one that has just asked in vain is answered from what is known.
    expect(hostile?.models).toEqual({});
    for (const found of others) expect(Object.keys(found.models)).toEqual(["llama"]);
    // Who asked with success may ask again.
    await model("mistral", 5, 10);
    expect(Object.keys((await here.directory.refresh("acme")).models)).toEqual(["llama", "mistral"]);
  });

  it("a look-up that failed is an outage to all who share it, and the next second asks again", async () => {
    const broken = { value: true };
    const here = isolate({
      books: altered(env.BOOKS, {
        prepare: (sql: string) => (broken.value ? { first: down } : env.BOOKS.prepare(sql)),
      }),
    });
    await expect(here.directory.refresh("acme")).rejects.toThrow("unavailable");
    broken.value = false;
    await expect(here.directory.refresh("other")).rejects.toThrow("unavailable");
    here.clock.ms += 1_000;
    expect(await here.directory.refresh("acme")).toMatchObject({ models: {} });
  });

  it("a clock that was set back stops no look-up for longer than a second", async () => {
    const here = isolate();
    await here.directory.routing();
    await here.directory.refresh("other");
    here.clock.ms -= 3_600_000;
    await upstream("main");
    expect(Object.keys((await here.directory.refresh("acme")).upstreams)).toEqual(["main"]);
  });

  it("a name that nobody made costs one row, and the snapshot stays", async () => {
    const here = isolate();
    const before = await here.directory.routing();
    here.prepare.mockClear();
    expect(await here.directory.refresh("acme")).toBe(before);
    expect(here.prepare).toHaveBeenCalledTimes(1);
  });

  it("books that cannot be asked are not taken for an unknown name", async () => {
    const here = isolate({ books: brokenBooks() });
    await expect(here.directory.refresh("llama")).rejects.toThrow("unavailable");
  });

  it("many changes in a row are one KV write a second, and the last one is in it", async () => {
    const puts: string[] = [];
    const kv = altered(env.EDGE, {
      put: async (key: string, value: string) => {
        puts.push(value);
        await env.EDGE.put(key, value);
      },
    });
    const here = isolate({ kv, now: () => Date.now() });
    for (let change = 0; change < 8; change++) {
      await upstream(`up-${change}`);
      await here.directory.routingChanged();
    }
    await here.settled();
    expect(puts.length).toBeLessThanOrEqual(3);
    expect(Object.keys(JSON.parse(puts.at(-1) ?? "").upstreams)).toHaveLength(8);
  });

  it("two isolates that write at once do not leave the older snapshot standing", async () => {
    const hold: { release?: () => void } = {};
    const slowKv = altered(env.EDGE, {
      put: async (key: string, value: string) => {
        if (!hold.release) await new Promise<void>((resolve) => Object.assign(hold, { release: resolve }));
        await env.EDGE.put(key, value);
      },
    });
    const slow = isolate({ kv: slowKv, now: () => Date.now() });
    await upstream("first");
    await slow.directory.routingChanged();
    await vi.waitFor(() => expect(hold.release).toBeDefined(), { timeout: 20_000 });
    const quick = isolate({ now: () => Date.now() });
    await upstream("second");
    await quick.directory.routingChanged();
    await quick.settled();
    hold.release?.();
    await slow.settled();
    const standing = JSON.parse((await env.EDGE.get("routing")) ?? "");
    expect(Object.keys(standing.upstreams)).toEqual(["first", "second"]);
  });

  it("a publication that was lost is made up for by the scheduled run, after a restored backup too", async () => {
    const here = isolate();
    await upstream("main");
    expect(await republish(here.parts)).toBe("published");
    expect(await republish(here.parts)).toBe("unchanged");
    await env.BOOKS.prepare("update routing_version set version = 3").run();
    const elsewhere = isolate();
    await elsewhere.directory.routing();
    await env.BOOKS.prepare("delete from upstreams").run();
    await env.BOOKS.prepare("update routing_version set version = 3").run();
    expect(await republish(here.parts)).toBe("published");
    elsewhere.clock.ms += 30_000;
    expect((await elsewhere.directory.routing()).upstreams).toEqual({});
  });

  it("a snapshot has of each model the row that holds and those to come, newest first, and an account's own aliases", async () => {
    const here = isolate();
    await upstream("main");
    for (const fromMs of [10, 20, here.clock.ms + 1]) await model("llama", fromMs, fromMs);
    await model("soon", here.clock.ms + 5, 1);
    await putAlias(env.BOOKS, { alias: "chat", account: null, targets: [], retryOn: [] }, 1);
    await putAlias(env.BOOKS, { alias: "chat", account: FOUND.account, targets: [], retryOn: [500] }, 1);
    const snapshot = await here.directory.routing();
    expect(snapshot.models.llama?.map((row) => row.fromMs)).toEqual([here.clock.ms + 1, 20]);
    expect(snapshot.models.soon).toHaveLength(1);
    expect(Object.keys(snapshot.aliases).sort()).toEqual([" chat", "acme chat"]);
  });
});
