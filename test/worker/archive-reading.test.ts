/** What left for the archive is read there: the ledger's pages, calls with their proof, lists, exports, the audit. */
import { evictDurableObject, runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterAll, afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { timedCallId } from "../../src/core/account/call-time.ts";
import type { KeyDigest } from "../../src/core/ids.ts";
import { runScheduled } from "../../src/platform/queue/usage.ts";
import { readSecrets } from "../../src/platform/secrets.ts";
import { fakeQueue, request, row, rows, type Stub, settlement } from "../support/worker/account-support.ts";
import { DAY_MS, emptyArchive, withArchive } from "../support/worker/archive.ts";
import { type Answer, done, type Json, send, settled } from "../support/worker/operator.ts";
import { allowedMs } from "../support/worker/slowness.ts";
import { deliver, emptyUsage } from "../support/worker/usage-support.ts";

const HOUR = 3_600_000;
const START = Date.UTC(2031, 4, 10, 12);
const LIMITS = { ms: 27 * HOUR, bytes: 1e12 };
let nowMs = START;
const setTime = (ms: number) => {
  nowMs = ms;
  vi.setSystemTime(ms);
};

beforeEach(async () => {
  vi.useFakeTimers({ toFake: ["Date"] });
  setTime(START);
  vi.spyOn(console, "log").mockImplementation(() => {});
  await emptyUsage();
  await env.BOOKS.batch(
    ["delete from call_parts", "update usage_progress set archived_until_ms = 0"].map((sql) => env.BOOKS.prepare(sql)),
  );
  await emptyArchive();
});
afterEach(() => {
  vi.restoreAllMocks();
  vi.useRealTimers();
});
afterAll(settled);

const ask = (path: string, values: object = { ARCHIVE: env.TEST_ARCHIVE }): Promise<Answer> =>
  send(
    new Request(`http://gateway.test/admin${path}`, { headers: { authorization: `Bearer ${env.ADMIN_TOKEN}` } }),
    values as Partial<Env>,
  );
const read = async (path: string): Promise<Json> => {
  const answer = await ask(path);
  expect(answer.status, answer.text).toBe(200);
  return answer.body;
};

async function alarms(stub: Stub) {
  for (let count = 0; count < 60; count++) {
    const atMs = await runInDurableObject(stub, (_, { storage }) => storage.getAlarm());
    if (atMs === null || atMs > nowMs + 2_000) return;
    await runDurableObjectAlarm(stub);
    setTime(nowMs + 1_000);
  }
}

let made = 0;
/**
 * An account with `count` calls in each of two hours; all of it is in the archive, and left the object and the books.
 */
async function pastParty(count = 3) {
  const id = `past-${++made}`;
  const { number } = await done("POST", "/accounts", { id, name: "Secret Name", balance_usd: 5 });
  const key = await done("POST", `/accounts/${id}/keys`, { name: "Key Of Alice", role: "owner" });
  const opened = await readSecrets(env);
  if (!opened.ok) throw new Error(opened.fault.message);
  const keyDigest = (await opened.secrets.digestOf(key.key)) as KeyDigest;
  const stub = env.ACCOUNTS.getByName(String(number)) as Stub;
  const queue = await fakeQueue(stub);
  await withArchive(stub, env.TEST_ARCHIVE, LIMITS);
  const calls: string[] = [];
  for (let hour = 0; hour < 2; hour++) {
    setTime(START + hour * HOUR);
    for (let index = 0; index < count; index++) {
      const callId = timedCallId(crypto.randomUUID(), nowMs);
      const asked = request(callId, 10, {
        keyDigest,
        row: row({ model: index % 2 ? "m" : "n" }),
        model: index % 2 ? "m" : "n",
      });
      expect(await stub.admit(asked)).toMatchObject({ ok: true });
      setTime(nowMs + 1_000);
      await stub.settle(settlement(callId, 4));
      calls.push(callId);
    }
    setTime(START + (hour + 1) * HOUR);
    await alarms(stub);
  }
  await deliver(queue.messages);
  const before = {
    calls: await Promise.all(calls.map((call) => read(`/calls/${call}`))),
    ledger: (await read(`/accounts/${id}/ledger`)).data as Json[],
    statement: await read(`/accounts/${id}/statement?month=2031-05`),
    list: (await read(`/calls?account=${id}`)).data as Json[],
  };
  setTime(START + 3 * DAY_MS);
  await alarms(stub);
  setTime(nowMs + HOUR);
  await alarms(stub);
  await runScheduled({ ...env, ARCHIVE: env.TEST_ARCHIVE, USAGE_RETENTION_DAYS: "1" }, nowMs);
  expect((await rows(stub, "SELECT * FROM entries")).length).toBe(1);
  expect(await env.BOOKS.prepare("select count(*) as n from usage_events").first("n")).toBe(0);
  return { id, number: number as number, stub, calls, before };
}

async function pages(path: string): Promise<{ data: Json[]; sources: string[] }> {
  const data: Json[] = [];
  const sources: string[] = [];
  for (let cursor = ""; ; ) {
    const page = await read(`${path}${cursor && `&cursor=${cursor}`}`);
    data.push(...page.data);
    if (page.data.length > 0) sources.push(page.source);
    cursor = page.next_cursor ?? "";
    if (cursor === "") return { data, sources };
  }
}

describe("what left is read as before", () => {
  it("the ledger, page by page through both, and between two times", async () => {
    const { id, before, stub } = await pastParty();
    expect(await pages(`/accounts/${id}/ledger?limit=100`)).toEqual({
      data: before.ledger,
      sources: ["archive", "archive"],
    });
    for (const limit of [1, 2, 4]) {
      expect((await pages(`/accounts/${id}/ledger?limit=${limit}`)).data).toEqual(before.ledger);
    }
    await stub.credit({ kind: "top_up", amountNanoUsd: 5, reference: "new", note: null });
    const both = await pages(`/accounts/${id}/ledger?limit=100`);
    expect(both.sources).toEqual(["object", "archive", "archive"]);
    expect(both.data.slice(1)).toEqual(before.ledger);
    const [from, to] = [START + HOUR, START + HOUR + 2_500];
    const between = await pages(`/accounts/${id}/ledger?from=${from}&to=${to}&limit=100`);
    expect(between.data).toEqual(before.ledger.filter(({ at }) => Date.parse(at) >= from && Date.parse(at) < to));
    expect(between.data.length).toBe(2);
  });

  it("a call with its proof, in less than a second, and only with its own account", async () => {
    const { id, calls, before } = await pastParty();
    for (const [index, call] of calls.entries()) {
      const begunMs = performance.now();
      const found = await read(`/calls/${call}?account=${id}`);
      expect(performance.now() - begunMs).toBeLessThan(await allowedMs(1_000));
      expect(found).toEqual({ ...before.calls[index], proof: { ...before.calls[index].proof, source: "archive" } });
      expect(found.proof.ok).toBe(true);
    }
    expect((await ask(`/calls/${calls[0]}`)).status).toBe(404);
    const other = await done("POST", "/accounts", { id: `other-${made}`, name: "x" });
    expect((await ask(`/calls/${calls[0]}?account=${other.id}`)).status).toBe(404);
    expect((await ask(`/calls/${timedCallId(crypto.randomUUID(), START)}?account=${id}`)).status).toBe(404);
    expect((await ask(`/calls/${crypto.randomUUID()}?account=${id}`)).status).toBe(404);
  });

  it("a call of a day with very many parts, by few reads of the bucket, however many of them have corrections", async () => {
    const { id, number, calls, before } = await pastParty();
    // Eight parts an hour, as of 100 calls/s: each stands for one that has other calls.
    await env.BOOKS.prepare(
      `insert into call_parts with recursive later (i) as (values (1) union all select i + 1 from later where i < 380)
       select account, n + i, state, hour_ms + i / 8 * 3600000, from_row, through_row, after_ms, after_row,
         last_ms + (1 + i / 8) * 3600000, last_row, lines, 7, nano_usd, bytes, footer_bytes, blocks, sha256, etag
       from call_parts, later where account = ?1 and n = 2`,
    )
      .bind(number)
      .run();
    const folder = `calls/${number}/2031-05-10T13-`;
    const bytesOf = await (await env.TEST_ARCHIVE.get(`${folder}2.jsonl.gz`))!.arrayBuffer();
    for (let n = 3; n < 10; n++) await env.TEST_ARCHIVE.put(`${folder}${n}.jsonl.gz`, bytesOf);
    let [gets, bytes] = [0, 0];
    const get = (name: string, options: { range: { offset: number; length: number } }) => {
      gets += 1;
      bytes += options.range.length;
      return env.TEST_ARCHIVE.get(name, options);
    };
    const values = { ARCHIVE: { get } as unknown as R2Bucket };
    const found = await ask(`/calls/${calls[1]}?account=${id}`, values);
    expect(found.body).toEqual({ ...before.calls[1], proof: { ...before.calls[1].proof, source: "archive" } });
    // Some footers at once, the block of the call, and the block of its entry in the ledger.
    expect(gets).toBeLessThanOrEqual(8);
    expect(bytes).toBeLessThan(8_000);
  });

  it("lists of calls, by filter and page by page", async () => {
    const { id, before } = await pastParty(5);
    expect(await pages(`/calls?account=${id}&limit=100`)).toEqual({ data: before.list, sources: ["archive"] });
    expect((await pages(`/calls?account=${id}&limit=3`)).data).toEqual(before.list);
    const some = before.list.filter(({ model }) => model === "m");
    expect((await pages(`/calls?account=${id}&model=m&limit=2`)).data).toEqual(some);
    const from = START + HOUR;
    const late = before.list.filter(({ ended_at }) => Date.parse(ended_at) >= from);
    expect((await pages(`/calls?account=${id}&from=${from}`)).data).toEqual(late);
    expect((await pages(`/calls?account=${id}&to=${from}`)).data.length).toBe(5);
  });

  it("statements, to the nano-USD", async () => {
    const { id, before, stub } = await pastParty();
    expect(await read(`/accounts/${id}/statement?month=2031-05`)).toEqual(before.statement);
    await evictDurableObject(stub);
    expect(await read(`/accounts/${id}/statement?month=2031-05`)).toEqual(before.statement);
  });

  it("but not where an object was changed by hand: that is an error, and the audit says so", async () => {
    const { id, number, calls } = await pastParty();
    expect((await read(`/audit/${id}`)).problems).toEqual([]);
    const [ledger, called] = [`ledger/${number}/2031-05-10T12-1.jsonl.gz`, `calls/${number}/2031-05-10T12-1.jsonl.gz`];
    const whole = await (await env.TEST_ARCHIVE.get(ledger))!.arrayBuffer();
    await env.TEST_ARCHIVE.put(
      ledger,
      await (await env.TEST_ARCHIVE.get(ledger.replace("T12-1", "T13-2")))!.arrayBuffer(),
    );
    expect((await ask(`/accounts/${id}/ledger?cursor=4`)).status).toBe(503);
    expect(await read(`/audit/${id}`)).toMatchObject({ ok: false, problems: [expect.stringContaining(ledger)] });
    await env.TEST_ARCHIVE.put(ledger, whole);
    expect((await read(`/audit/${id}`)).ok).toBe(true);
    await env.TEST_ARCHIVE.delete(called);
    expect((await read(`/audit/${id}`)).problems).toEqual([expect.stringContaining(called)]);
    expect((await ask(`/calls/${calls[0]}?account=${id}`)).status).toBe(503);
    await env.TEST_ARCHIVE.put(`calls/${number}/2031-05-10T12-9.jsonl.gz`, "slipped in");
    expect((await read(`/audit/${id}`)).problems).toHaveLength(2);
  });
});

describe("an export", () => {
  const lines = (text: string): Json[] =>
    text
      .trimEnd()
      .split("\n")
      .map((line) => JSON.parse(line));

  it("has each line of the month's closed hours once, and goes on behind any of them", async () => {
    const { id, calls, before } = await pastParty(4);
    for (const kind of ["ledger", "calls"]) {
      const path = `/export?kind=${kind}&account=${id}&month=2031-05`;
      const answer = await ask(path);
      expect(answer.headers.get("content-type")).toBe("application/x-ndjson");
      const all = lines(answer.text);
      if (kind === "calls") expect(all.map((line) => line.event_id)).toEqual(calls);
      else expect(all.map((line) => line.id)).toEqual(before.ledger.map((entry) => entry.id).reverse());
      for (const [at, line] of all.entries()) {
        const rest = (await ask(`${path}&cursor=${line.cursor}`)).text;
        expect(rest === "" ? [] : lines(rest)).toEqual(all.slice(at + 1));
      }
      expect(answer.text).not.toMatch(/Secret Name|Alice/);
      const csv = (await ask(`${path}&format=csv`)).text.trimEnd().split("\r\n");
      expect(csv).toHaveLength(all.length + 1);
      expect(csv[0]?.startsWith("cursor,")).toBe(true);
    }
    expect((await ask(`/export?kind=ledger&account=${id}&month=2031-04`)).text).toBe("");
  });

  it("breaks off, and tells no other line, where a record lies or an object was changed", async () => {
    const { id, number } = await pastParty(4);
    const path = `/export?kind=calls&account=${id}&month=2031-05`;
    const whole = lines((await ask(path)).text);
    for (const lie of ["blocks = '[17]'", "blocks = '[999999999]'", "etag = 'x'", "hour_ms = hour_ms + 3600000"]) {
      const kept = await env.BOOKS.prepare("select blocks, etag, hour_ms from call_parts where account = ?1 and n = 2")
        .bind(number)
        .first<{ blocks: string; etag: string; hour_ms: number }>();
      await env.BOOKS.prepare(`update call_parts set ${lie} where account = ?1 and n = 2`).bind(number).run();
      await expect(ask(path), lie).rejects.toThrow("2031-05-10T1");
      expect((await read(`/audit/${id}`)).ok, lie).toBe(false);
      await env.BOOKS.prepare("update call_parts set blocks = ?2, etag = ?3, hour_ms = ?4 where account = ?1 and n = 2")
        .bind(number, kept!.blocks, kept!.etag, kept!.hour_ms)
        .run();
    }
    expect(lines((await ask(path)).text)).toEqual(whole);
  });

  it("is refused without an archive, for an unknown account or month, and an invented cursor reads nothing else", async () => {
    const { id } = await pastParty(1);
    expect((await ask(`/export?kind=ledger&account=${id}&month=2031-05`, {})).status).toBe(409);
    expect((await ask("/export?kind=ledger&account=nobody&month=2031-05")).status).toBe(404);
    for (const month of ["2031-5", "2031-06", "9999-01", "2031-05-01"])
      expect((await ask(`/export?kind=ledger&account=${id}&month=${month}`)).status).toBe(400);
    for (const cursor of ["../x", "-1-0", "1-2-3", "1e9-0", "0-999999", " 1-0"])
      expect((await ask(`/export?kind=ledger&account=${id}&cursor=${encodeURIComponent(cursor)}`)).status).toBe(400);
    expect((await ask(`/export?kind=ledger&account=${id}&month=2031-05&cursor=999999999-0`)).text).toBe("");
  });
});
