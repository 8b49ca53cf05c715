/** `Idempotency-Key` on POSTs of the operator and of self-service: carried out once, and no secret kept for it. */
import { env } from "cloudflare:workers";
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from "vitest";
import { keyed, keyedBy } from "../support/worker/idempotent.ts";
import { done, type Json, refusal, settled } from "../support/worker/operator.ts";
import { as, keyOf } from "../support/worker/tenant.ts";

afterAll(settled);
afterEach(() => vi.restoreAllMocks());

let owner: Json;
beforeAll(async () => {
  await done("POST", "/accounts", { id: "once", name: "Once" });
  owner = await keyOf("once", { role: "owner" });
});

const keysNamed = async (name: string) =>
  ((await done("GET", "/accounts/once/keys?limit=1000")).data as Json[]).filter((key) => key.name === name);
const conflict = (message: string) => ({
  status: 409,
  body: { error: { code: "idempotency_error", type: "idempotency_error", message: expect.stringContaining(message) } },
});

describe("a repeat with the same Idempotency-Key", () => {
  it("of a new key is the same record without its secret, and makes nothing", async () => {
    const first = await keyed("POST", "/accounts/once/keys", { name: "a" }, "a1");
    const again = await keyed("POST", "/accounts/once/keys", { name: "a" }, "a1");
    expect(first.status).toBe(201);
    expect(first.body.key).toMatch(/^sk-tg-/);
    expect(again).toMatchObject({ status: 201, body: { ...first.body, key: null } });
    expect(await keysNamed("a")).toHaveLength(1);
  });

  it("of a rotation rotates once; of a new operator shows no token; of a credit books once", async () => {
    const { id } = await keyOf("once");
    const [rotated, again] = [await rotate(id, "r1"), await rotate(id, "r1")];
    expect(rotated.body.key).toMatch(/^sk-tg-/);
    expect(again.body).toEqual({ ...rotated.body, key: null });
    expect((await as(rotated.body.key, "GET", "/account")).status).toBe(200);
    const made = await keyed("POST", "/operators", { name: "x", role: "read" }, "o1");
    const repeated = await keyed("POST", "/operators", { name: "x", role: "read" }, "o1");
    expect(repeated.body).toEqual({ ...made.body, token: null });
    const credit = { amount_usd: 3, reference: "c1" };
    const booked = await keyed("POST", "/accounts/once/credits", credit, "c1");
    expect(await keyed("POST", "/accounts/once/credits", credit, "c1")).toMatchObject({
      status: 201,
      body: booked.body,
    });
  });

  it("with another body or another path is 409, and the key's name says nothing elsewhere", async () => {
    await keyed("POST", "/accounts/once/teams", { name: "t" }, "t1");
    expect(await keyed("POST", "/accounts/once/teams", { name: "u" }, "t1")).toMatchObject(conflict("another request"));
    expect(await keyed("POST", "/accounts/once/keys", { name: "t" }, "t1")).toMatchObject(conflict("another request"));
    const other = await done("POST", "/operators", { name: "other", role: "owner" });
    const theirs = await keyed("POST", "/accounts/once/teams", { name: "u" }, "t1", other.token);
    expect(theirs.status).toBe(201);
    expect((await keyedBy(owner.key, "POST", "/account/teams", { name: "v" }, "t1")).status).toBe(201);
  });

  it("of tenants is their own: each virtual key has its keys", async () => {
    const second = await keyOf("once", { role: "owner" });
    const first = await keyedBy(owner.key, "POST", "/account/keys", { name: "mine" }, "k1");
    const again = await keyedBy(owner.key, "POST", "/account/keys", { name: "mine" }, "k1");
    expect(again.body).toEqual({ ...first.body, key: null });
    const foreign = await keyedBy(second.key, "POST", "/account/keys", { name: "mine" }, "k1");
    expect(foreign.body.id).not.toBe(first.body.id);
    expect(foreign.body.key).toMatch(/^sk-tg-/);
    expect((await as(foreign.body.key, "GET", "/account")).status).toBe(200);
  });

  it("after a refusal is a call like the first: a refused one keeps nothing", async () => {
    const body = { name: "late", team: "team_none" };
    expect((await keyed("POST", "/accounts/once/keys", body, "late")).status).toBe(400);
    expect((await keyed("POST", "/accounts/once/keys", { name: "late" }, "late")).status).toBe(201);
  });

  it("gets one made anew where the record is too long to keep", async () => {
    const body = { name: "long", metadata: { note: "x".repeat(500), more: "y".repeat(500), last: "z".repeat(500) } };
    const models = Array.from({ length: 40 }, (_, at) => `model-${at}`);
    const first = await keyed("POST", "/accounts/once/keys", { ...body, models }, "long");
    const again = await keyed("POST", "/accounts/once/keys", { ...body, models }, "long");
    expect(again.body).toEqual({ ...first.body, key: null });
    expect(await keysNamed("long")).toHaveLength(1);
  });

  it("leaves one row in the log of changes, and no secret in the books", async () => {
    const { body } = await keyed("POST", "/accounts/once/keys", { name: "logged" }, "logged");
    await keyed("POST", "/accounts/once/keys", { name: "logged" }, "logged");
    const events: Json[] = (await done("GET", "/events?account=once&action=createKey")).data;
    expect(events.filter(({ after }) => after.name === "logged")).toHaveLength(1);
    const rows = JSON.stringify((await env.BOOKS.prepare("select * from idempotent_calls").all()).results);
    expect(rows).toContain(body.id);
    for (const secret of [body.key, "sk-tg-", "tg-op-", "logged-key"]) expect(rows).not.toContain(secret);
  });

  it("is forgotten after 24 h: then it makes another one, under another id", async () => {
    const first = await keyed("POST", "/accounts/once/keys", { name: "day" }, "day");
    await env.BOOKS.prepare("update idempotent_calls set begun_ms = begun_ms - 86400001").run();
    const next = await keyed("POST", "/accounts/once/keys", { name: "day" }, "day");
    expect(next.body.id).not.toBe(first.body.id);
    expect(next.body.key).toMatch(/^sk-tg-/);
  });
});

describe("an Idempotency-Key", () => {
  it("has 1 to 255 characters, whatever they are", async () => {
    const send = (key: string) => keyed("POST", "/accounts/once/teams", { name: "t" }, key);
    expect(await send("")).toMatchObject(refusal(400, "invalid_request_error", "idempotency-key"));
    expect(await send("x".repeat(256))).toMatchObject(refusal(400, "invalid_request_error", "idempotency-key"));
    for (const odd of ["x".repeat(255), "' or 1=1 --", "a, b", "\u00e9\u00ff", "operator ADMIN_TOKEN"]) {
      const [first, again] = [await send(odd), await send(odd)];
      expect([first.status, again.body]).toEqual([201, first.body]);
    }
  });

  it("of calls that come at once carries out one, and the others get its record", async () => {
    const answers = await Promise.all(
      Array.from({ length: 6 }, () => keyed("POST", "/accounts/once/keys", { name: "race" }, "race")),
    );
    expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 201));
    expect(answers.filter(({ body }) => body.key !== null)).toHaveLength(1);
    expect(new Set(answers.map(({ body }) => body.id)).size).toBe(1);
    expect(await keysNamed("race")).toHaveLength(1);
  });

  it("opens nothing to a key that may not manage", async () => {
    const member = await keyOf("once");
    expect((await keyedBy(member.key, "POST", "/account/keys", { name: "x" }, "m1")).status).toBe(403);
  });
});

describe("a crash between the work and its record", () => {
  /** What a Worker that ends leaves behind: the row is claimed, and nobody answers it. */
  const forget = () =>
    env.BOOKS.prepare("update idempotent_calls set status = null, reply = null, claimed_until_ms = 0").run();

  it.each<[string, string, object, string]>([
    ["a key", "/accounts/once/keys", { name: "crash" }, "key"],
    ["a team", "/accounts/once/teams", { name: "crash" }, "none"],
    ["an account with an id", "/accounts", { id: "crashed", name: "C", balance_usd: 5 }, "none"],
    ["an account without one", "/accounts", { name: "C", balance_usd: 5 }, "none"],
    ["an operator", "/operators", { name: "crash", role: "read" }, "token"],
  ])("makes %s once", async (what, path, body, secret) => {
    const first = await keyed("POST", path, body, `crash ${what}`);
    await forget();
    const again = await keyed("POST", path, body, `crash ${what}`);
    expect(again.status).toBe(201);
    expect(again.body).toEqual({ ...first.body, ...(secret !== "none" && { [secret]: null }) });
  });

  it("rotates once: the secret that was not answered is lost, and another rotation gives one", async () => {
    const { id } = await keyOf("once");
    const first = await rotate(id, "crash r");
    await forget();
    const again = await rotate(id, "crash r");
    expect(again.body).toEqual({ ...first.body, key: null });
    const next = await rotate(id, "crash r2");
    expect((await as(next.body.key, "GET", "/account")).status).toBe(200);
  });

  it("is waited for: a claimed call that nobody answers is 409, and free a minute later", async () => {
    await keyed("POST", "/accounts/once/teams", { name: "claimed" }, "claimed");
    const until = Date.now() + 600_000;
    await env.BOOKS.prepare("update idempotent_calls set status = null, claimed_until_ms = ?1").bind(until).run();
    // The clock of the call alone: it waits no longer than it may.
    const real = Date.now;
    let ahead = 0;
    vi.spyOn(Date, "now").mockImplementation(() => {
      ahead += 3_000;
      return real() + ahead;
    });
    expect(await keyed("POST", "/accounts/once/teams", { name: "claimed" }, "claimed")).toMatchObject(
      conflict("still running"),
    );
    vi.restoreAllMocks();
    await env.BOOKS.prepare("update idempotent_calls set claimed_until_ms = ?1")
      .bind(Date.now() - 1)
      .run();
    expect((await keyed("POST", "/accounts/once/teams", { name: "claimed" }, "claimed")).status).toBe(201);
  });

  it("leaves an account's id to whom it belongs: another call's account is no repeat", async () => {
    await done("POST", "/accounts", { id: "taken", name: "Taken" });
    expect(await keyed("POST", "/accounts", { id: "taken", name: "Taken" }, "taken")).toMatchObject(
      refusal(409, "account_exists", "id"),
    );
  });
});

it("every POST of both APIs that changes something takes one, and says so", async () => {
  const { paths } = await done("GET", "/openapi.json");
  const posts = Object.entries(paths as Json).flatMap(([path, calls]) => {
    const post = (calls as Json).post;
    return post ? [[path, post.parameters.some(({ name }: Json) => name === "Idempotency-Key")]] : [];
  });
  expect(posts.length).toBeGreaterThan(8);
  expect(posts.filter(([, takes]) => !takes)).toEqual([["/admin/keys/lookup", false]]);
});

it("every answer with a secret names it, so that no repeat shows it", async () => {
  const { paths, components } = await done("GET", "/openapi.json");
  const secrets: string[] = [];
  for (const [path, calls] of Object.entries(paths as Json)) {
    for (const answer of Object.values(((calls as Json).post?.responses ?? {}) as Json) as Json[]) {
      const name = answer.content["application/json"].schema.$ref?.split("/").at(-1);
      const properties = components.schemas[name]?.properties ?? {};
      for (const field of ["key", "token", "secret"]) {
        if (properties[field]?.description?.includes("shown")) secrets.push(`${path} ${field}`);
      }
    }
  }
  for (const at of secrets) expect(at).toMatch(/((keys|rotate|operators) (key|token)|webhooks secret|rotate secret)$/);
});

function rotate(id: string, idempotencyKey: string) {
  return keyed("POST", `/accounts/once/keys/${id}/rotate`, {}, idempotencyKey);
}
