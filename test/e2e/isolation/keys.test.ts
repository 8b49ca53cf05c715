/**
 * The life of keys through the real process: what they may do by their role, what bodies and ids they may send, and
 * that their end holds from the moment it is answered.
 */
import { beforeAll, describe, expect, test } from "vitest";
import type { Tenant } from "../../support/tenant.ts";
import { world } from "../../support/world.ts";

const { operator } = world();

interface Made {
  readonly id: string;
  readonly key: string;
}
interface Reply {
  readonly status: number;
  readonly text: string;
}

let tenant: Tenant;
let model: string;
let owner: Made;
let admin: Made;
let member: Made;
let team: string;
/** A key and a team of somebody else. */
let foreign: { account: string; key: string; team: string };

const newTeam = async (account: string): Promise<string> =>
  (await operator.call<{ id: string }>("POST", `/accounts/${account}/teams`, { name: "team" })).id;

beforeAll(async () => {
  tenant = await operator.tenant();
  model = await operator.instance(tenant);
  owner = await operator.key(tenant.account, { role: "owner" });
  admin = await operator.key(tenant.account, { role: "admin" });
  member = await operator.key(tenant.account);
  team = await newTeam(tenant.account);
  const other = await operator.tenant();
  foreign = { account: other.account, key: other.keyId, team: await newTeam(other.account) };
});

async function as({ key }: { key: string }, method: string, path: string, body?: unknown): Promise<Reply> {
  const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };
  const init = { method, headers, ...(body !== undefined && { body: JSON.stringify(body) }) };
  const response = await tenant.fetch(path, init);
  return { status: response.status, text: await response.text() };
}

const chat = (key: { key: string }): Promise<Reply> =>
  as(key, "POST", "/v1/chat/completions", { model, max_tokens: 1, messages: [{ role: "user", content: "Hi" }] });

describe("a key that ends, under load", () => {
  type End = (key: Made, keysTeam: string) => Promise<unknown>;
  const path = (rest: string) => `/accounts/${tenant.account}${rest}`;
  const byOwner = async (method: string, to: string, body?: unknown) =>
    expect((await as(owner, method, to, body)).status).toBe(200);
  test.each<[string, End]>([
    ["revoked", ({ id }) => operator.call("DELETE", path(`/keys/${id}`))],
    ["blocked", ({ id }) => operator.call("PATCH", path(`/keys/${id}`), { blocked: true })],
    ["rotated", ({ id }) => operator.call("POST", path(`/keys/${id}/rotate`), {})],
    ["its team deleted", (_, its) => operator.call("DELETE", path(`/teams/${its}`))],
    ["revoked by its owner", ({ id }) => byOwner("DELETE", `/account/keys/${id}`)],
    ["its team blocked by its owner", (_, its) => byOwner("PATCH", `/account/teams/${its}`, { blocked: true })],
  ])("%s: every call that came after the answer is refused, and what was served before is charged", async (_, end) => {
    const its = await newTeam(tenant.account);
    const key = await operator.key(tenant.account, { team: its });
    let answered = false;
    const [before, after]: [Reply[], Reply[]] = [[], []];
    const client = async (at: number) => {
      for (let calls = 0; calls < 500; calls++) {
        const late = answered;
        const reply = (at + calls) % 4 === 0 ? await as(key, "GET", "/v1/models") : await chat(key);
        (late ? after : before).push(reply);
        if (late) return;
      }
    };
    const load = Promise.all(Array.from({ length: 12 }, (_, at) => client(at)));
    await new Promise((resolve) => setTimeout(resolve, 100));
    await end(key, its);
    answered = true;
    after.push(await chat(key), await as(key, "GET", "/account"));
    await load;
    expect(before.some(({ status }) => status === 200)).toBe(true);
    expect(new Set(after.map(({ status }) => status))).toEqual(new Set([401]));
    const served = before.filter(({ status, text }) => status === 200 && text.includes("chat.completion")).length;
    const charged = async () => (await tenant.charges()).filter((charge) => charge.key === key.id).length;
    await expect.poll(charged).toBe(served);
  });
});

test("new keys work at once, twenty at a time, made by the operator, an owner and an admin", async () => {
  const byKey = async (maker: Made): Promise<Made> =>
    JSON.parse((await as(maker, "POST", "/account/keys", { name: "new" })).text) as Made;
  const makers = [() => operator.key(tenant.account), () => byKey(owner), () => byKey(admin)];
  const replies = await Promise.all(Array.from({ length: 21 }, async (_, at) => chat(await makers[at % 3]!())));
  expect(new Set(replies.map(({ status }) => status))).toEqual(new Set([200]));
});

test("a secret is shown once: lists and reads have its last four characters", async () => {
  const made = await operator.key(tenant.account);
  for (const { text } of [
    await as(owner, "GET", "/account/keys?limit=1000"),
    await as(owner, "GET", `/account/keys/${made.id}`),
    await as(made, "GET", "/account"),
  ]) {
    expect(text).toContain(`"last_four":"${made.key.slice(-4)}"`);
    expect(text).not.toContain(made.key.slice(6, -4));
  }
});

type Paths = Record<string, Record<string, { requestBody?: unknown }>>;
async function documented(path: string): Promise<[method: string, path: string, hasBody: boolean][]> {
  const answer = path.startsWith("/admin")
    ? await operator.call<{ paths: Paths }>("GET", "/openapi.json")
    : ((await (await tenant.fetch(path)).json()) as { paths: Paths });
  return Object.entries(answer.paths).flatMap(([at, methods]) =>
    Object.entries(methods).map(([method, { requestBody }]): [string, string, boolean] => [
      method.toUpperCase(),
      at,
      requestBody !== undefined,
    ]),
  );
}
const selfService = async () =>
  (await documented("/openapi.json")).filter(([, path]) => /^\/(account|billing)\b/.test(path));

describe("roles", () => {
  /** What everybody may read of itself. */
  const OPEN = ["GET /account", "GET /account/usage", "GET /account/calls", "GET /billing/balance"];

  test("a member's key reaches nothing that is an owner's or an admin's, with real ids and unknown ones", async () => {
    const routes = await selfService();
    expect(routes.length).toBeGreaterThan(14);
    for (const [method, path, hasBody] of routes) {
      for (const [key, its] of [
        [admin.id, team],
        [foreign.key, foreign.team],
        ["key_nothing", "team_nothing"],
      ] as const) {
        const at = path.replace("{key}", key).replace("{team}", its);
        const { status } = await as(member, method, at, hasBody ? { name: "x" } : undefined);
        // The bodies of rotations and webhooks have no name: refused for that, or for the role, and never done.
        const nameless = path.endsWith("/rotate") || path.startsWith("/account/webhooks");
        const expected = OPEN.includes(`${method} ${path}`) ? [200] : nameless ? [400, 403] : [403];
        expect(expected, `${method} ${at}`).toContain(status);
      }
    }
    expect((await chat(admin)).status).toBe(200);
  });

  test("an admin's key does not read an owner's transactions, and touches no owner's key", async () => {
    expect((await as(admin, "GET", "/billing/transactions")).status).toBe(403);
    expect((await as(owner, "GET", "/billing/transactions")).status).toBe(200);
    for (const [method, rest, body] of [
      ["PATCH", "", { blocked: true }],
      ["DELETE", "", undefined],
      ["POST", "/rotate", {}],
    ] as const) {
      expect((await as(admin, method, `/account/keys/${owner.id}${rest}`, body)).status).toBe(403);
    }
    expect((await chat(owner)).status).toBe(200);
  });
});

describe("bodies and queries", () => {
  const unit = { cost_usd: 1, price_usd: 2 };
  /** A body that is good but for what the test puts in. */
  const BODIES: Record<string, object> = {
    "POST /admin/accounts": { name: "x" },
    "PATCH /admin/accounts/{account}": {},
    "POST /admin/accounts/{account}/credits": { amount_usd: 1, reference: "r" },
    "POST /admin/accounts/{account}/compute/stop": {},
    "POST /admin/accounts/{account}/teams": { name: "x" },
    "PATCH /admin/accounts/{account}/teams/{team}": {},
    "POST /admin/accounts/{account}/keys": { name: "x" },
    "PATCH /admin/accounts/{account}/keys/{key}": {},
    "POST /admin/accounts/{account}/keys/{key}/rotate": {},
    "POST /admin/keys/lookup": { last_four: "abcd" },
    "POST /admin/operators": { name: "x", role: "read" },
    "PATCH /admin/operators/{operator}": {},
    "POST /admin/compute/{upstream}/terminate": { kind: "drive", upstream_id: 1 },
    "PUT /admin/upstreams/{upstream}": { base_url: "https://x.example", api_key: "k" },
    "PATCH /admin/upstreams/{upstream}": {},
    "POST /admin/upstreams/{upstream}/check": {},
    "PUT /admin/aliases/{alias}": { targets: [{ upstream: "sandbox", model: "llama-7b" }] },
    "PATCH /admin/aliases/{alias}": {},
    "PUT /admin/instances/{instance_id}": { account: "x", name: "x", upstreams: ["sandbox"] },
    "PATCH /admin/instances/{instance_id}": {},
    "PUT /admin/compute-templates/{id}": { name: "x", defaults: {} },
    "PUT /admin/models/{model}": { kind: "embedding", prices: { input_tokens: unit } },
    "PATCH /admin/models/{model}": {},
    "PUT /admin/models/{model}/prices": { prices: { input_tokens: unit } },
    "POST /admin/webhooks": { url: "https://hooks.example.com/", events: ["balance.low"] },
    "PATCH /admin/webhooks/{webhook}": {},
    "POST /account/webhooks": { url: "https://hooks.example.com/", events: ["balance.low"] },
    "PATCH /account/webhooks/{webhook}": {},
    "POST /account/keys": { name: "x" },
    "PATCH /account/keys/{key}": {},
    "POST /account/keys/{key}/rotate": {},
    "POST /account/teams": { name: "x" },
    "PATCH /account/teams/{team}": {},
  };

  test("a field or a query that a call does not know is 400 with its name, on every call there is", async () => {
    const routes = [...(await documented("/admin/openapi.json")), ...(await selfService())];
    for (const [method, path, hasBody] of routes) {
      const named = path
        .replace("{account}", tenant.account)
        .replace("{key}", member.id)
        .replace("{team}", team)
        .replace("{instance_id}", "7")
        .replace(/\{\w+\}/g, "nothing");
      const send = async (to: string, body?: unknown) => {
        if (!path.startsWith("/admin")) return as(owner, method, to, body);
        const { status, body: said } = await operator.ask(method, to.replace("/admin", ""), body);
        return { status, text: JSON.stringify(said) };
      };
      const good = BODIES[`${method} ${path}`];
      expect(good !== undefined, `${method} ${path} is in the table above`).toBe(hasBody);
      const spoilt = good && { ...good, surprise: 1 };
      if (spoilt) expect(await send(named, spoilt)).toEqual({ status: 400, text: expect.stringContaining("surprise") });
      // What a query must have comes before what it may not.
      const asked = path === "/admin/export" ? "kind=ledger&account=nobody&" : "";
      expect(await send(`${named}?${asked}surprise=1`, good), `${method} ${path}?surprise=1`).toEqual({
        status: 400,
        text: expect.stringContaining("surprise"),
      });
    }
  });
});

describe("ids of another account", () => {
  test("answer as unknown ones do, for owners and in the operator's API", async () => {
    const routes = [...(await documented("/admin/openapi.json")), ...(await selfService())];
    const withIds = routes.filter(([, path]) => /\{(key|team)\}/.test(path));
    expect(withIds.length).toBeGreaterThanOrEqual(14);
    for (const [method, path, hasBody] of withIds) {
      const send = async (key: string, its: string) => {
        const to = path.replace("{account}", tenant.account).replace("{key}", key).replace("{team}", its);
        const body = hasBody ? {} : undefined;
        const reply = path.startsWith("/admin")
          ? await operator.ask(method, to.replace("/admin", ""), body).then((answer) => ({
              status: answer.status,
              text: JSON.stringify(answer.body),
            }))
          : await as(owner, method, to, body);
        return { status: reply.status, text: reply.text.replaceAll(key, "ID").replaceAll(its, "ID") };
      };
      const theirs = await send(foreign.key, foreign.team);
      expect(theirs.status, `${method} ${path}`).toBe(404);
      expect(theirs).toEqual(await send("key_0000000000000000", "team_0000000000000000"));
    }
    const body = { name: "x", team: foreign.team };
    expect((await as(owner, "POST", "/account/keys", body)).status).toBe(400);
    expect((await operator.ask("POST", `/accounts/${tenant.account}/keys`, body)).status).toBe(400);
    const untouched = `/accounts/${foreign.account}`;
    expect(await operator.call("GET", `${untouched}/keys/${foreign.key}`)).toMatchObject({ revoked_at: null });
    expect(await operator.call("GET", `${untouched}/teams/${foreign.team}`)).toMatchObject({ deleted_at: null });
  });
});
