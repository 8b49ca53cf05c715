import { createExecutionContext, waitOnExecutionContext } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { newEdgeState, openDirectory } from "../../src/platform/edge/directory.ts";
import { readSecrets, serviceSeal } from "../../src/platform/secrets.ts";
import { call, done, type Json, refusal, settled } from "../support/worker/operator.ts";

afterAll(settled);

const bad = (param: string | null) => refusal(400, "invalid_request_error", param);
const CREDENTIAL = "sk-upstream-0123456789";
const CHAT = {
  kind: "chat",
  prices: { input_tokens: { cost_usd: "0.2", price_usd: 0.25 }, output_tokens: { cost_usd: 0.2 } },
  max_output_tokens: 4096,
};
/** Waits until the clock has passed this time: prices of the same moment replace each other. */
const afterNow = (from: string) => vi.waitUntil(() => Date.now() > Date.parse(from));
const target = (model: string, upstream = "main") => ({ upstream, model });

beforeAll(async () => {
  await done("POST", "/accounts", { id: "acme", name: "Acme" });
  await done("POST", "/accounts", { id: "other", name: "Other" });
  await done("POST", "/accounts", { id: "gone", name: "Gone" });
  await done("DELETE", "/accounts/gone");
  await done("PUT", "/upstreams/main", { base_url: "https://inference.example", api_key: CREDENTIAL });
});

describe("upstreams", () => {
  it("an upstream is stored by its root, with its credential sealed and never shown", async () => {
    const put = await call("PUT", "/upstreams/sealed", {
      base_url: "https://Inference.example:8443/base/v1/",
      api_key: CREDENTIAL,
      region: "us-east",
      timeouts: { first_byte_ms: 5000 },
    });
    expect(put).toMatchObject({
      status: 200,
      body: {
        id: "sealed",
        base_url: "https://inference.example:8443/base",
        api_key_set: true,
        region: "us-east",
        timeouts: { connect_ms: 10_000, first_byte_ms: 5000, answer_ms: 600_000, idle_ms: 60_000, total_ms: 3_600_000 },
      },
    });
    const answers = [put, await call("GET", "/upstreams/sealed"), await call("GET", "/upstreams")];
    await settled();
    const { results } = await env.BOOKS.prepare("select * from upstreams").all();
    const everywhere = JSON.stringify(results) + (await env.EDGE.get("routing")) + answers.map((a) => a.text).join();
    expect(everywhere).not.toContain(CREDENTIAL);
    expect(answers[1]?.body).toEqual(put.body);
    const { results: rows } = await env.BOOKS.prepare("select * from upstreams where id = 'sealed'").all<Json>();
    const secrets = await readSecrets(env);
    expect(secrets.ok && (await secrets.secrets.unseal("sealed", rows[0].sealed_api_key))).toBe(CREDENTIAL);
  });

  it("a PUT without a credential keeps the one that is there, and is refused where there is none", async () => {
    await done("PUT", "/upstreams/kept", { base_url: "https://one.example", api_key: CREDENTIAL });
    const sealed = () => env.BOOKS.prepare("select sealed_api_key as s from upstreams where id = 'kept'").first("s");
    const before = await sealed();
    expect(await done("PUT", "/upstreams/kept", { base_url: "https://ONE.example:443/other/v1/" })).toMatchObject({
      base_url: "https://one.example/other",
    });
    expect(await sealed()).toBe(before);
    expect(await call("PUT", "/upstreams/none", { base_url: "https://one.example" })).toMatchObject(bad("api_key"));
  });

  it.each(["https://two.example", "http://one.example", "https://one.example:8443", "https://one.example.evil.test"])(
    "a stored credential does not go to another origin: a PUT of %s without one is refused and changes nothing",
    async (base_url) => {
      await done("PUT", "/upstreams/moved", { base_url: "https://one.example", api_key: CREDENTIAL });
      expect(await call("PUT", "/upstreams/moved", { base_url })).toMatchObject(bad("api_key"));
      expect((await call("GET", "/upstreams/moved")).body.base_url).toBe("https://one.example");
      expect(await done("PUT", "/upstreams/moved", { base_url, api_key: "new" })).toMatchObject({ base_url });
    },
  );

  it.each([
    [{ base_url: "ftp://x.example" }, "base_url"],
    [{ base_url: "x.example" }, "base_url"],
    [{ base_url: "https://user:pass@x.example" }, "base_url"],
    [{ base_url: "https://x.example/?a=1" }, "base_url"],
    [{ base_url: "https://x.example/#a" }, "base_url"],
    [{ base_url: "https://x.example", api_key: "two words" }, "api_key"],
    [{ base_url: "https://x.example", api_key: "" }, "api_key"],
    [{ base_url: "https://x.example", timeouts: { idle_ms: 0 } }, "timeouts.idle_ms"],
    [{ base_url: "https://x.example", timeouts: { connect_ms: 0 } }, "timeouts.connect_ms"],
    [{ base_url: "https://x.example", timeouts: { handshake_ms: 1 } }, "timeouts.handshake_ms"],
    [{ base_url: "https://x.example", region: "us east" }, "region"],
    [{}, "base_url"],
  ])("%j is refused by its field", async (body, param) => {
    expect(await call("PUT", "/upstreams/x", { api_key: CREDENTIAL, ...body })).toMatchObject(bad(param));
  });

  describe("a PATCH", () => {
    it("changes what it names and leaves the rest, credential and single timeouts included", async () => {
      await done("PUT", "/upstreams/merged", {
        base_url: "https://one.example",
        api_key: CREDENTIAL,
        region: "eu",
        shared: true,
        timeouts: { first_byte_ms: 5000 },
      });
      const sealed = () =>
        env.BOOKS.prepare("select sealed_api_key as s from upstreams where id = 'merged'").first("s");
      const before = await sealed();
      const changed = await done("PATCH", "/upstreams/merged", { timeouts: { idle_ms: 7000 } });
      expect(changed).toMatchObject({
        base_url: "https://one.example",
        region: "eu",
        shared: true,
        timeouts: { connect_ms: 10_000, first_byte_ms: 5000, idle_ms: 7000 },
      });
      expect(await sealed()).toBe(before);
      expect(await done("PATCH", "/upstreams/merged", {})).toEqual(changed);
      expect(await done("PATCH", "/upstreams/merged", { region: null, shared: false })).toEqual({
        ...changed,
        region: null,
        shared: false,
      });
      expect(await done("PUT", "/upstreams/merged", { base_url: "https://one.example" })).toMatchObject({
        shared: false,
        timeouts: { first_byte_ms: 120_000, idle_ms: 60_000 },
      });
    });

    it("takes another origin with a credential only, by whatever spelling", async () => {
      await done("PUT", "/upstreams/walled", { base_url: "https://one.example", api_key: CREDENTIAL });
      for (const base_url of [
        "http://one.example",
        "https://one.example:444",
        "https://one.example.",
        "https://two.example",
      ]) {
        expect(await call("PATCH", "/upstreams/walled", { base_url })).toMatchObject(bad("api_key"));
      }
      for (const base_url of ["https://ONE.example:443/", "https://one.example/v1/", "https://one.example/base//"]) {
        expect((await call("PATCH", "/upstreams/walled", { base_url })).status).toBe(200);
      }
      expect(await call("PATCH", "/upstreams/walled", { base_url: "https://x@one.example" })).toMatchObject(
        bad("base_url"),
      );
      expect(
        await done("PATCH", "/upstreams/walled", { base_url: "https://two.example", api_key: "new" }),
      ).toMatchObject({
        base_url: "https://two.example",
      });
    });

    it("of no upstream is 404 and makes none; an unknown field is 400", async () => {
      expect(await call("PATCH", "/upstreams/nobody", { base_url: "https://x.example", api_key: "k" })).toMatchObject(
        refusal(404, "not_found", "upstream"),
      );
      expect((await call("GET", "/upstreams/nobody")).status).toBe(404);
      expect(await call("PATCH", "/upstreams/main", { colour: 1 })).toMatchObject(bad("colour"));
    });

    it("undoes nothing of another at the same moment", async () => {
      await done("PUT", "/upstreams/both", { base_url: "https://one.example", api_key: CREDENTIAL });
      await Promise.all([
        done("PATCH", "/upstreams/both", { region: "eu" }),
        done("PATCH", "/upstreams/both", { timeouts: { idle_ms: 7000 } }),
        done("PATCH", "/upstreams/both", { timeouts: { total_ms: 9000 } }),
      ]);
      expect(await done("GET", "/upstreams/both")).toMatchObject({
        region: "eu",
        timeouts: { idle_ms: 7000, total_ms: 9000 },
      });
    });
  });

  it("an id with signs that a path or a list would trip over is refused", async () => {
    for (const id of ["a%20b", "-x", "a%2Fb"]) {
      expect((await call("PUT", `/upstreams/${id}`, { base_url: "https://x.example", api_key: "k" })).status).toBe(400);
    }
  });

  it("one that an alias, an instance or a model names cannot be deleted", async () => {
    await done("PUT", "/upstreams/used", { base_url: "https://x.example", api_key: "k" });
    await done("PUT", "/aliases/uses", { targets: [target("m", "used")] });
    await done("PUT", "/instances/900", { account: "acme", name: "m", upstreams: ["main", "used"] });
    await done("PUT", "/models/uses", { ...CHAT, upstream: "used" });
    for (const user of ["aliases/uses", "instances/900", "models/uses"]) {
      const answer = await call("DELETE", "/upstreams/used");
      expect(answer).toMatchObject(refusal(409, "upstream_in_use", null));
      expect(answer.body.error.message).toContain(
        user.replace(/s\//, " ").replace(/e /, "e ").replace("aliase", "alias"),
      );
      await done("DELETE", `/${user}`);
    }
    expect(await done("DELETE", "/upstreams/used")).toEqual({ id: "used", deleted: true });
    expect(await call("GET", "/upstreams/used")).toMatchObject(refusal(404, "not_found", "upstream"));
    expect(await call("DELETE", "/upstreams/used")).toMatchObject(refusal(404, "not_found", "upstream"));
  });
});

describe("a check of an upstream", () => {
  const HOST = "https://checked.example";
  /** What the engine answers by path; `null`: it is down. */
  async function answering<T>(answers: Record<string, [status: number, body: Json]> | null, work: () => Promise<T>) {
    const seen: { path: string; key: string | null; body: Json }[] = [];
    const fetched = vi.spyOn(globalThis, "fetch").mockImplementation(async (input, init) => {
      const request = new Request(input as RequestInfo, init);
      const path = new URL(request.url).pathname;
      const text = await request.text();
      seen.push({ path, key: request.headers.get("authorization"), body: text && JSON.parse(text) });
      if (answers === null) throw new TypeError("no route");
      const [status, body] = answers[path] ?? [404, { error: "none" }];
      return body === undefined ? new Response("<html>", { status }) : Response.json(body, { status });
    });
    const result = await work();
    fetched.mockRestore();
    return { result, seen };
  }
  const MODELS = { "/v1/models": [200, { data: [{ id: "m-1" }] }] } as Record<string, [number, Json]>;
  const put = (query: string, fields: object = {}) =>
    call("PUT", `/upstreams/wanted${query}`, { base_url: HOST, api_key: CREDENTIAL, ...fields });

  it("refuses with `check=true` what does not answer or takes no such key, and stores nothing of it", async () => {
    const failed = refusal(409, "upstream_check_failed", "check");
    for (const answers of [
      null,
      { "/v1/models": [200, undefined] },
      { "/v1/models": [401, {}] },
      { "/v1/models": [500, {}] },
      {},
    ] as const) {
      const { result } = await answering(answers as never, () => put("?check=true"));
      expect(result).toMatchObject(failed);
      expect((await call("GET", "/upstreams/wanted")).status).toBe(404);
    }
    const { result, seen } = await answering(MODELS, () => put("?check=true"));
    expect(result.status).toBe(200);
    expect(seen).toEqual([{ path: "/v1/models", key: `Bearer ${CREDENTIAL}`, body: "" }]);
    // A rotation to a wrong credential leaves the one that works.
    const wrong = { "/v1/models": [403, {}] } as Record<string, [number, Json]>;
    const sealed = () => env.BOOKS.prepare("select sealed_api_key as s from upstreams where id = 'wanted'").first("s");
    const before = await sealed();
    const { result: rotated, seen: tried } = await answering(wrong, () =>
      call("PATCH", "/upstreams/wanted?check=true", { api_key: "sk-wrong" }),
    );
    expect(rotated).toMatchObject(failed);
    expect(tried[0]?.key).toBe("Bearer sk-wrong");
    expect(rotated.text).not.toContain("sk-wrong");
    expect(await sealed()).toBe(before);
    expect((await answering(null, () => put("?check=false"))).result.status).toBe(200);
    expect(await put("?check=maybe")).toMatchObject(bad("check"));
  });

  it("makes a call of one token where there is no list of models", async () => {
    await done("PUT", "/upstreams/listless", { base_url: HOST, api_key: CREDENTIAL });
    const check = () => call("POST", "/upstreams/listless/check");
    const { result: nothing } = await answering({}, check);
    expect(nothing.body).toMatchObject({ ok: false, status: 404, problem: expect.stringContaining("no chat model") });
    await done("PUT", "/models/only", { ...CHAT, upstream: "listless" });
    const answers = { "/v1/chat/completions": [200, { id: "x" }] } as Record<string, [number, Json]>;
    const { result, seen } = await answering(answers, check);
    expect(result.body).toMatchObject({ ok: true, status: 200, model: "only", problem: null });
    expect(seen[1]).toMatchObject({ path: "/v1/chat/completions", body: { model: "only", max_tokens: 1 } });
    const { result: silent } = await answering({}, check);
    expect(silent.body).toMatchObject({ ok: false, status: 404, problem: expect.stringContaining("one token") });
  });
});

describe("the key of service paths", () => {
  const HOST = "https://pods.example";
  const SERVICE_KEY = "sk-service-0123456789";
  type Echo = (headers: Record<string, string>) => unknown;
  /** An upstream whose echo answers what it got, but for what `hidden` says. */
  async function checked(id: string, echo: Echo, status = 200) {
    const fetched = vi.spyOn(globalThis, "fetch").mockImplementation(async (url, init) => {
      expect(String(url)).toBe(`${HOST}/gpu-instances/77/service/`);
      const headers = Object.fromEntries(new Headers(init?.headers));
      expect(headers.authorization).toBe(`Bearer ${SERVICE_KEY}`);
      return Response.json(echo(headers), { status });
    });
    const answer = await call("POST", `/upstreams/${id}/check`, { echo: 77 });
    fetched.mockRestore();
    return answer.body;
  }
  const honest: Echo = ({ authorization: _, ...headers }) => ({ method: "GET", headers });
  const put = (id: string, fields: object = {}) =>
    done("PUT", `/upstreams/${id}`, { base_url: HOST, api_key: CREDENTIAL, service_api_key: SERVICE_KEY, ...fields });
  const checkedAt = async (id: string) => (await done("GET", `/upstreams/${id}`)).service_checked_at;

  it("is sealed, never shown, and bound to its own place", async () => {
    expect(await put("pods")).toMatchObject({ service_api_key_set: true, service_checked_at: null });
    await settled();
    const row = await env.BOOKS.prepare("select * from upstreams where id = 'pods'").first<Json>();
    const shown = JSON.stringify(row) + (await env.EDGE.get("routing")) + (await call("GET", "/upstreams")).text;
    expect(shown).not.toContain(SERVICE_KEY);
    const secrets = await readSecrets(env);
    if (!secrets.ok) throw new Error("no secrets");
    await expect(secrets.secrets.unseal("pods", row.sealed_service_key)).rejects.toThrow();
    expect(await secrets.secrets.unseal(serviceSeal("pods"), row.sealed_service_key)).toBe(SERVICE_KEY);
    expect(await done("PUT", "/upstreams/pods", { base_url: HOST })).toMatchObject({ service_api_key_set: true });
    expect(await done("PUT", "/upstreams/pods", { base_url: HOST, service_api_key: null })).toMatchObject({
      service_api_key_set: false,
    });
  });

  it("is another than the control key, given or stored", async () => {
    const same = { base_url: HOST, api_key: CREDENTIAL, service_api_key: CREDENTIAL };
    expect(await call("PUT", "/upstreams/same", same)).toMatchObject(bad("service_api_key"));
    await put("same");
    expect(await call("PUT", "/upstreams/same", { base_url: HOST, api_key: SERVICE_KEY })).toMatchObject(
      bad("service_api_key"),
    );
  });

  it("goes to no other origin: both are given anew there", async () => {
    await put("moving");
    const elsewhere = { base_url: "https://pods.example:8443" };
    expect(await call("PUT", "/upstreams/moving", elsewhere)).toMatchObject(bad("api_key"));
    expect(await call("PUT", "/upstreams/moving", { ...elsewhere, api_key: "k" })).toMatchObject(
      bad("service_api_key"),
    );
    const one = { ...elsewhere, service_api_key: "s" };
    expect(await call("PUT", "/upstreams/moving", one)).toMatchObject(bad("api_key"));
    expect(await done("PUT", "/upstreams/moving", { ...one, api_key: "k" })).toMatchObject(elsewhere);
  });

  it("is on once the echo has seen a marker and no key of ours", async () => {
    await put("on");
    expect(await checked("on", honest)).toEqual({
      ok: true,
      status: 200,
      latency_ms: expect.any(Number),
      model: null,
      problem: null,
    });
    expect(await checkedAt("on")).toMatch(/^20/);
  });

  it.each<[string, object]>([
    ["the address", { base_url: `${HOST}/other` }],
    ["the control key", { api_key: "sk-other" }],
    ["the service key", { service_api_key: "sk-other" }],
    ["the service key for none", { service_api_key: null }],
  ])("is off again with a change of %s, and stays on without", async (_, change) => {
    await put("changed");
    await checked("changed", honest);
    await done("PUT", "/upstreams/changed", { base_url: HOST, region: "somewhere", shared: true });
    expect(await checkedAt("changed")).toMatch(/^20/);
    const answer = await done("PUT", "/upstreams/changed", { base_url: HOST, ...change });
    expect(answer.service_checked_at).toBeNull();
    expect(await checkedAt("changed")).toBeNull();
  });

  it("is off by a change in the books that knows nothing of it", async () => {
    await put("by-hand");
    await checked("by-hand", honest);
    await env.BOOKS.prepare("update upstreams set base_url = 'https://evil.example' where id = 'by-hand'").run();
    expect(await checkedAt("by-hand")).toBeNull();
  });

  it.each<[string, Echo]>([
    ["authorization", (headers) => ({ headers })],
    [
      "a name with authorization in it",
      (headers) => ({ ...(honest(headers) as object), "X-Original-Authorization": "x" }),
    ],
    ["an API key", (headers) => [honest(headers), ["X-API-KEY", "hidden"]]],
    ["the service key as text", (headers) => ({ raw: `GET / HTTP/1.1\nX-A: ${headers.authorization?.slice(7)}` })],
    ["the control key", (headers) => [honest(headers), [[["deep", { down: `Bearer ${CREDENTIAL}` }]]]]],
  ])("an echo that shows %s turns it off, and says that the key was seen", async (_, echo) => {
    await put("leaks");
    await checked("leaks", honest);
    expect(await checked("leaks", echo)).toMatchObject({ ok: false, problem: expect.stringContaining("Revoke") });
    expect(await checkedAt("leaks")).toBeNull();
    expect(await checked("leaks", echo, 500)).toMatchObject({ ok: false, problem: expect.stringContaining("Revoke") });
  });

  it("what proves nothing changes nothing: no marker, no JSON, another status, silence", async () => {
    await put("proves");
    const off = async (problem: string, echo: Echo, status = 200) => {
      expect(await checked("proves", echo, status)).toMatchObject({
        ok: false,
        problem: expect.stringContaining(problem),
      });
      return checkedAt("proves");
    };
    expect(await off("x-check-marker", () => ({ headers: {} }))).toBeNull();
    await checked("proves", honest);
    expect(await off("x-check-marker", () => "{")).not.toBeNull();
    expect(await off("200", honest, 404)).not.toBeNull();
    const broken = vi.spyOn(globalThis, "fetch").mockRejectedValue(new Error("lost"));
    const { body } = await call("POST", "/upstreams/proves/check", { echo: 77 });
    broken.mockRestore();
    expect(body).toMatchObject({ ok: false, status: null });
    expect(await checkedAt("proves")).not.toBeNull();
  });

  it("a check that a change overtakes records nothing", async () => {
    await put("overtaken");
    const fetched = vi.spyOn(globalThis, "fetch").mockImplementation(async (_, init) => {
      await done("PUT", "/upstreams/overtaken", { base_url: `${HOST}/new`, service_api_key: "sk-new" });
      return Response.json(honest(Object.fromEntries(new Headers(init?.headers))));
    });
    expect(await call("POST", "/upstreams/overtaken/check", { echo: 77 })).toMatchObject({
      status: 409,
      body: { error: { code: "upstream_changed" } },
    });
    fetched.mockRestore();
    expect(await checkedAt("overtaken")).toBeNull();
  });

  it("is needed for a check with `echo`; without, the list of models is read with the control key", async () => {
    await done("PUT", "/upstreams/plain", { base_url: HOST, api_key: CREDENTIAL });
    expect((await call("POST", "/upstreams/plain/check", { echo: 77 })).body.error.code).toBe("no_service_key");
    expect((await call("POST", "/upstreams/nowhere/check")).status).toBe(404);
    const models = async (status: number, body: unknown) => {
      const fetched = vi.spyOn(globalThis, "fetch").mockImplementation(async (url, init) => {
        expect(`${url}`).toBe(`${HOST}/v1/models`);
        expect(new Headers(init?.headers).get("authorization")).toBe(`Bearer ${CREDENTIAL}`);
        return Response.json(body, { status });
      });
      const answer = await call("POST", "/upstreams/plain/check", {});
      fetched.mockRestore();
      return answer.body;
    };
    expect(await models(200, { data: [{ id: "llama-7b" }] })).toMatchObject({
      ok: true,
      status: 200,
      model: "llama-7b",
    });
    expect(await models(200, [])).toMatchObject({ ok: true, model: null });
    expect(await models(401, { error: "secret" })).toMatchObject({
      ok: false,
      problem: expect.stringContaining("key"),
    });
    expect(await models(500, null)).toMatchObject({ ok: false, status: 500 });
  });
});

describe("aliases", () => {
  it("an alias is put, read, listed and deleted; the common one and an account's own stand side by side", async () => {
    const common = await done("PUT", "/aliases/chat", {
      targets: [target("llama"), { ...target("b"), priority: 1, weight: 3 }],
    });
    expect(common).toEqual({
      alias: "chat",
      account: null,
      targets: [
        { upstream: "main", model: "llama", priority: 0, weight: 1, drain: false },
        { upstream: "main", model: "b", priority: 1, weight: 3, drain: false },
      ],
      retry_on: [],
      margins: [
        { upstream: "main", model: "llama", units: {}, loss: false },
        { upstream: "main", model: "b", units: {}, loss: false },
      ],
    });
    const own = await done("PUT", "/aliases/chat", {
      account: "acme",
      targets: [target("b")],
      retry_on: [502, 500],
    });
    expect(own).toMatchObject({ account: "acme", retry_on: [502, 500] });
    expect(await done("GET", "/aliases/chat")).toEqual(common);
    expect(await done("GET", "/aliases/chat?account=acme")).toEqual(own);
    expect((await call("GET", "/aliases/chat?account=other")).status).toBe(404);
    expect((await done("GET", "/aliases?account=acme")).data).toEqual([own]);
    const first = await done("GET", "/aliases?limit=1");
    expect(first).toMatchObject({ data: [common], next_cursor: expect.any(String) });
    const rest = await done("GET", `/aliases?cursor=${encodeURIComponent(first.next_cursor)}`);
    expect(rest.data[0]).toEqual(own);
    await done("DELETE", "/aliases/chat?account=acme");
    expect(await done("GET", "/aliases/chat")).toEqual(common);
    await done("DELETE", "/aliases/chat");
    expect(await call("DELETE", "/aliases/chat")).toMatchObject(refusal(404, "not_found", "alias"));
  });

  it.each([
    ["ok", { targets: [] }, "targets"],
    ["ok", { targets: [{ model: "m" }] }, "targets.0.upstream"],
    ["ok", { targets: [target("m"), target("m", "nowhere")] }, "targets.1.upstream"],
    ["ok", { targets: [{ ...target("m"), priority: -1 }] }, "targets.0.priority"],
    ["ok", { targets: [{ ...target("m"), weight: 0 }] }, "targets.0.weight"],
    ["ok", { targets: [{ ...target("m"), region: "x" }] }, "targets.0.region"],
    ["ok", { targets: [target("m")], retry_on: [503] }, "retry_on.0"],
    ["ok", { targets: [target("m")], account: "nobody" }, "account"],
    ["ok", { targets: [target("m")], account: "gone" }, "account"],
    ["a:b", { targets: [target("m")] }, "alias"],
    ["a%20b", { targets: [target("m")] }, "alias"],
  ])("alias %s with %j is refused by its field", async (alias, body, param) => {
    expect(await call("PUT", `/aliases/${alias}`, body)).toMatchObject(bad(param));
  });

  it("a PATCH changes what it names and leaves the rest", async () => {
    const put = await done("PUT", "/aliases/kept", { targets: [target("one")], account: "acme", retry_on: [500] });
    const path = "/aliases/kept?account=acme";
    expect(await done("PATCH", path, {})).toEqual(put);
    expect(await done("PATCH", path, { targets: [target("two")] })).toMatchObject({
      account: "acme",
      targets: [{ model: "two" }],
      retry_on: [500],
    });
    await Promise.all([done("PATCH", path, { retry_on: [] }), done("PATCH", path, { targets: [target("three")] })]);
    expect(await done("GET", path)).toMatchObject({ targets: [{ model: "three" }], retry_on: [] });
    expect((await call("PATCH", "/aliases/kept", { retry_on: [] })).status).toBe(404);
    expect(await call("PATCH", path, { targets: [target("m", "nowhere")] })).toMatchObject(bad("targets.0.upstream"));
  });

  describe("an alias whose target costs more than it is sold for", () => {
    const atCost = (cost_usd: number) => ({ prices: { input_tokens: { cost_usd }, output_tokens: { cost_usd } } });
    const embedding = (cost: number) => ({ kind: "embedding", ...atCost(cost) });
    const loss = refusal(409, "alias_at_a_loss", "allow_loss");
    const pair = { targets: [target("cheap"), { ...target("dear"), priority: 1 }] };

    it("is refused with the figures, unless it is meant", async () => {
      await done("PUT", "/models/cheap", embedding(1));
      await done("PUT", "/models/dear", embedding(3));
      const refused = await call("PUT", "/aliases/lossy", pair);
      expect(refused).toMatchObject(loss);
      expect(refused.body.error.message).toMatch(/'lossy' sells input_tokens for 1 USD, .* 'dear' costs 3 USD/);
      expect((await call("GET", "/aliases/lossy")).status).toBe(404);
      const put = await done("PUT", "/aliases/lossy", { ...pair, allow_loss: true });
      expect(put.margins).toMatchObject([
        { model: "cheap", units: { input_tokens: { margin_usd: 0 } }, loss: false },
        { model: "dear", units: { input_tokens: { cost_usd: 3, price_usd: 1, margin_usd: -2 } }, loss: true },
      ]);
      // What was allowed once is not asked about again, a larger loss is.
      await done("PATCH", "/aliases/lossy", { retry_on: [500] });
      await done("PUT", "/models/dear/prices", atCost(2));
      expect(await call("PUT", "/models/dear/prices", atCost(4))).toMatchObject(loss);
      await done("DELETE", "/aliases/lossy");
    });

    it("comes of a price as well, of one to come too, and of a plan", async () => {
      await done("PUT", "/models/low", embedding(1));
      await done("PUT", "/models/high", embedding(1));
      await done("PUT", "/aliases/level", { targets: [target("low"), { ...target("high"), priority: 1 }] });
      const from = Date.now() + 3_600_000;
      const dated = await call("PUT", "/models/high/prices", { ...atCost(2), from });
      expect(dated).toMatchObject(loss);
      expect(dated.body.error.message).toContain(new Date(from).toISOString());
      expect(await call("PUT", "/models/high", embedding(2))).toMatchObject(loss);
      await done("PUT", "/models/level", {
        kind: "embedding",
        prices: { input_tokens: { cost_usd: 0, price_usd: 3 } },
      });
      await done("PUT", "/models/high/prices", { prices: { input_tokens: { cost_usd: 2 } }, from });
      const overrides = { level: { input_tokens: 1.5 } };
      for (const plan of [{ overrides }, { overrides, from: from + 1 }]) {
        const refused = await call("PATCH", "/accounts/acme", { plan });
        expect(refused).toMatchObject(loss);
        expect(refused.body.error.message).toContain("1.5 USD");
      }
      expect(await call("POST", "/accounts", { id: "lossy", name: "x", plan: { overrides } })).toMatchObject(loss);
      await done("POST", "/accounts", { id: "lossy", name: "x", plan: { overrides }, allow_loss: true });
      expect(await done("GET", "/accounts/acme")).toMatchObject({ plan: { overrides: {} }, next_plan: null });
    });
  });

  it("an unregistered instance may be anybody's target, a registered one its owner's alone", async () => {
    await done("PUT", "/aliases/free", { targets: [target("llama:77")] });
    await done("DELETE", "/aliases/free");
    await done("PUT", "/instances/77", { account: "acme", name: "llama", upstreams: ["main"] });
    for (const account of [null, "other"]) {
      expect(await call("PUT", "/aliases/free", { targets: [target("m"), target("llama:77")], account })).toMatchObject(
        refusal(409, "foreign_instance", "targets.1.model"),
      );
    }
    await done("PUT", "/aliases/free", { targets: [target("llama:77")], account: "acme" });
    expect(await call("PUT", "/instances/77", { account: "other", name: "llama", upstreams: ["main"] })).toMatchObject(
      refusal(409, "foreign_instance", "account"),
    );
  });
});

describe("instances", () => {
  it("an instance is put, read, listed by account and deleted", async () => {
    const put = await done("PUT", "/instances/1042", { account: "acme", name: "llama-7b", upstreams: ["main"] });
    expect(put).toEqual({
      instance_id: 1042,
      model: "llama-7b:1042",
      account: "acme",
      name: "llama-7b",
      upstreams: ["main"],
      kind: "chat",
      custom_api_path: null,
      hourly: null,
    });
    expect(await done("GET", "/instances/1042")).toEqual(put);
    expect((await done("GET", "/instances?account=other")).data).toEqual([]);
    expect((await done("GET", "/instances?account=acme")).data).toContainEqual(put);
    expect(await done("DELETE", "/instances/1042")).toEqual({ id: "1042", deleted: true });
    expect(await call("GET", "/instances/1042")).toMatchObject(refusal(404, "not_found", "instance"));
  });

  it.each(["v2/predict", "/v2/predict"])("a custom one's path is %s with or without its slash", async (path) => {
    const body = { account: "acme", name: "m", upstreams: ["main"], kind: "custom", custom_api_path: path };
    expect(await done("PUT", "/instances/77", body)).toMatchObject({ custom_api_path: "v2/predict" });
  });

  it.each([
    ["1", { account: "nobody" }, "account"],
    ["1", { upstreams: [] }, "upstreams"],
    ["1", { upstreams: ["main", "nowhere"] }, "upstreams.1"],
    ["1", { upstreams: ["main", "main"] }, "upstreams"],
    ["1", { name: "a:b" }, "name"],
    ["1", { kind: "video" }, "kind"],
    ["1", { kind: "custom" }, "custom_api_path"],
    ["1", { kind: "custom", custom_api_path: "" }, "custom_api_path"],
    ["1", { kind: "custom", custom_api_path: "/" }, "custom_api_path"],
    ["1", { kind: "custom", custom_api_path: "a//b" }, "custom_api_path"],
    ["1", { kind: "custom", custom_api_path: "a?b" }, "custom_api_path"],
    ["1", { kind: "custom", custom_api_path: "/a/../b" }, "custom_api_path"],
    ["1", { kind: "chat", custom_api_path: "/x" }, "custom_api_path"],
    ["0", {}, "instance_id"],
    ["abc", {}, "instance_id"],
  ])("instance %s with %j is refused by its field", async (id, body, param) => {
    const whole = { account: "acme", name: "m", upstreams: ["main"], ...body };
    expect(await call("PUT", `/instances/${id}`, whole)).toMatchObject(bad(param));
  });
});

describe("models", () => {
  it("a model is put with its prices, read and deleted; history is kept", async () => {
    const { history, ...old } = await done("PUT", "/models/llama", {
      ...CHAT,
      upstream: "main",
      context_tokens: 8192,
      part_tokens: 1700,
      cap_field: "max_completion_tokens",
    });
    expect(old).toEqual({
      model: "llama",
      kind: "chat",
      prices: {
        input_tokens: { cost_usd: 0.2, price_usd: 0.25 },
        output_tokens: { cost_usd: 0.2, price_usd: null },
      },
      free: false,
      from: expect.any(String),
      max_output_tokens: 4096,
      context_tokens: 8192,
      prompt_overhead_tokens: null,
      max_part_tokens: null,
      part_tokens: 1700,
      display_name: null,
      vram_gb: null,
      cap_field: "max_completion_tokens",
      upstream: "main",
    });
    expect(history).toEqual([old]);
    await afterNow(old.from);
    const { history: _, ...now } = await done("PUT", "/models/llama/prices", {
      prices: { input_tokens: { cost_usd: 1 } },
    });
    const soon = await done("PUT", "/models/llama/prices", { prices: CHAT.prices, from: Date.now() + 3_600_000 });
    expect(await done("GET", "/models/llama")).toEqual({ ...now, history: [soon, now, old] });
    expect((await done("GET", "/models")).data.filter((row: Json) => row.model === "llama")).toEqual([now]);
    const free = { from: soon.from, free: true, prices: { input_tokens: { cost_usd: 0 } } };
    await done("PUT", "/models/llama/prices", free);
    expect((await done("GET", "/models/llama")).history.map((row: Json) => row.free)).toEqual([true, false, false]);
    await done("DELETE", "/models/llama");
    expect(await call("GET", "/models/llama")).toMatchObject(refusal(404, "not_found", "model"));
    expect(await call("PUT", "/models/llama/prices", { prices: CHAT.prices })).toMatchObject(
      refusal(404, "not_found", "model"),
    );
  });

  it("where a model runs changes at once, and no price to come moves it", async () => {
    await done("PUT", "/upstreams/second", { base_url: "https://second.example", api_key: CREDENTIAL });
    await done("PUT", "/models/mover", { kind: "chat", max_output_tokens: 10, upstream: "main" });
    expect(await done("GET", "/models/mover")).toMatchObject({ prices: {}, from: null, history: [] });
    expect((await done("GET", "/models?cursor=move")).data[0]).toMatchObject({ model: "mover", from: null });
    const from = new Date(Date.now() + 3_600_000).toISOString();
    await done("PUT", "/models/mover/prices", { prices: CHAT.prices });
    await done("PUT", "/models/mover/prices", { prices: { input_tokens: { cost_usd: 9 } }, from });
    await done("PUT", "/models/mover", { kind: "chat", max_output_tokens: 20, upstream: "second" });
    const { history } = await done("GET", "/models/mover");
    expect(history).toMatchObject([
      { upstream: "second", max_output_tokens: 20, prices: { input_tokens: { cost_usd: 9 } } },
      { upstream: "second", max_output_tokens: 20, prices: { input_tokens: { cost_usd: 0.2 } } },
    ]);
    expect(await call("DELETE", "/upstreams/second")).toMatchObject(refusal(409, "upstream_in_use", null));
    expect(await done("DELETE", `/models/mover/prices/${from}`)).toEqual({ id: from, deleted: true });
    const dated = (time: string) => call("DELETE", `/models/mover/prices/${encodeURIComponent(time)}`);
    expect(await dated(from)).toMatchObject(refusal(404, "not_found", "from"));
    expect(await dated(history[1].from)).toMatchObject(refusal(409, "prices_in_force", "from"));
    expect(await dated("soon")).toMatchObject(bad("from"));
  });

  it("a row that a Worker of before writes keeps its model where it runs, until it holds", async () => {
    await done("PUT", "/models/elder", { ...CHAT, upstream: "main" });
    const write = (fromMs: number, upstream: string) =>
      env.BOOKS.prepare(
        "insert into models (model, from_ms, kind, costs, prices, free, upstream, max_output_tokens, created_ms) " +
          "values ('elder', ?1, 'chat', '{}', '{}', 1, ?2, 7, 1)",
      )
        .bind(fromMs, upstream)
        .run();
    const upstreams = async () => (await done("GET", "/models/elder")).history.map((row: Json) => row.upstream);
    await write(Date.now() + 3_600_000, "elsewhere");
    expect(await upstreams()).toEqual(["main", "main"]);
    await write(Date.now(), "elsewhere");
    expect(await upstreams()).toEqual(["elsewhere", "elsewhere", "elsewhere"]);
  });

  it("a PATCH changes what it names, at once and without a price; two at once undo nothing", async () => {
    const put = await done("PUT", "/models/patched", { ...CHAT, upstream: "main", context_tokens: 9, part_tokens: 3 });
    const patched = await done("PATCH", "/models/patched", { context_tokens: null, max_output_tokens: 5 });
    expect(patched).toMatchObject({ ...put, context_tokens: null, max_output_tokens: 5, history: expect.anything() });
    await Promise.all([
      done("PATCH", "/models/patched", { part_tokens: 4 }),
      done("PATCH", "/models/patched", { upstream: null }),
    ]);
    expect(await done("GET", "/models/patched")).toMatchObject({ part_tokens: 4, upstream: null, prices: put.prices });
    expect(await call("PATCH", "/models/patched", { max_output_tokens: null })).toMatchObject(bad("max_output_tokens"));
    expect(await call("PATCH", "/models/patched", { upstream: "nowhere" })).toMatchObject(bad("upstream"));
    expect(await call("PATCH", "/models/patched", { prices: CHAT.prices })).toMatchObject(bad("prices"));
    expect((await call("PATCH", "/models/nobody", {})).status).toBe(404);
  });

  it.each([
    [{ prices: CHAT.prices, from: Date.now() - 61_000 }, "from"],
    [{ prices: CHAT.prices, from: "2026-01-01" }, "from"],
    [{ prices: {} }, "prices"],
    [{}, "prices"],
    [{ prices: { gpu_hours: { cost_usd: 1 } } }, "prices.gpu_hours"],
    [{ prices: CHAT.prices, upstream: "main" }, "upstream"],
  ])("prices %j are refused by their field", async (body, param) => {
    await done("PUT", "/models/steady", CHAT);
    expect(await call("PUT", "/models/steady/prices", body)).toMatchObject(bad(param));
    expect(
      (await call("PUT", "/models/steady/prices", { prices: CHAT.prices, from: Date.now() - 30_000 })).status,
    ).toBe(200);
  });

  it("a model's name may have a colon or a slash", async () => {
    for (const name of ["llama-7b:1042", "meta/llama-3"]) {
      await done("PUT", `/models/${encodeURIComponent(name)}`, CHAT);
      expect((await done("GET", `/models/${encodeURIComponent(name)}`)).model).toBe(name);
    }
  });

  it.each([
    ["m", { kind: "audio" }, "kind"],
    ["m", { prices: {} }, "prices"],
    ["m", { prices: { miles: { cost_usd: 1 } } }, "prices.miles"],
    ["m", { prices: { input_tokens: {} } }, "prices.input_tokens.cost_usd"],
    ["m", { prices: { input_tokens: { cost_usd: 1, price_usd: 0 } } }, "prices.input_tokens.price_usd"],
    ["m", { prices: { input_tokens: { cost_usd: 0 } } }, "prices.input_tokens.cost_usd"],
    ["m", { prices: { input_tokens: { cost_usd: -1 } } }, "prices.input_tokens.cost_usd"],
    ["m", { prices: { input_tokens: { cost_usd: "0.0000000001" } } }, "prices.input_tokens.cost_usd"],
    ["m", { free: true }, "prices.input_tokens.price_usd"],
    ["m", { max_output_tokens: null }, "max_output_tokens"],
    ["m", { max_output_tokens: 0 }, "max_output_tokens"],
    ["m", { from: "yesterday" }, "from"],
    ["m", { from: "2099-01-01" }, "from"],
    ["m", { prices: undefined, free: true }, "free"],
    ["m", { upstream: "nowhere" }, "upstream"],
    ["m", { cap_field: "max_output_tokens" }, "cap_field"],
    ["m", { kind: "embedding", cap_field: "max_completion_tokens" }, "cap_field"],
    ["a%20b", {}, "model"],
    ["__proto__", {}, "model"],
  ])("model %s with %j is refused by its field", async (model, body, param) => {
    expect(await call("PUT", `/models/${model}`, { ...CHAT, ...body })).toMatchObject(bad(param));
  });

  describe("what is rented has names and units of its own", () => {
    const GPU = { kind: "gpu", prices: { gpu_hours: { cost_usd: 2, price_usd: 2.5 } } };
    const put = (model: string, body: Json) => call("PUT", `/models/${encodeURIComponent(model)}`, body);

    it("a GPU and storage are sold by rows of the price book", async () => {
      expect(await put("gpu/H100%20SXM", { ...GPU, display_name: "H100", vram_gb: 80 })).toMatchObject({
        status: 200,
        body: { model: "gpu/H100%20SXM", display_name: "H100", vram_gb: 80, prices: GPU.prices },
      });
      const storage = { kind: "storage", prices: { storage_gb_days: { cost_usd: 0.003 } } };
      expect(await put("storage/drive", storage)).toMatchObject({ status: 200 });
    });

    it.each<[string, string, Json, string]>([
      ["a GPU under a model's name", "h100", GPU, "model"],
      ["a model under a GPU's name", "gpu/H100", CHAT, "model"],
      ["storage of an unknown sort", "storage/tape", { ...GPU, kind: "storage" }, "model"],
      ["a GPU priced by tokens", "gpu/A", { ...GPU, prices: CHAT.prices }, "prices.input_tokens"],
      ["a model priced by GPU-hours", "a", { ...CHAT, prices: GPU.prices }, "prices.gpu_hours"],
      ["a GPU at an upstream", "gpu/A", { ...GPU, upstream: "main" }, "upstream"],
      ["a GPU for nothing", "gpu/A", { ...GPU, free: true, prices: { gpu_hours: { cost_usd: 1 } } }, "free"],
    ])("%s is refused", async (_, model, body, param) => {
      expect(await put(model, body)).toMatchObject(bad(param));
    });
  });

  it("a cost of zero is fine where there is a price, and a free model needs none", async () => {
    await done("PUT", "/models/own-hardware", { ...CHAT, prices: { input_tokens: { cost_usd: 0, price_usd: 1 } } });
    await done("PUT", "/models/gift", { ...CHAT, free: true, prices: { input_tokens: { cost_usd: 1 } } });
  });
});

describe("the edge", () => {
  it("what was just made is found by an isolate that knew nothing of it, with KV stale", async () => {
    const context = createExecutionContext();
    const empty = JSON.stringify({ version: 1, builtAtMs: 1, upstreams: {}, aliases: {}, models: {}, instances: {} });
    const kv = { get: async () => JSON.parse(empty), put: async () => undefined } as unknown as KVNamespace;
    const directory = openDirectory(
      {
        kv,
        books: env.BOOKS,
        findKey: async () => undefined,
        now: () => Date.now(),
        waitUntil: (work) => context.waitUntil(work),
        log: () => undefined,
      },
      newEdgeState(),
    );
    expect((await directory.routing()).aliases).toEqual({});
    await done("PUT", "/models/brand-new", { ...CHAT, upstream: "main" });
    expect((await directory.refresh("acme")).models).toHaveProperty("brand-new");
    await done("PUT", "/aliases/brand-new-alias", { targets: [target("brand-new")] });
    expect((await directory.refresh("acme")).aliases).toHaveProperty([" brand-new-alias"]);
    await waitOnExecutionContext(context);
  });
});
