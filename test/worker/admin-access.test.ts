import { env, exports } from "cloudflare:workers";
import { afterAll, afterEach, describe, expect, it, vi } from "vitest";
import { type Answer, call, refusal, send, settled } from "../support/worker/operator.ts";

afterAll(settled);

const request = (path: string, headers: Record<string, string> = {}, init: RequestInit = {}) =>
  new Request(`http://gateway.test${path}`, { headers, ...init });
const bearer = { authorization: `Bearer ${env.ADMIN_TOKEN}` };

describe("who is let in", () => {
  it("the Worker serves it under /admin, to the operator alone", async () => {
    const asked = (headers: Record<string, string>) =>
      exports.default.fetch("http://gateway.test/admin/accounts", { headers });
    expect((await asked(bearer)).status).toBe(200);
    expect((await asked({})).status).toBe(401);
  });

  it("no token set, or a short one: no service, whoever asks", async () => {
    for (const token of ["", "x".repeat(23)]) {
      const answer = await send(request("/admin/accounts", { authorization: `Bearer ${token}` }), {
        ADMIN_TOKEN: token,
      });
      expect(answer).toMatchObject(refusal(503, "not_configured", null));
      expect(answer.body.error.message).toContain("ADMIN_TOKEN");
    }
  });

  it.each([
    ["none", {}],
    ["an empty one", { authorization: "Bearer " }],
    ["another scheme", { authorization: `Basic ${env.ADMIN_TOKEN}` }],
    ["a wrong one of the same length", { authorization: `Bearer ${"x".repeat(env.ADMIN_TOKEN.length)}` }],
    ["the beginning of it", { authorization: `Bearer ${env.ADMIN_TOKEN.slice(0, -1)}` }],
    ["more than it", { authorization: `Bearer ${env.ADMIN_TOKEN}x` }],
    ["one in the wrong header", { "x-api-key": env.ADMIN_TOKEN }],
  ])("a bearer token other than the operator's is 401: %s", async (_, headers) => {
    for (const path of ["/admin/accounts", "/admin/openapi.json", "/admin/nothing", "/admin"]) {
      const answer = await send(request(path, headers as Record<string, string>));
      expect(answer).toMatchObject(refusal(401, "invalid_admin_token", null));
      expect(answer.headers.get("www-authenticate")).toBe("Bearer");
    }
  });

  it("a body is not looked at before its sender is known", async () => {
    const answer = await send(request("/admin/accounts", {}, { method: "POST", body: "{ broken" }));
    expect(answer.status).toBe(401);
  });

  it("a secret that the platform lacks is named", async () => {
    const answer = await send(request("/admin/accounts", bearer), { MASTER_KEY: "" });
    expect(answer).toMatchObject(refusal(503, "not_configured", null));
    expect(answer.body.error.message).toContain("MASTER_KEY");
  });

  it("answers are not to be stored", async () => {
    expect((await call("GET", "/accounts")).headers.get("cache-control")).toBe("no-store");
    expect((await send(request("/admin/accounts"))).headers.get("cache-control")).toBe("no-store");
  });
});

describe("what is asked", () => {
  it("an unknown path or method is 404", async () => {
    expect(await call("GET", "/nothing")).toMatchObject(refusal(404, "not_found", null));
    expect(await call("PUT", "/accounts", {})).toMatchObject(refusal(404, "not_found", null));
  });

  it("a body that is not JSON is 400", async () => {
    expect(await call("POST", "/accounts", "{ broken")).toMatchObject(refusal(400, "invalid_request_error", null));
    expect(await call("POST", "/accounts", "[]")).toMatchObject(refusal(400, "invalid_request_error", null));
  });

  it("another content type is 400", async () => {
    const init = { method: "POST", body: "name=x" };
    for (const type of ["text/plain", "application/x-www-form-urlencoded"]) {
      const answer = await send(request("/admin/accounts", { ...bearer, "content-type": type }, init));
      expect(answer).toMatchObject(refusal(400, "invalid_request_error", null));
    }
  });

  it("a body over 1 MB is 413, whatever length it claims", async () => {
    const big = JSON.stringify({ name: "x".repeat(1_000_001) });
    expect(await call("POST", "/accounts", big)).toMatchObject(refusal(413, "request_too_large", null));
    const readable = new ReadableStream<Uint8Array>({
      start(controller) {
        controller.enqueue(new TextEncoder().encode(big));
        controller.close();
      },
    });
    const chunked = request(
      "/admin/accounts",
      { ...bearer, "content-type": "application/json" },
      { method: "POST", body: readable },
    );
    expect(await send(chunked)).toMatchObject(refusal(413, "request_too_large", null));
  });

  it("an unknown field or query is 400 with its name", async () => {
    expect(await call("POST", "/accounts", { name: "x", colour: "red" })).toMatchObject(
      refusal(400, "invalid_request_error", "colour"),
    );
    expect(await call("POST", "/accounts", { name: "x", plan: { discount: 5 } })).toMatchObject(
      refusal(400, "invalid_request_error", "plan.discount"),
    );
    expect(await call("GET", "/accounts?page=2")).toMatchObject(refusal(400, "invalid_request_error", "page"));
  });

  it.each([
    ["limit=0", "limit"],
    ["limit=1001", "limit"],
    ["limit=ten", "limit"],
    ["limit=1.5", "limit"],
    ["cursor=zzz", "cursor"],
    ["limit=1&limit=2", "limit"],
  ])("a page asked for by ?%s is 400", async (query, param) => {
    expect(await call("GET", `/accounts?${query}`)).toMatchObject(refusal(400, "invalid_request_error", param));
  });

  it("what nobody foresaw is 500 without a word of it, and stands in the log", async () => {
    const lines = vi.spyOn(console, "log").mockImplementation(() => undefined);
    const broken = {
      prepare: () => {
        throw new Error("secret detail");
      },
    } as unknown as D1Database;
    const answer = await send(request("/admin/accounts/acme", bearer), { BOOKS: broken });
    expect(answer).toMatchObject(refusal(500, "internal_error", null));
    expect(answer.text).not.toContain("secret detail");
    expect(lines.mock.calls.join()).toContain("secret detail");
    lines.mockRestore();
  });
});

describe("the document", () => {
  it("lists each call of the API with the schemas that validate it", async () => {
    const { body } = await call("GET", "/openapi.json");
    const calls = Object.entries(body.paths as Record<string, Record<string, unknown>>).flatMap(([path, methods]) =>
      Object.keys(methods).map((method) => `${method.toUpperCase()} ${path}`),
    );
    const resources = ["accounts/{account}/teams", "accounts/{account}/keys"].map((path) => `/admin/${path}`);
    for (const [index, path] of resources.entries()) {
      const one = `${path}/{${["team", "key"][index]}}`;
      for (const named of [`POST ${path}`, `GET ${path}`, `GET ${one}`, `PATCH ${one}`, `DELETE ${one}`]) {
        expect(calls).toContain(named);
      }
    }
    for (const one of ["upstreams/{upstream}", "aliases/{alias}", "instances/{instance_id}", "models/{model}"]) {
      const path = `/admin/${one}`;
      for (const named of [`PUT ${path}`, `GET ${path}`, `DELETE ${path}`, `GET ${path.replace(/\/\{.*/, "")}`]) {
        expect(calls).toContain(named);
      }
    }
    for (const named of [
      "POST /admin/accounts",
      "GET /admin/accounts",
      "GET /admin/accounts/{account}",
      "PATCH /admin/accounts/{account}",
      "DELETE /admin/accounts/{account}",
      "POST /admin/accounts/{account}/credits",
      "GET /admin/accounts/{account}/ledger",
      "POST /admin/accounts/{account}/keys/{key}/rotate",
      "GET /admin/audit/{account}",
      "GET /admin/openapi.json",
    ]) {
      expect(calls).toContain(named);
    }
    expect(body.components.schemas.AccountBody).toMatchObject({
      additionalProperties: false,
      required: ["name"],
      properties: {
        balance_usd: { type: ["string", "number"] },
        rpm_limit: { anyOf: [{ type: "integer" }, { type: "null" }] },
      },
    });
    expect(body.components.securitySchemes.bearer).toMatchObject({ type: "http", scheme: "bearer" });
  });
});

describe("an account's object that does not answer", () => {
  afterEach(() => {
    vi.useRealTimers();
    vi.restoreAllMocks();
  });

  /** What is asked of objects that break or hang, with the caller's time running fast. */
  async function asked(method: string, path: string, body: object | undefined, say: () => Promise<never>) {
    await call("POST", "/accounts", { id: "silent", name: "Silent" });
    await settled();
    vi.spyOn(console, "log").mockImplementation(() => {});
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
    let calls = 0;
    const stub = new Proxy(
      {},
      {
        get: () => () => {
          calls++;
          return say();
        },
      },
    );
    const ACCOUNTS = { getByName: () => stub } as unknown as Env["ACCOUNTS"];
    let answer: Answer | undefined;
    const init = { method, ...(body && { body: JSON.stringify(body) }) };
    const headers = { ...bearer, "content-type": "application/json" };
    const done = send(request(`/admin/accounts${path}`, headers, init), { ACCOUNTS }).then((given) => {
      answer = given;
    });
    for (let turns = 0; !answer && turns < 200; turns++) {
      await new Promise((resume) => realTimeout(resume, 5));
      vi.advanceTimersByTime(100);
    }
    await done;
    return { answer, calls };
  }
  const realTimeout = setTimeout;
  const hang = () => new Promise<never>(() => undefined);
  const unavailable = refusal(503, "account_unavailable", null);

  it.each([
    ["GET", "", undefined],
    ["GET", "/silent", undefined],
    ["GET", "/silent/keys", undefined],
    ["GET", "/silent/ledger", undefined],
    ["PATCH", "/silent", { rpm_limit: 1 }],
    ["DELETE", "/silent", undefined],
    ["POST", "/silent/keys", { name: "late" }],
    ["POST", "/silent/credits", { amount_usd: 1, reference: "late" }],
  ])("%s /admin/accounts%s gets 503 after some seconds, not silence", async (method, path, body) => {
    const { answer } = await asked(method, path, body, hang);
    expect(answer).toMatchObject(unavailable);
  });

  it("is read through a second stub if the first one breaks; a change is asked for once", async () => {
    const breaks = () => Promise.reject(Object.assign(new Error("stub is broken"), { retryable: true }));
    const read = await asked("GET", "/silent", undefined, breaks);
    expect([read.answer, read.calls]).toMatchObject([unavailable, 2]);
    const change = await asked("POST", "/silent/credits", { amount_usd: 1, reference: "twice" }, breaks);
    expect([change.answer, change.calls]).toMatchObject([unavailable, 1]);
  });
});
