/**
 * The console's session, seen by whoever would like to have one: it opens the rows behind `/console/api`, and nothing
 * else.
 */
import { createExecutionContext, waitOnExecutionContext } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from "vitest";
import { createApp } from "../../src/app.ts";
import { openPorts } from "../../src/platform/ports.ts";
import { readSecrets } from "../../src/platform/secrets.ts";
import { call, done, type Json, settled } from "../support/worker/operator.ts";
import { keyOf } from "../support/worker/tenant.ts";

const app = createApp();
const HOST = "https://gateway.test";
const PAGE = { origin: HOST, "sec-fetch-site": "same-origin" };

interface Reply {
  readonly status: number;
  readonly headers: Headers;
  readonly body: Json;
}
interface Sent {
  readonly method?: string;
  readonly headers?: Record<string, string>;
  readonly body?: unknown;
  readonly values?: Partial<Env>;
  readonly url?: string;
}

async function send(path: string, { method = "GET", headers = PAGE, body, values = {}, url = HOST }: Sent = {}) {
  const secrets = await readSecrets({ ...env, ...values });
  if (!secrets.ok) throw new Error(secrets.fault.message);
  const context = createExecutionContext();
  const request = new Request(`${url}${path}`, {
    method,
    headers: { ...headers, ...(body !== undefined && { "content-type": "application/json" }) },
    ...(body !== undefined && { body: typeof body === "string" ? body : JSON.stringify(body) }),
  });
  const bound = { ...env, ...values, ports: openPorts({ ...env, ...values }, context, secrets.secrets) };
  const response = await app.fetch(request, bound, context);
  const text = await response.text();
  await waitOnExecutionContext(context);
  const json = response.headers.get("content-type")?.startsWith("application/json");
  return { status: response.status, headers: response.headers, body: json ? JSON.parse(text) : text } as Reply;
}

const signIn = (key: unknown, more: Sent = {}) =>
  send("/console/api/session", { method: "POST", body: { key }, ...more });
const cookieOf = ({ headers }: Reply): string => (headers.get("set-cookie") ?? "").split(";")[0] ?? "";
/** A session, as the cookie that a browser would send. */
async function session(key: string, more: Sent = {}): Promise<string> {
  const reply = await signIn(key, more);
  expect(reply.status, JSON.stringify(reply.body)).toBe(201);
  return cookieOf(reply);
}
const withCookie = (cookie: string, more: Record<string, string> = PAGE) => ({ headers: { ...more, cookie } });
const refused = (status: number, code: string) => ({ status, body: { error: { code } } });

let account: string;
let key: Json;
beforeAll(async () => {
  vi.spyOn(console, "log").mockImplementation(() => undefined);
  account = (await done("POST", "/accounts", { name: "Console", balance_usd: 1 })).id;
  key = await keyOf(account, { role: "owner" });
});
afterEach(() => vi.useRealTimers());
afterAll(async () => {
  vi.restoreAllMocks();
  await settled();
});

describe("signing in", () => {
  it("with ADMIN_TOKEN, an operator's token or a key gives a cookie without it, for this host alone", async () => {
    const operator = await done("POST", "/operators", { name: "Ann", role: "read" });
    for (const [given, who] of [
      [env.ADMIN_TOKEN, { kind: "operator", id: "ADMIN_TOKEN", role: "owner" }],
      [operator.token, { kind: "operator", id: operator.id, name: "Ann", role: "read" }],
      [key.key, { kind: "tenant", account, account_name: "Console", id: key.id, role: "owner" }],
    ]) {
      const reply = await signIn(given);
      expect(reply).toMatchObject({ status: 201, body: { session: who } });
      const line = reply.headers.get("set-cookie") ?? "";
      expect(line).toMatch(/^__Host-tg=[\w-]{50,1000}; Path=\/; Max-Age=28800; HttpOnly; SameSite=Strict; Secure$/);
      expect(atob(line.slice(10, line.indexOf(";")).replaceAll("-", "+").replaceAll("_", "/"))).not.toContain(given);
      expect(reply.headers.get("cache-control")).toBe("no-store");
      const seen = await send("/console/api/session", withCookie(cookieOf(reply)));
      expect(seen.body).toEqual({ session: { ...reply.body.session, expires_at: expect.any(String) } });
      expect(JSON.stringify(seen.body)).not.toMatch(/digest|last/);
    }
  });

  it("on http it works on this machine alone, under another name for each port", async () => {
    const url = "http://localhost:8787";
    const here = { url, headers: { origin: url } };
    const reply = await signIn(key.key, here);
    expect(reply.headers.get("set-cookie")).toMatch(
      /^tg-8787=[\w-]+; Path=\/; Max-Age=28800; HttpOnly; SameSite=Strict$/,
    );
    const cookie = cookieOf(reply);
    expect((await send("/console/api/account", { url, ...withCookie(cookie, {}) })).status).toBe(200);
    const open = "http://gateway.test";
    expect(await signIn(key.key, { url: open, headers: { origin: open } })).toMatchObject(refused(403, "https_needed"));
  });

  it.each<[string, unknown, number]>([
    ["nothing", undefined, 400],
    ["no text", 7, 400],
    ["an empty text", " ", 400],
    ["a word", "secret", 401],
    ["a made-up key", `sk-tg-${"a".repeat(38)}`, 401],
    ["a made-up token", `tg-op-${"a".repeat(38)}`, 401],
    ["what no header can hold", "sk-tg-\u{1F511}\n", 401],
    ["too much", "x".repeat(3_000), 413],
  ])("with %s is refused, and sets no cookie", async (_, given, status) => {
    const books = vi.spyOn(env.BOOKS, "prepare");
    const reply = await signIn(given);
    expect(reply.status).toBe(status);
    expect(reply.headers.get("set-cookie")).toBeNull();
    // Guesses cost us a signature, and no look into any book.
    expect(books).not.toHaveBeenCalled();
    books.mockRestore();
  });

  it("with a body that is no JSON is 400", async () => {
    expect((await send("/console/api/session", { method: "POST", body: "{" })).status).toBe(400);
  });

  it("with a revoked key or token is 401", async () => {
    const gone = await keyOf(account);
    await done("DELETE", `/accounts/${account}/keys/${gone.id}`);
    const operator = await done("POST", "/operators", { name: "Bob", role: "read" });
    await done("DELETE", `/operators/${operator.id}`);
    for (const given of [gone.key, operator.token]) expect((await signIn(given)).status).toBe(401);
  });
});

describe("a session", () => {
  it("opens the same rows as its key does, with the same answers", async () => {
    const first = await session(env.ADMIN_TOKEN);
    const own = await session(key.key);
    const listed = await send("/console/api/admin/accounts?limit=1000", withCookie(first));
    expect(listed.body).toEqual((await call("GET", "/accounts?limit=1000")).body);
    // No browser keeps it for whoever sits there next.
    for (const { headers } of [listed, await send("/console/api/account", withCookie(own))]) {
      expect(headers.get("cache-control")).toBe("no-store");
      expect(headers.get("x-content-type-options")).toBe("nosniff");
    }
    expect((await send("/console/api/account", withCookie(own))).body.id).toBe(account);
    expect((await send("/console/api/v1/models", withCookie(own))).status).toBe(200);
    expect((await send("/console/api/billing/balance", withCookie(own))).body.balance).toBe(1);
    const made = await send("/console/api/account/keys", {
      ...withCookie(own),
      method: "POST",
      body: { name: "from the console" },
    });
    expect(made).toMatchObject({ status: 201, body: { name: "from the console", key: expect.any(String) } });
    const events = (await done("GET", `/events?account=${account}`)).data as Json[];
    expect(events[0]).toMatchObject({ action: "createKey", target: "/account/keys", actor: { id: key.id } });
  });

  it("opens nothing but through /console/api: elsewhere a cookie is no key", async () => {
    for (const cookie of [await session(env.ADMIN_TOKEN), await session(key.key)]) {
      for (const path of ["/admin/accounts", "/account", "/v1/models", "/billing/balance", "/gpu-instances"]) {
        expect((await send(path, withCookie(cookie))).status, path).toBe(401);
      }
      const chat = { ...withCookie(cookie), method: "POST", body: { model: "m", messages: [] } };
      expect((await send("/v1/chat/completions", chat)).status).toBe(401);
    }
  });

  it("of one kind does not open the other's rows, nor what no page of the console calls", async () => {
    const [first, own] = [await session(env.ADMIN_TOKEN), await session(key.key)];
    for (const [cookie, path] of [
      [own, "/admin/accounts"],
      [own, "/admin"],
      [first, "/account"],
      [first, "/v1/models"],
      [own, "/healthz"],
      [own, "/console/api/account"],
      [own, "//admin/accounts"],
      [own, "/adminx"],
      [own, ""],
    ] as const) {
      expect(await send(`/console/api${path}`, withCookie(cookie)), path).toMatchObject({ status: expect.any(Number) });
      expect([403, 404], path).toContain((await send(`/console/api${path}`, withCookie(cookie))).status);
    }
    // No pod's page comes from the console's own origin with a session at hand.
    expect((await send("/console/api/gpu-instances/1/service/x", withCookie(own))).status).toBe(404);
  });

  it("keeps the role of its token", async () => {
    const operator = await done("POST", "/operators", { name: "Reader", role: "read" });
    const cookie = await session(operator.token);
    const create = { ...withCookie(cookie), method: "POST", body: { name: "x" } };
    expect(await send("/console/api/admin/accounts", create)).toMatchObject(refused(403, "role_not_allowed"));
  });

  it("is not made by a key in a header", async () => {
    const bearer = { ...PAGE, authorization: `Bearer ${env.ADMIN_TOKEN}`, "x-api-key": key.key };
    for (const path of ["/admin/accounts", "/account"]) {
      expect(await send(`/console/api${path}`, { headers: bearer })).toMatchObject(refused(401, "no_session"));
    }
    const own = await session(key.key);
    const both = { ...bearer, cookie: own };
    expect((await send("/console/api/account", { headers: both })).body.id).toBe(account);
    expect((await send("/console/api/admin/accounts", { headers: both })).status).toBe(403);
  });
});

describe("a session ends", () => {
  it("with its key, its token or a change of ADMIN_TOKEN, from the next call on", async () => {
    const own = await keyOf(account);
    const operator = await done("POST", "/operators", { name: "Carl", role: "read" });
    const [tenant, reader, first] = [
      await session(own.key),
      await session(operator.token),
      await session(env.ADMIN_TOKEN),
    ];
    const asTenant = () => send("/console/api/account", withCookie(tenant));
    const asReader = () => send("/console/api/admin/accounts", withCookie(reader));
    expect([(await asTenant()).status, (await asReader()).status]).toEqual([200, 200]);
    await done("DELETE", `/accounts/${account}/keys/${own.id}`);
    await done("DELETE", `/operators/${operator.id}`);
    expect([(await asTenant()).status, (await asReader()).status]).toEqual([401, 401]);
    expect((await send("/console/api/session", withCookie(tenant))).body).toEqual({ session: null });
    const rotated = { ADMIN_TOKEN: "another-admin-token-0123456789abc" };
    for (const values of [rotated, { ADMIN_TOKEN: "" }]) {
      const after = await send("/console/api/admin/accounts", { ...withCookie(first), values });
      expect(after).toMatchObject(refused(401, "no_session"));
    }
    expect((await send("/console/api/admin/accounts", withCookie(first))).status).toBe(200);
  });

  it("after eight hours", async () => {
    const cookie = await session(key.key);
    const begun = Date.now();
    vi.useFakeTimers({ toFake: ["Date"] });
    vi.setSystemTime(begun + 8 * 3_600_000 - 5_000);
    expect((await send("/console/api/account", withCookie(cookie))).status).toBe(200);
    vi.setSystemTime(begun + 8 * 3_600_000 + 5_000);
    expect(await send("/console/api/account", withCookie(cookie))).toMatchObject(refused(401, "no_session"));
  });

  it("for the browser when it signs out; who copied the cookie before keeps what the key may, until it is revoked", async () => {
    const own = await keyOf(account);
    const cookie = await session(own.key);
    const out = await send("/console/api/session", { ...withCookie(cookie), method: "DELETE" });
    expect(out.headers.get("set-cookie")).toMatch(/^__Host-tg=; Path=\/; Max-Age=0;/);
    expect((await send("/console/api/account", withCookie(cookie))).status).toBe(200);
    await done("DELETE", `/accounts/${account}/keys/${own.id}`);
    expect((await send("/console/api/account", withCookie(cookie))).status).toBe(401);
  });
});

describe("a cookie is no session", () => {
  it("of another deployment, of another host, changed, cut, huge, or beside a second one", async () => {
    const other = { MASTER_KEY: btoa("x".repeat(32)) };
    const good = await session(key.key);
    const staging = "https://staging.test";
    const elsewhere = await session(key.key, { url: staging, headers: { origin: staging } });
    const value = good.slice(good.indexOf("=") + 1);
    const flipped = `${value.slice(0, 30)}${value[30] === "A" ? "B" : "A"}${value.slice(31)}`;
    const bad = [
      await session(key.key, { values: other }),
      elsewhere,
      `__Host-tg=${flipped}`,
      `__Host-tg=${value.slice(0, -1)}`,
      `__Host-tg=${value}${"A".repeat(2_000)}`,
      `__Host-tg=${"A".repeat(100_000)}`,
      "__Host-tg=",
      "__Host-tg=%00 =;;;",
      `${good}; ${good}`,
      `${good}; __Host-tg=x`,
      `tg-443=${value}`,
      `__host-tg=${value}`,
    ];
    for (const cookie of bad) {
      const reply = await send("/console/api/account", withCookie(cookie));
      expect(reply, cookie.slice(0, 80)).toMatchObject(refused(401, "no_session"));
    }
    expect((await send("/console/api/account", withCookie(`a=b; ${good}; c`))).status).toBe(200);
  });
});

describe("a call from elsewhere", () => {
  const FOREIGN: readonly [string, Record<string, string>][] = [
    ["another site", { origin: "https://evil.example", "sec-fetch-site": "cross-site" }],
    ["another site, without the other header", { origin: "https://evil.example" }],
    ["a sandboxed frame", { origin: "null", "sec-fetch-site": "cross-site" }],
    ["a sibling host", { origin: "https://evil.gateway.test", "sec-fetch-site": "same-site" }],
    ["the same host on http", { origin: "http://gateway.test", "sec-fetch-site": "cross-site" }],
    ["another port", { origin: "https://gateway.test:8443" }],
    ["a page of its own that says nothing of its origin", { "sec-fetch-site": "cross-site" }],
  ];
  it.each(FOREIGN)("%s: neither signs in nor uses a session", async (_, headers) => {
    const cookie = await session(env.ADMIN_TOKEN);
    expect(await signIn(env.ADMIN_TOKEN, { headers })).toMatchObject(refused(403, "foreign_origin"));
    for (const method of ["GET", "POST", "DELETE"]) {
      const reply = await send("/console/api/admin/accounts", { method, ...withCookie(cookie, headers) });
      expect(reply).toMatchObject(refused(403, "foreign_origin"));
      expect(reply.headers.get("access-control-allow-origin")).toBeNull();
    }
  });

  it("a change without an origin is refused; so is a session", async () => {
    const cookie = await session(env.ADMIN_TOKEN);
    const change = { method: "POST", body: { name: "x" }, ...withCookie(cookie, {}) };
    expect(await send("/console/api/admin/accounts", change)).toMatchObject(refused(403, "foreign_origin"));
    expect(await signIn(key.key, { headers: {} })).toMatchObject(refused(403, "foreign_origin"));
  });

  it("CORS opens the tenants' API, and nothing of the operator or the console", async () => {
    const origin = "https://app.example";
    const allowed = async (path: string) =>
      (await send(path, { headers: { origin } })).headers.get("access-control-allow-origin");
    for (const path of ["/v1/models", "/account", "/platform/gpu-prices", "/gpu-instances", "/openapi.json"]) {
      expect(await allowed(path), path).toBe("*");
    }
    for (const path of ["/admin/accounts", "/console/api/session", "/console/api/account", "/healthz", "/nothing"]) {
      expect(await allowed(path), path).toBeNull();
    }
  });
});
