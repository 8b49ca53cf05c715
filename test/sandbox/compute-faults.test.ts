/** Service paths and their pods, faults, the logs, and what survives a restart. */
import { abortAllDurableObjects } from "cloudflare:test";
import { exports } from "cloudflare:workers";
import { beforeAll, describe, expect, test } from "vitest";
import { HOUR_MS, listed, STARTED_MS, STOPPED_MS, Tenant } from "../support/worker/compute-client.ts";
import { BASE, call, frames, type Json, json, post } from "../support/worker/sandbox-client.ts";

beforeAll(async () => {
  // The first call loads the whole sandbox.
  await call("/_sandbox/compute/clock");
});

describe("service paths", () => {
  let own: Tenant;
  let base: string;
  let id: number;
  beforeAll(async () => {
    own = await Tenant.make();
    id = (await own.running({ service_port: 8000 })).id;
    base = `/gpu-instances/${id}/service`;
  });
  const ask = (path: string, init: RequestInit = {}) => call(base + path, init, own.key);

  test("any method and path reaches the pod, which shows what it was sent, but never the key", async () => {
    for (const method of ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]) {
      const headers = { cookie: "a=1; b=2", "x-own": "yes", "content-type": "text/plain" };
      const body = method === "GET" ? {} : { body: "payload" };
      const seen = await json(ask("/deep/path?x=1&y=%20", { method, headers, ...body }));
      expect(seen).toMatchObject({ method, path: "/deep/path", query: { x: "1", y: " " }, port: 8000 });
      expect(seen.headers).toMatchObject({ "x-own": "yes", "content-type": "text/plain" });
      expect(seen.cookies).toEqual(["a=1", "b=2"]);
      expect(seen.body).toBe(method === "GET" ? "" : "payload");
      expect(JSON.stringify(seen)).not.toContain(own.key);
    }
    expect((await ask("", { method: "HEAD" })).status).toBe(200);
    expect((await json(ask(""))).path).toBe("/");
  });

  test("statuses, redirects, cookies, headers and bytes", async () => {
    await json(ask("/status/418"), 418);
    expect((await ask("/status/204")).status).toBe(204);
    const moved = await ask("/redirect?to=/login&status=307");
    expect([moved.status, moved.headers.get("location")]).toEqual([307, `${base}/login`]);
    const absolute = await ask("/redirect?to=/login&absolute=1");
    expect(absolute.headers.get("location")).toBe(`${BASE}${base}/login`);
    expect((await ask("/redirect?to=https://elsewhere.example/")).headers.get("location")).toBe(
      "https://elsewhere.example/",
    );
    expect((await ask("/cookie?name=sid&value=1")).headers.get("set-cookie")).toContain("sid=1");
    expect((await ask("/headers?x-mine=2&service-worker-allowed=/")).headers.get("service-worker-allowed")).toBe("/");
    const bytes = await ask("/bytes/1000000");
    expect((await bytes.arrayBuffer()).byteLength).toBe(1_000_000);
    const sent = new Uint8Array(3_000_000).fill(7);
    expect((await (await ask("/echo", { method: "POST", body: sent })).arrayBuffer()).byteLength).toBe(3_000_000);
    expect((await json(ask("/sink", { method: "POST", body: sent }))).body_bytes).toBe(3_000_000);
  });

  test("events come one by one, and chat completions as OpenAI has them", async () => {
    const text = await (await ask("/sse?frames=3")).text();
    expect(text.match(/^data: /gm)).toHaveLength(3);
    const chat = (extra: object) =>
      ask("/v1/chat/completions", {
        method: "POST",
        body: JSON.stringify({ model: "m", messages: [{ role: "user", content: "Hi there" }], ...extra }),
      });
    const whole = await json(chat({}));
    expect(whole.choices[0].message.content).toContain("Hi there");
    expect(whole.usage.total_tokens).toBe(whole.usage.prompt_tokens + whole.usage.completion_tokens);
    const parts = await frames(chat({ stream: true }));
    expect(parts.at(-1)).toBe("[DONE]");
    const joined = parts.slice(0, -1).map((frame: Json) => frame.choices[0].delta.content ?? "");
    expect(joined.join("")).toBe(whole.choices[0].message.content);
    await json(chat({ messages: [] }), 400);
  });

  test("a WebSocket shows what the pod was sent, echoes text and bytes, and closes", async () => {
    const worker = exports.default as unknown as Fetcher;
    const headers = {
      upgrade: "websocket",
      authorization: `Bearer ${own.key}`,
      "sec-websocket-protocol": "chat, other",
    };
    const response = await worker.fetch(new Request(`${BASE}${base}/live?x=1`, { headers }));
    expect([response.status, response.headers.get("sec-websocket-protocol")]).toEqual([101, "chat"]);
    const socket = response.webSocket!;
    const got: unknown[] = [];
    const closed = new Promise<number>((resolve) => socket.addEventListener("close", ({ code }) => resolve(code)));
    socket.binaryType = "arraybuffer";
    socket.addEventListener("message", ({ data }) => {
      got.push(data);
    });
    socket.accept();
    socket.send("hello");
    socket.send(new Uint8Array([1, 2, 3]));
    socket.send("close:4001");
    expect(await closed).toBe(4_001);
    const [first, text, binary] = got;
    const hello = JSON.parse(String(first));
    expect(hello).toMatchObject({ path: "/live", query: { x: "1" } });
    expect(JSON.stringify(hello)).not.toContain(own.key);
    expect([text, [...new Uint8Array(binary as ArrayBuffer)]]).toEqual(["hello", [1, 2, 3]]);
  });

  test("`leak` sends the key on to the pod, and the log says what each pod was sent", async () => {
    await own.fault("leak", { times: 1 });
    await own.get("/gpu-instances");
    const leaked = await json(ask("/leak"));
    expect(leaked.headers.authorization).toBe(`Bearer ${own.key}`);
    expect((await json(ask("/sound"))).headers).not.toHaveProperty("authorization");
    const rows = await own.calls("service");
    const headersAt = (path: string) => rows.find((row) => row.path.endsWith(path))?.pod_headers;
    expect(headersAt("/leak")).toHaveProperty("authorization");
    expect(headersAt("/sound")).not.toHaveProperty("authorization");
  });

  test("it does not count in the calls a minute, is 404 for others, and 409 unless the pod runs and has a port", async () => {
    for (let index = 0; index < 61; index++) await (await ask("/")).text();
    await own.nextMinute();
    const other = await Tenant.make();
    await other.refused(404, "GET", `${base}/`);
    await own.refused(404, "GET", `/gpu-clusters/${id}/service/`);
    await own.refused(404, "GET", "/gpu-instances/x/service/");
    const bare = await other.running();
    await other.refused(409, "GET", `/gpu-instances/${bare.id}/service/`);
    const waiting = await other.launch({ service_port: 80 });
    await other.refused(409, "GET", `/gpu-instances/${waiting.id}/service/`);
    expect((await other.calls("service")).every(({ counted, pod_headers }) => !counted && pod_headers === null)).toBe(
      true,
    );
  });

  test("late and lost answers of a pod", async () => {
    await own.fault("late", { ms: 100, times: 1 });
    const begun = Date.now();
    await json(ask("/"));
    expect(Date.now() - begun).toBeGreaterThanOrEqual(95);
    await own.fault("lost_answer", { times: 1 });
    await expect(ask("/gone", { method: "POST", body: "x" })).rejects.toThrow();
    await own.fault("status", { status: 502, times: 1 });
    await json(ask("/"), 502);
    const rows = await own.calls("service");
    expect(rows.find(({ path }) => path.endsWith("/gone"))?.pod_headers).not.toBe(null);
  });

  test("a cluster's replicas take turns", async () => {
    const cluster = await own.runningCluster({ service_port: 80 });
    const pods = new Set<string>();
    for (let index = 0; index < 4; index++) {
      pods.add((await json(call(`/gpu-clusters/${cluster.id}/service/`, {}, own.key))).pod);
    }
    expect(pods.size).toBe(2);
  });
});

describe("faults", () => {
  test("lost_answer: the connection breaks, and the work is done", async () => {
    const own = await Tenant.make();
    await own.fault("lost_answer", { times: 1 }, { method: "POST", path: "/gpu-instances" });
    await expect(post("/gpu-instances", own.instance({ name: "lost" }), {}, own.key)).rejects.toThrow();
    expect(await own.get("/gpu-instances")).toMatchObject([{ name: "lost" }]);
    const [row] = await own.calls();
    expect(row).toMatchObject({ executed: true, status: 202, faults: ["lost_answer"] });
    await own.launch();
  });

  test("reset and silence: the connection breaks, and nothing is done", async () => {
    const own = await Tenant.make();
    await own.fault("reset", { times: 1 });
    await expect(post("/gpu-instances", own.instance(), {}, own.key)).rejects.toThrow();
    await own.fault("silence", { ms: 100, times: 1 });
    const begun = Date.now();
    await expect(post("/gpu-instances", own.instance(), {}, own.key)).rejects.toThrow();
    expect(Date.now() - begun).toBeGreaterThanOrEqual(95);
    expect(await own.get("/gpu-instances")).toEqual([]);
    expect((await own.calls()).slice(0, 2).every(({ executed, status }) => !executed && status === null)).toBe(true);
  });

  test.each(["at_once", "at_end"])("late: the answer waits, the work is done %s", async (executes) => {
    const own = await Tenant.make();
    await own.fault("late", { ms: 2_000, executes, times: 1 });
    const begun = Date.now();
    const launching = post("/gpu-instances", own.instance(), {}, own.key);
    await scheduler.wait(100);
    expect(await own.get("/gpu-instances")).toHaveLength(executes === "at_once" ? 1 : 0);
    await json(launching, 202);
    expect(Date.now() - begun).toBeGreaterThanOrEqual(1_995);
    expect(await own.get("/gpu-instances")).toHaveLength(1);
  });

  test("status: any answer in place of the real one, with the work done or not", async () => {
    const own = await Tenant.make();
    await own.fault("status", { status: 503, headers: { "retry-after": "7" }, body: { error: "busy" }, times: 1 });
    const refused = await post("/gpu-instances", own.instance(), {}, own.key);
    expect(refused.headers.get("retry-after")).toBe("7");
    expect(await json(refused, 503)).toEqual({ error: "busy" });
    expect(await own.get("/gpu-instances")).toEqual([]);
    await own.fault("status", { status: 500, executed: true, times: 1 });
    await own.refused(500, "POST", "/gpu-instances", own.instance());
    expect(await own.get("/gpu-instances")).toHaveLength(1);
    await own.fault("status", { status: 429, times: 1 }, { path: "/gpu-clusters" });
    await own.get("/gpu-instances");
    await own.refused(429, "GET", "/gpu-clusters");
  });

  test("omit: lists leave resources out, reads by id do not", async () => {
    const own = await Tenant.make();
    const [one, two] = [await own.launch(), await own.launch()];
    await own.fault("omit", { ids: [one.id] });
    expect((await own.get("/gpu-instances")).map(({ id }: { id: number }) => id)).toEqual([two.id]);
    await own.get(`/gpu-instances/${one.id}`);
    await json(call(`/_sandbox/compute/faults?account=${own.account}`, { method: "DELETE" }));
    await own.fault("omit", { times: 1 });
    expect(await own.get("/gpu-instances")).toEqual([]);
    expect(await own.get("/gpu-instances")).toHaveLength(2);
  });

  test("a fault is for one account, key, method and path, and its own only are cleared", async () => {
    const [own, other] = [await Tenant.make(), await Tenant.make()];
    await own.fault("status", { status: 500 }, { key: own.key, method: "GET", path: "/ssh" });
    await other.fault("status", { status: 500 });
    await own.get("/gpu-instances");
    await own.refused(500, "GET", "/ssh-keys");
    await own.refused(400, "POST", "/ssh-keys", {});
    await json(call(`/_sandbox/compute/faults?account=${own.account}`, { method: "DELETE" }));
    await own.get("/ssh-keys");
    await other.refused(500, "GET", "/ssh-keys");
    await json(post("/_sandbox/compute/faults", { fault: "explode" }), 400);
    await json(post("/_sandbox/compute/faults", { fault: "late", ms: 1, speed: 2 }), 400);
  });
});

test("the log has every call of an account, refused ones too, with its body and resource", async () => {
  const own = await Tenant.make();
  const launched = await own.launch({ name: "tagged" });
  await own.refused(404, "GET", "/gpu-instances/1");
  const rows = await own.calls();
  expect(rows).toMatchObject([
    {
      kind: "control",
      method: "POST",
      path: "/gpu-instances",
      resource: launched.id,
      status: 202,
      counted: true,
      user: 7,
    },
    { method: "GET", path: "/gpu-instances/1", status: 404, executed: false, counted: true },
  ]);
  expect(rows[0]?.body).toMatchObject({ name: "tagged" });
  const after = await json(call(`/_sandbox/compute/calls?after=${rows[0]?.id}&account=${own.account}`));
  expect(after.data).toHaveLength(1);
});

test("an account's clock moves alone; the sandbox's moves all", async () => {
  const [own, other] = [await Tenant.make(), await Tenant.make()];
  const [one, two] = [await own.launch(), await other.launch()];
  await own.advance(STARTED_MS);
  expect((await own.get(`/gpu-instances/${one.id}`)).instance.status).toBe("running");
  expect((await other.get(`/gpu-instances/${two.id}`)).instance.status).toBe("pending");
  await json(post("/_sandbox/clock", { advance_ms: STARTED_MS }));
  expect((await other.get(`/gpu-instances/${two.id}`)).instance.status).toBe("running");
  await json(post("/_sandbox/compute/clock", { advance_ms: HOUR_MS }));
  expect((await other.machine(two.id)).ms).toBeGreaterThanOrEqual(HOUR_MS);
  await json(post("/_sandbox/compute/clock", { advance_ms: 1, account: "nobody" }), 400);
});

test("a forced state that cannot be is refused", async () => {
  const own = await Tenant.make();
  const { id } = await own.launch();
  await own.force(1, "failed", 400);
  await own.force(id, "preempted", 400);
  await own.force(id, "resumed", 400);
  await own.force(id, "degraded", 400);
  await own.force(id, "nonsense", 400);
  await own.force(id, "failed");
  await own.force(id, "failed", 400);
});

test("everything survives a restart: money, machines, storage, keys, limits, faults, clocks, logs", async () => {
  const own = await Tenant.make();
  const { id } = await own.running({ gpu_count: 2, service_port: 80 });
  const drive = await own.drive();
  await own.post("/container-images", { name: "i", registry_url: "a/b:1" }, 201);
  await own.fault("status", { status: 500, times: 2 }, { path: "/ssh-keys" });
  await own.refused(500, "GET", "/ssh-keys");
  await own.advance(1.5 * HOUR_MS);
  for (let index = 0; index < 10; index++) await own.launch();
  const before = [
    await own.money(),
    await own.calls(),
    await own.get("/cloud-drives"),
    await own.get("/container-images"),
  ];

  await abortAllDurableObjects();

  expect([
    await own.money(),
    (await own.calls()).slice(0, -2),
    await own.get("/cloud-drives"),
    await own.get("/container-images"),
  ]).toEqual(before);
  expect((await own.get(`/gpu-instances/${id}`)).instance.status).toBe("running");
  await own.refused(429, "POST", "/gpu-instances", own.instance());
  await own.refused(500, "GET", "/ssh-keys");
  await own.get("/ssh-keys");
  expect(listed(await own.get("/cloud-drives"), drive.id).status).toBe("available");
  await own.post(`/gpu-instances/${id}/terminate`, undefined, 202);
  await own.advance(STOPPED_MS);
  const row = await own.machine(id);
  expect(row.charged_usd).toBeCloseTo((4 * row.ms) / HOUR_MS, 6);
});
