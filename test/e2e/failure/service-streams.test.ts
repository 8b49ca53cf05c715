/**
 * What goes through a service path for long, in bulk or both ways at once, in a process of its own, whose memory is
 * measured: event streams, large bodies, WebSockets, readers that are slow or leave, and services that break off or
 * lie.
 */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Seat } from "../../support/compute/served.ts";
import { eventually, sleep } from "../../support/eventually.ts";
import { forgetPeak, residentMb } from "../../support/memory.ts";
import { Operator } from "../../support/operator.ts";
import { TollgateProcess } from "../../support/process.ts";
import { RawClient } from "../../support/raw-client.ts";
import { allowedMs } from "../../support/slowness.ts";
import type { Tenant } from "../../support/tenant.ts";
import { type Exchange, ScriptedUpstream } from "../../support/upstream.ts";

const MB = 1024 * 1024;
let tollgate: TollgateProcess;
let seat: Seat;
let tenant: Tenant;
let service: string;
/** A front of the same service that the test scripts: control calls go on to the sandbox. */
let front: ScriptedUpstream;
let script: (exchange: Exchange) => void | Promise<void> = () => undefined;
let scripted: { tenant: Tenant; service: string };

beforeAll(async () => {
  tollgate = await TollgateProcess.start();
  const at = { operator: new Operator(tollgate), sandboxUrl: tollgate.sandboxUrl };
  seat = await Seat.make(at);
  tenant = await seat.tenant();
  service = await seat.serve(tenant);
  front = await ScriptedUpstream.start((exchange) =>
    exchange.path.includes("/service/scripted") ? script(exchange) : passOn(exchange),
  );
  const own = await Seat.make(at, { baseUrl: front.url, fields: { timeouts: { first_byte_ms: 1_500 } } });
  const renter = await own.tenant();
  scripted = { tenant: renter, service: `${await own.serve(renter)}/scripted` };
});
afterAll(async () => {
  await front?.stop();
  await tollgate?.stop();
});

async function passOn(exchange: Exchange): Promise<void> {
  const { authorization = "", "content-type": type = "application/json", "x-check-marker": marker } = exchange.headers;
  const response = await fetch(tollgate.sandboxUrl + exchange.path, {
    method: exchange.method,
    headers: { authorization, "content-type": type, ...(marker !== undefined && { "x-check-marker": String(marker) }) },
    ...(exchange.text && { body: exchange.text }),
  });
  exchange.answer(await response.json().catch(() => null), response.status);
}

const ask = (path: string, init: RequestInit = {}) => tenant.fetch(service + path, init);
const ended = async (path: string) =>
  (await seat.sandbox.calls(seat.id)).filter((call) => call.path.endsWith(path)).at(-1)?.pod_ended;

async function bytesOf(response: Response): Promise<number> {
  let bytes = 0;
  for await (const piece of response.body as ReadableStream<Uint8Array>) bytes += piece.length;
  return bytes;
}

/** 64 kB at a time, never the whole. */
function stream(bytes: number): ReadableStream<Uint8Array> {
  let left = bytes;
  return new ReadableStream({
    pull(controller) {
      const next = Math.min(left, 64 * 1024);
      left -= next;
      controller.enqueue(new Uint8Array(next));
      if (left === 0) controller.close();
    },
  });
}
const upload = (path: string, bytes: number) =>
  ask(path, { method: "POST", body: stream(bytes), duplex: "half" } as RequestInit & { duplex: "half" });

describe("bytes", () => {
  test("50 MB each way, one after the other and both at once, pass with flat memory", async () => {
    const pid = tollgate.workerdPid();
    await bytesOf(await ask(`/bytes/${MB}`));
    await upload("/sum", MB);
    await sleep(300);
    const { now } = residentMb(pid);
    forgetPeak(pid);
    const down = async () => bytesOf(await ask(`/bytes/${50 * MB}`));
    const up = async () => ((await (await upload("/sum", 50 * MB)).json()) as { body_bytes: number }).body_bytes;
    const both = async () => bytesOf(await upload("/echo", 50 * MB));
    expect(await Promise.all([down(), up()])).toEqual([50 * MB, 50 * MB]);
    expect(await both()).toBe(50 * MB);
    expect(residentMb(pid).peak - now).toBeLessThan(60);
  });

  test("a length that was declared is declared to the pod", async () => {
    const answer = await ask("/sum", { method: "PUT", body: new Uint8Array(3 * MB) });
    const { headers } = (await answer.json()) as { headers: Record<string, string> };
    expect(headers["content-length"]).toBe(String(3 * MB));
    expect((await ask("/bytes/12345")).headers.get("content-length")).toBe("12345");
  });

  test("a slow reader holds nobody up, and what waits for him stays at the pod", async () => {
    const pid = tollgate.workerdPid();
    const { now } = residentMb(pid);
    forgetPeak(pid);
    const slow = new RawClient(
      tollgate.url,
      `GET ${service}/bytes/${200 * MB} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${tenant.key}\r\n\r\n`,
    );
    await slow.until("\r\n\r\n");
    slow.pause();
    const began = Date.now();
    expect(await Promise.all(Array.from({ length: 20 }, async () => bytesOf(await ask("/bytes/100000"))))).toEqual(
      Array.from({ length: 20 }, () => 100_000),
    );
    expect(Date.now() - began).toBeLessThan(allowedMs(5_000));
    await sleep(500);
    expect(residentMb(pid).peak - now).toBeLessThan(60);
    expect(await ended(`/bytes/${200 * MB}`)).toBeNull();
    slow.reset();
    await eventually("the pod sees that he left", async () => (await ended(`/bytes/${200 * MB}`)) === "left");
  });
});

describe("an event stream", () => {
  test("comes event by event", async () => {
    const began = Date.now();
    const times: number[] = [];
    for await (const _ of (await ask("/sse?frames=5&delay_ms=200")).body as ReadableStream<Uint8Array>) {
      times.push(Date.now() - began);
    }
    expect(times.length).toBeGreaterThanOrEqual(5);
    expect((times.at(-1) ?? 0) - (times[0] ?? 0)).toBeGreaterThan(500);
  });

  test("whose client leaves is closed at the pod", async () => {
    const leaving = new AbortController();
    const response = await ask("/sse?frames=1000&delay_ms=20", { signal: leaving.signal });
    await response.body?.getReader().read();
    leaving.abort();
    await eventually("the pod sees it", async () => (await ended("/sse")) === "left");
  });

  test("lives on when its key is revoked; the next one is 401", async () => {
    const key = await tenant.operator.key(tenant.account, { scopes: ["compute"] });
    const by = { headers: { authorization: `Bearer ${key.key}` } };
    const response = await ask("/sse?frames=20&delay_ms=30", by);
    await seat.operator.call("DELETE", `/accounts/${tenant.account}/keys/${key.id}`);
    expect((await ask("/sse", by)).status).toBe(401);
    expect(await response.text()).toContain('"index":19');
  });
});

type Socket = { socket: WebSocket; got: (string | ArrayBuffer)[]; closed: Promise<number> };
function open(path: string, key = tenant.key, protocols: string[] = []): Promise<Socket> {
  const url = tollgate.url.replace("http", "ws") + service + path;
  const socket = new WebSocket(url, { headers: { authorization: `Bearer ${key}` }, protocols } as never);
  socket.binaryType = "arraybuffer";
  const got: (string | ArrayBuffer)[] = [];
  socket.addEventListener("message", ({ data }) => got.push(data));
  const closed = new Promise<number>((resolve) => socket.addEventListener("close", ({ code }) => resolve(code)));
  return new Promise((resolve, reject) => {
    // The pod speaks first: it shows what it was sent.
    socket.addEventListener("message", () => resolve({ socket, got, closed }), { once: true });
    socket.addEventListener("error", () => reject(new Error("not opened")));
  });
}
const echoes = ({ socket, got }: Socket, data: string | Uint8Array<ArrayBuffer>) => {
  const before = got.length;
  socket.send(data);
  return eventually("an echo", () => got.slice(before).at(-1));
};

describe("a WebSocket", () => {
  test("passes text, bytes, its protocol and how it is closed; the pod sees no key", async () => {
    const one = await open("/live?x=1", tenant.key, ["chat"]);
    expect(one.socket.protocol).toBe("chat");
    expect(await echoes(one, "hello")).toBe("hello");
    const bytes = new Uint8Array(100_000).fill(7);
    expect(new Uint8Array((await echoes(one, bytes)) as ArrayBuffer)).toEqual(bytes);
    expect(String(one.got[0])).toContain('"path":"/live"');
    for (const secret of [tenant.key, seat.serviceKey, seat.controlKey])
      expect(String(one.got[0])).not.toContain(secret);
    one.socket.send("close:4001");
    expect(await one.closed).toBe(4_001);
  });

  test("two hundred at once are served, each its own", async () => {
    const all = await Promise.all(Array.from({ length: 200 }, (_, at) => open(`/${at}`)));
    const answers = await Promise.all(all.map((one, at) => echoes(one, `I am ${at}`)));
    expect(answers).toEqual(all.map((_, at) => `I am ${at}`));
    for (const { socket } of all) socket.close(1000);
    expect(new Set(await Promise.all(all.map(({ closed }) => closed)))).toEqual(new Set([1000]));
  });

  test("opens by no revoked key; an open one lives on", async () => {
    const key = await tenant.operator.key(tenant.account, { scopes: ["compute"] });
    const one = await open("/", key.key);
    await seat.operator.call("DELETE", `/accounts/${tenant.account}/keys/${key.id}`);
    await expect(open("/", key.key)).rejects.toThrow("not opened");
    expect(await echoes(one, "still here")).toBe("still here");
    one.socket.close();
  });
});

describe("a service that fails or lies", () => {
  const call = (init: RequestInit = {}) =>
    scripted.tenant.fetch(`${scripted.service}/x`, { redirect: "manual", ...init });
  const said = async (response: Response) => [
    response.status,
    response.headers.get("x-answer-from"),
    await response.text(),
  ];

  test("and gives no first byte in time is 504; one that takes its time to read is not", async () => {
    script = () => undefined;
    expect(await said(await call())).toEqual([
      504,
      "gateway",
      expect.stringContaining('{"error":"The service did not'),
    ]);
    script = (exchange) => exchange.answer({ read: exchange.text.length });
    const body = new ReadableStream<Uint8Array>({
      async start(controller) {
        for (let at = 0; at < 10; at++) {
          controller.enqueue(new Uint8Array([97]));
          await sleep(220);
        }
        controller.close();
      },
    });
    const slow = await call({ method: "POST", body, duplex: "half" } as RequestInit & { duplex: "half" });
    expect(await slow.json()).toEqual({ read: 10 });
  });

  test("and breaks off before its answer is 502, in it a broken body, never a clean end", async () => {
    script = (exchange) => exchange.cut();
    expect(await said(await call())).toEqual([
      502,
      "gateway",
      expect.stringContaining('{"error":"The service gave no'),
    ]);
    script = async (exchange) => {
      exchange.begin("text/plain");
      await exchange.send("the beginning");
      await sleep(100);
      exchange.cut();
    };
    const response = await call();
    expect(response.status).toBe(200);
    await expect(response.text()).rejects.toThrow();
  });

  test("and switches protocols though nobody asked is 502", async () => {
    script = (exchange) => exchange.begin("text/plain", 101);
    expect((await call()).status).toBe(502);
    expect((await call({ method: "POST", body: "x" })).status).toBe(502);
  });

  test("sees within a second that its client left before an answer", async () => {
    const arrived = Promise.withResolvers<Exchange>();
    script = (exchange) => arrived.resolve(exchange);
    const client = new RawClient(
      tollgate.url,
      `GET ${scripted.service}/x HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${scripted.tenant.key}\r\n\r\n`,
    );
    const { closedEarly } = await arrived.promise;
    client.reset();
    expect(await Promise.race([closedEarly.then(() => "closed"), sleep(1_000).then(() => "open")])).toBe("closed");
  });

  test.each([
    ["declared", "content-length: 50000000", "x".repeat(100_000)],
    ["chunked", "transfer-encoding: chunked", `${(100_000).toString(16)}\r\n${"x".repeat(100_000)}\r\n`],
  ])("never takes a body that its client left in the middle for whole: %s", async (_, header, bytes) => {
    const before = { broken: front.brokenOff.length, whole: front.exchanges.length };
    const client = new RawClient(
      tollgate.url,
      `POST ${scripted.service}/x HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${scripted.tenant.key}\r\n${header}\r\n\r\n${bytes}`,
    );
    await sleep(400);
    client.reset();
    await eventually("its body broke off", () => front.brokenOff.length === before.broken + 1);
    expect(front.brokenOff.at(-1)).toBeGreaterThan(0);
    expect(front.exchanges.length).toBe(before.whole);
    script = (exchange) => exchange.answer({ read: exchange.text.length });
    expect(await (await call({ method: "POST", body: "next" })).json()).toEqual({ read: 4 });
  });

  test("and answers what it should not, in every status, is never taken for our word", async () => {
    for (const status of [200, 299, 401, 402, 429, 511, 599]) {
      script = (exchange) =>
        exchange.answer({ error: "Your key is revoked" }, status, { "set-cookie": "a=b", "x-answer-from": "gateway" });
      const response = await call();
      expect([response.status, response.headers.get("x-answer-from")]).toEqual([status, "service"]);
      expect(response.headers.get("set-cookie")).toBeNull();
    }
    script = (exchange) => exchange.answer({}, 999);
    expect((await call()).status).toBe(502);
  });
});
