/**
 * Service paths of instances and clusters through the real process: what reaches a pod, what comes back, and who may.
 * The sandbox's pod shows what it was sent; its log is the judge.
 */
import OpenAI from "openai";
import { beforeAll, describe, expect, test } from "vitest";
import { Seat } from "../../support/compute/served.ts";
import { eventually } from "../../support/eventually.ts";
import { RawClient } from "../../support/raw-client.ts";
import type { Tenant } from "../../support/tenant.ts";
import { world } from "../../support/world.ts";

const at = world();
const WS_KEY = "sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==";
let seat: Seat;
let tenant: Tenant;
let service: string;

beforeAll(async () => {
  seat = await Seat.make(at);
  tenant = await seat.tenant();
  service = await seat.serve(tenant);
});

interface Echoed {
  readonly method: string;
  readonly path: string;
  readonly search: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}
const ask = (path: string, init: RequestInit = {}) => tenant.fetch(service + path, { redirect: "manual", ...init });
const echoed = async (path: string, init: RequestInit = {}) => (await (await ask(path, init)).json()) as Echoed;

/** One request down to its bytes; gives the answer's head and body. */
async function raw(head: string, lines: string[] = [], body = ""): Promise<string> {
  const auth = ["host: tollgate", `authorization: Bearer ${tenant.key}`, "connection: close"];
  const client = new RawClient(at.url, `${[`${head} HTTP/1.1`, ...auth, ...lines].join("\r\n")}\r\n\r\n${body}`);
  return client.untilClosed(5_000);
}
const rawEcho = async (head: string, lines: string[] = [], body = "") =>
  JSON.parse((await raw(head, lines, body)).split("\r\n\r\n")[1] ?? "") as Echoed;

/** How often a pod or the service in front of it was asked on a service path. */
const seen = async (at = seat) => (await at.sandbox.calls(at.id)).filter(({ kind }) => kind === "service");

describe("a request", () => {
  test.each(["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PROPFIND"])(
    "of any method passes: %s",
    async (method) => {
      const body = method === "POST" || method === "PUT" || method === "PATCH" ? "hello" : "";
      expect(
        await rawEcho(`${method} ${service}/a/b?x=1`, body ? [`content-length: ${body.length}`] : [], body),
      ).toMatchObject({ method, path: "/a/b", search: "?x=1", body });
    },
  );

  test("HEAD has the length and no body; TRACE, which would show our key, is 405; a GET with a body is 400", async () => {
    const head = await raw(`HEAD ${service}/bytes/1234`);
    expect(head).toMatch(/^HTTP\/1.1 200 OK\r\n/);
    expect(head).toMatch(/content-length: 1234\r\n/i);
    expect(head.split("\r\n\r\n")[1]).toBe("");
    const before = (await seen()).length;
    expect(await raw(`TRACE ${service}/`)).toMatch(/^HTTP\/1.1 405 /);
    expect(await raw(`GET ${service}/`, ["content-length: 5"], "hello")).toMatch(/^HTTP\/1.1 400 /);
    expect((await seen()).length).toBe(before);
  });

  test("with and without a rest; path and query as they were written", async () => {
    expect((await echoed("")).path).toBe("/");
    expect((await echoed("/")).path).toBe("/");
    expect(await rawEcho(`GET ${service}//host/a%2fb/%5Bx%5D;p=1?q=%2e%2e/..&r=a+b&&=`)).toMatchObject({
      path: "//host/a%2fb/%5Bx%5D;p=1",
      search: "?q=%2e%2e/..&r=a+b&&=",
    });
  });

  test.each([
    "/../../billing/balance",
    "/..%2f..%2fbilling",
    "/%2e%2e/%2e%2e/billing",
    "/%252e%252e%252fbilling",
    "/a\\..\\..\\billing",
    "/a%5c..%5cbilling",
    "/..;/billing",
    "/a/./b",
    "/%00",
    "/%c0%ae%c0%ae/billing",
  ])("whose path might climb is 400, and goes nowhere: %s", async (path) => {
    const before = (await seen()).length;
    expect(await raw(`GET ${service}${path}`)).toMatch(/^HTTP\/1.1 400 /);
    expect((await seen()).length).toBe(before);
  });

  test("reaches the pod with listed headers only, and never with a key or a cookie", async () => {
    const passing = {
      accept: "text/x",
      "accept-language": "de",
      range: "bytes=0-1",
      "if-none-match": '"e"',
      "x-my-app": "1",
    };
    const kept = {
      cookie: "a=b",
      "x-api-key": tenant.key,
      "api-key": tenant.key,
      "proxy-authorization": "Basic eDp5",
      forwarded: "for=1.2.3.4",
      via: "1.1 me",
      "x-forwarded-for": "1.2.3.4",
      "x-forwarded-host": "evil.example",
      "x-original-url": "/billing/balance",
      "x-http-method-override": "DELETE",
      "x-real-ip": "1.2.3.4",
      origin: "https://evil.example",
      referer: "https://evil.example",
      "x-request-id": "mine",
      "x-hop": "1",
      "http2-settings": "AAMAAABkAAQAAP__",
      upgrade: "h2c",
      te: "trailers",
    };
    const lines = Object.entries({ ...passing, ...kept }).map(([name, value]) => `${name}: ${value}`);
    const { headers } = await rawEcho(`GET ${service}/headers-in`, [
      ...lines,
      "Connection: X-Hop, upgrade, http2-settings",
    ]);
    const { host: _, "cf-worker": __, "x-request-id": ours, ...got } = headers;
    expect(got).toEqual(passing);
    expect(ours).not.toBe("mine");
    const all = JSON.stringify((await seen()).map(({ pod_headers }) => pod_headers));
    for (const secret of [tenant.key, seat.serviceKey, seat.controlKey, "a=b"]) expect(all).not.toContain(secret);
  });

  test("with a key in its URL or in a header that passes is 400, and goes nowhere", async () => {
    const before = (await seen()).length;
    for (const [path, init] of [
      [`/x?api_key=${tenant.key}`, {}],
      [`/x?api_key=${tenant.key.replace(/-/g, "%2D")}`, {}],
      [`/${tenant.key}/x`, {}],
      ["/x", { headers: { "x-note": tenant.key } }],
      ["/x", { headers: { "service-worker": "script" } }],
    ] as const) {
      const response = await ask(path, init);
      expect(response.status).toBe(path === "/x" && "service-worker" in (init.headers ?? {}) ? 403 : 400);
      expect(response.headers.get("x-answer-from")).toBe("gateway");
      await response.text();
    }
    expect((await seen()).length).toBe(before);
  });

  test.each([
    ["without a key", 400, "GET", ["connection: upgrade", "upgrade: websocket", "sec-websocket-version: 13"]],
    [
      "of another version",
      400,
      "GET",
      ["connection: upgrade", "upgrade: websocket", "sec-websocket-version: 12", WS_KEY],
    ],
    ["as POST", 200, "POST", ["connection: upgrade", "upgrade: websocket", "sec-websocket-version: 13", WS_KEY]],
    ["beside another protocol", 200, "GET", ["connection: upgrade", "upgrade: h2c, websocket", WS_KEY]],
  ] as const)("for a WebSocket %s is %i and opens none", async (_, status, method, lines) => {
    const before = (await seen()).length;
    const answer = await raw(`${method} ${service}/live`, [
      ...lines,
      ...(method === "POST" ? ["content-length: 0"] : []),
    ]);
    expect(answer).toMatch(new RegExp(`^HTTP/1.1 ${status} `));
    const got = (await seen()).slice(before);
    expect(got.length).toBe(status === 200 ? 1 : 0);
    for (const { pod_headers } of got) expect(pod_headers).not.toHaveProperty("upgrade");
  });

  test("with headers of 1 MB is refused, and the next one is served", async () => {
    expect(await raw(`GET ${service}/`, [`x-big: ${"a".repeat(1_000_000)}`])).toMatch(/^HTTP\/1.1 4\d\d /);
    expect(await raw(`GET ${service}/`, [`x-big: ${"a".repeat(66_000)}`])).toMatch(/^HTTP\/1.1 4\d\d /);
    expect((await ask("/")).status).toBe(200);
  });
});

describe("an answer", () => {
  const ALWAYS = {
    "cache-control": "no-store",
    "x-content-type-options": "nosniff",
    "content-security-policy": "sandbox allow-scripts",
  };
  const headersOf = async (path: string) => Object.fromEntries((await ask(path)).headers);

  test("has listed headers only, and those of every answer", async () => {
    const sent = new URLSearchParams({
      "x-app": "1",
      etag: '"e"',
      "retry-after": "7",
      "set-cookie": "a=b",
      "www-authenticate": "Basic",
      "access-control-allow-origin": "*",
      "service-worker-allowed": "/",
      "clear-site-data": '"*"',
      "content-security-policy": "default-src *",
      "cache-control": "public, max-age=9999",
      "strict-transport-security": "max-age=1",
      "content-location": "/x",
      refresh: "0; url=https://evil.example",
      link: "<https://evil.example>; rel=preload",
      "alt-svc": 'h3=":443"',
      "x-request-id": "mine",
      "x-ratelimit-limit-requests": "1",
      "x-answer-from": "gateway",
      "x-leak": seat.serviceKey,
      "x-upstream": new URL(at.sandboxUrl).host,
    });
    const got = await headersOf(`/headers?${sent}`);
    expect(got).toEqual({
      ...ALWAYS,
      "content-length": expect.any(String),
      "content-type": "application/json",
      "x-pod": expect.any(String),
      "x-request-id": expect.not.stringMatching("mine"),
      "x-service-request-id": got["x-request-id"],
      "x-service-region": "edge",
      "x-answer-from": "service",
      "x-app": "1",
      etag: '"e"',
      "retry-after": "7",
    });
    expect(await headersOf("/cookie?name=a&value=b")).not.toHaveProperty("set-cookie");
  });

  test.each([401, 402, 403, 404, 429, 500, 503])(
    "of status %i passes, and says that it is not ours",
    async (status) => {
      const response = await ask(`/status/${status}`);
      expect([response.status, response.headers.get("x-answer-from")]).toEqual([status, "service"]);
      expect(Object.fromEntries(response.headers)).toMatchObject(ALWAYS);
      expect(await response.json()).toHaveProperty("pod");
    },
  );

  test("that redirects stays below the service; to another host it has no location", async () => {
    const to = async (query: string) => (await headersOf(`/redirect?${query}`)).location;
    expect(await to("to=/login")).toBe(`${service}/login`);
    expect(await to("to=/login&absolute=1&status=307")).toBe(`${service}/login`);
    expect(await to("to=next")).toBe(`${service}/next`);
    expect(await to(`to=${encodeURIComponent("../../../billing")}`)).toBe(`${service}/billing`);
    for (const elsewhere of [
      "https://evil.example/",
      "//evil.example/",
      "https://u:p@evil.example/",
      "javascript:alert(1)",
    ]) {
      expect(await to(`to=${encodeURIComponent(elsewhere)}`)).toBeUndefined();
    }
    const followed = await tenant.fetch(`${service}/redirect?to=/end`);
    expect(((await followed.json()) as Echoed).path).toBe("/end");
  });

  test("comes compressed as the pod sent it", async () => {
    const response = await ask("/headers?content-encoding=gzip", { headers: { "accept-encoding": "gzip" } });
    expect(response.headers.get("content-encoding")).toBe("gzip");
    expect(((await response.json()) as Echoed).path).toBe("/headers");
  });
});

describe("who may", () => {
  const statusOf = async (key: string | null, path = `${service}/`) => {
    const headers = key === null ? {} : { authorization: `Bearer ${key}` };
    const response = await fetch(at.url + path, { headers });
    expect(response.headers.get("access-control-allow-origin")).toBeNull();
    return [response.status, (await response.text()).replaceAll(/GPU (instance|cluster)/g, "machine")] as const;
  };

  test("no key, a wrong one, a cookie: 401; no scope or access: 403; none is passed on", async () => {
    const before = (await seen()).length;
    const plain = await at.operator.key(tenant.account);
    expect((await statusOf(null))[0]).toBe(401);
    expect((await statusOf(`${tenant.key.slice(0, -1)}_`))[0]).toBe(401);
    const cookie = await fetch(at.url + service, { headers: { cookie: `key=${tenant.key}` } });
    expect(cookie.status).toBe(401);
    expect(await statusOf(plain.key)).toEqual([403, expect.stringContaining("scope")]);
    const disabled = await at.operator.tenant({ compute_enabled: true }, { scopes: ["compute"] });
    await at.operator.call("PATCH", `/accounts/${disabled.account}`, { compute_enabled: false });
    expect(await statusOf(disabled.key)).toEqual([403, expect.stringContaining("Compute API access")]);
    expect((await seen()).length).toBe(before);
  });

  test("a dead key learns nothing but that, whatever is wrong beside", async () => {
    const key = await at.operator.key(tenant.account, { scopes: ["compute"] });
    expect((await statusOf(key.key))[0]).toBe(200);
    await at.operator.call("DELETE", `/accounts/${tenant.account}/keys/${key.id}`);
    for (const path of [`${service}/`, `${service}/..%2fx`, "/gpu-instances/7/service/", "/gpu-clusters/x/service"]) {
      expect((await statusOf(key.key, path))[0]).toBe(401);
    }
  });

  test("an id of another account, of another kind, unknown or none is one 404, and asks nobody upstream", async () => {
    const other = await seat.operator.tenant({ compute_enabled: true }, { scopes: ["compute"] });
    const apart = await Seat.make(at, { checked: false });
    await at.operator.call("PATCH", `/accounts/${other.account}`, { compute_upstream: apart.id });
    const before = [(await seen()).length, (await seen(apart)).length];
    const answers = await Promise.all([
      statusOf(other.key),
      statusOf(other.key, `${service}/a/b?x`),
      statusOf(tenant.key, service.replace("instances", "clusters")),
      statusOf(tenant.key, "/gpu-instances/999999/service/"),
      statusOf(tenant.key, `/gpu-instances/${seat.echo}/service/`),
      statusOf(tenant.key, "/gpu-instances/x/service/"),
      statusOf(tenant.key, "/gpu-instances//service/"),
    ]);
    expect(answers.map(([status]) => status)).toEqual(answers.map(() => 404));
    const texts = answers.map(([, text]) => text.replace("clusters", "instances"));
    expect(new Set(texts).size).toBe(1);
    expect([(await seen()).length, (await seen(apart)).length]).toEqual(before);
  });

  test("what does not run, exposes nothing or is not open is 409, and says what to do", async () => {
    const closed = await Seat.make(at, { checked: false });
    const renter = await closed.tenant();
    const path = await closed.serve(renter);
    const said = async (path: string) => {
      const response = await renter.fetch(`${path}/`);
      return [response.status, ((await response.json()) as { error: string }).error];
    };
    expect(await said(path)).toEqual([409, expect.stringContaining("Ask your operator")]);
    const plain = await closed.serve(renter, "instance", { service_port: undefined });
    expect(await said(plain)).toEqual([409, expect.stringContaining("service_port")]);
    expect((await renter.fetch(path.replace("/service", "/terminate"), { method: "POST" })).status).toBe(202);
    expect(await said(path)).toEqual([409, expect.stringContaining("terminated")]);
    expect(await seen(closed)).toEqual([]);
    expect(await closed.check()).toMatchObject({ ok: true });
    expect((await seen(closed)).length).toBe(1);
  });

  test("requests count in no minute and cost nothing", async () => {
    const ledger = (await tenant.ledger()).length;
    const answers = await Promise.all(Array.from({ length: 70 }, () => ask("/")));
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]));
    expect((await tenant.fetch("/gpu-instances")).status).toBe(200);
    expect((await tenant.ledger()).length).toBe(ledger);
  });
});

test("where the service hands our key to pods, the check refuses; a pod sees the service key alone, and only till then", async () => {
  const leaky = await Seat.make(at);
  const renter = await leaky.tenant();
  const path = await leaky.serve(renter);
  await leaky.sandbox.fault(leaky.id, { fault: "leak" });
  const { headers } = (await (await renter.fetch(`${path}/`)).json()) as Echoed;
  expect(headers.authorization).toBe(`Bearer ${leaky.serviceKey}`);
  const all = JSON.stringify((await seen(leaky)).map(({ pod_headers }) => pod_headers));
  for (const secret of [renter.key, leaky.controlKey]) expect(all).not.toContain(secret);
  expect(await leaky.check()).toMatchObject({ ok: false, problem: expect.stringContaining("Revoke") });
  expect((await renter.fetch(`${path}/`)).status).toBe(409);
  await leaky.sandbox.clearFaults(leaky.id);
  expect(await leaky.check()).toMatchObject({ ok: true });
  expect((await renter.fetch(`${path}/`)).status).toBe(200);
});

test("an upstream that refuses the service key itself is 503 and says nothing of the key; a pod's own 401 passes", async () => {
  const apart = await Seat.make(at);
  const renter = await apart.tenant();
  const path = await apart.serve(renter);
  const said = async (rest: string) => {
    const response = await renter.fetch(path + rest);
    return [response.status, response.headers.get("x-answer-from"), await response.text()] as const;
  };
  expect(await said("/status/401")).toEqual([401, "service", expect.stringContaining('"pod"')]);
  const reads = async () =>
    (await apart.sandbox.calls(apart.id)).filter(({ path: read }) => read === "/gpu-instances/availability").length;
  const before = await reads();
  await Promise.all(Array.from({ length: 30 }, () => said("/status/403")));
  expect(await reads(), "pods that say 401 cost no calls").toBe(before);

  const control = { key: apart.controlKey };
  const stale = { service_api_key: `stale-${apart.id}` };
  await apart.sandbox.account(apart.id, { keys: [control, { key: stale.service_api_key }] });
  await apart.operator.call("PATCH", `/upstreams/${apart.id}`, stale);
  expect(await apart.check()).toMatchObject({ ok: true });
  await apart.sandbox.account(apart.id, { keys: [control, { key: stale.service_api_key, state: "revoked" }] });
  const refused = await Promise.all(Array.from({ length: 10 }, () => said("/")));
  for (const one of refused) {
    expect(one).toEqual([503, "gateway", expect.stringContaining("Ask your operator")]);
    expect(one[2]).not.toMatch(/key|revoked/i);
  }
  expect(await reads(), "one asks for all").toBe(before + 1);
});

test("a cluster's service is spread over its replicas, below an address of ours", async () => {
  const path = await seat.serve(tenant, "cluster");
  const cluster = (await (await tenant.fetch(path.replace("/service", ""))).json()) as { endpoint_url: string };
  expect(cluster.endpoint_url).toBe(`${at.url}${path}/`);
  const answers = await Promise.all([1, 2, 3, 4].map(() => tenant.fetch(`${path}/redirect?to=/x&status=200`)));
  expect(new Set(answers.map(({ headers }) => headers.get("x-pod"))).size).toBe(2);
  expect(answers[0]?.headers.get("location")).toBe(`${path}/x`);
});

test("the OpenAI SDK streams a chat from a pod, by the instance's own base URL", async () => {
  const client = new OpenAI({ baseURL: `${at.url}${service}/v1`, apiKey: tenant.key, maxRetries: 0 });
  const stream = await client.chat.completions.create({
    model: "pod",
    messages: [{ role: "user", content: "Hello from afar" }],
    stream: true,
  });
  let text = "";
  for await (const { choices } of stream) text += choices[0]?.delta.content ?? "";
  expect(text).toContain("Hello from afar");
  const wrong = client.chat.completions.create({ model: "pod", messages: [] });
  await expect(wrong).rejects.toMatchObject({ status: 400 });
  const call = await eventually("it is in the log", async () =>
    (await seen()).find(({ path }) => path.endsWith("/v1/chat/completions")),
  );
  expect(JSON.stringify(call.pod_headers)).not.toContain(tenant.key);
});
