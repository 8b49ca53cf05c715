/** What an account, and a key of it, may have of what takes no money. */
import { env } from "cloudflare:workers";
import { afterAll, describe, expect, it, vi } from "vitest";
import { BodyRoom } from "../../src/core/uploads/upload-limiter.ts";
import { capsOf } from "../../src/platform/account/settings.ts";
import type { PlatformPorts } from "../../src/platform/ports.ts";
import { rows } from "../support/worker/account-support.ts";
import { call, done, refusal, settled } from "../support/worker/operator.ts";
import { allowedMs } from "../support/worker/slowness.ts";
import { as, keyOf } from "../support/worker/tenant.ts";

afterAll(settled);

/** Numbers from 1 on, as a table. */
const numbers = (count: number) =>
  `(WITH RECURSIVE n(value) AS (VALUES (1) UNION ALL SELECT value + 1 FROM n LIMIT ${count}) SELECT value FROM n)`;

/** So many characters as JSON: ten entries of up to 400 and one of the rest. */
function metadataOf(chars: number, filler: string): Record<string, string> {
  const some = Object.fromEntries(
    Array.from({ length: 10 }, (_, index) => [`k${index}`, filler.repeat(Math.min(400, chars / 11))]),
  );
  const left = chars - JSON.stringify({ ...some, rest: "" }).length;
  return { ...some, rest: filler.repeat(left) };
}

describe("caps on what takes no money", () => {
  it("one key or team more is 409, for the operator and for owners, until one is ended", async () => {
    const { number } = await done("POST", "/accounts", { id: "capped", name: "capped" });
    const object = env.ACCOUNTS.getByName(String(number));
    await rows(
      object,
      `INSERT INTO keys (id, last_four, fields, created_at_ms)
       SELECT 'filler' || value, 'xxxx', '{"team":null,"role":"member","limits":{}}', 0 FROM ${numbers(9_998)}`,
    );
    await rows(
      object,
      `INSERT INTO teams (id, fields, created_at_ms) SELECT 'filler' || value, '{"limits":{}}', 0 FROM ${numbers(9_999)}`,
    );
    const owner = await done("POST", "/accounts/capped/keys", { name: "owner", role: "owner" });
    const last = await done("POST", "/accounts/capped/keys", { name: "last" });
    expect(await call("POST", "/accounts/capped/keys", { name: "more" })).toMatchObject(
      refusal(409, "too_many_keys", null),
    );
    const team = await done("POST", "/accounts/capped/teams", { name: "last" });
    expect(await call("POST", "/accounts/capped/teams", { name: "more" })).toMatchObject(
      refusal(409, "too_many_teams", null),
    );
    const make = (what: "keys" | "teams") => as(owner.key, "POST", `/account/${what}`, { name: "mine" });
    expect(await make("keys")).toMatchObject(refusal(409, "too_many_keys", null));
    expect(await make("teams")).toMatchObject(refusal(409, "too_many_teams", null));
    await done("DELETE", `/accounts/capped/keys/${last.id}`);
    await done("DELETE", `/accounts/capped/teams/${team.id}`);
    expect((await make("keys")).status).toBe(201);
    expect((await make("teams")).status).toBe(201);
  });

  it("the caps are the operator's to set", () => {
    expect(capsOf({ MAX_KEYS_PER_ACCOUNT: "3", MAX_TEAMS_PER_ACCOUNT: "2" })).toEqual({ keys: 3, teams: 2 });
    expect(capsOf(env)).toEqual({ keys: 10_000, teams: 10_000 });
  });

  it.each<[string, Record<string, unknown>, number]>([
    ["200 models", { models: Array.from({ length: 200 }, (_, index) => `m${index}`) }, 201],
    ["201 models", { models: Array.from({ length: 201 }, (_, index) => `m${index}`) }, 400],
    ["a model's name of 257", { models: ["m".repeat(257)] }, 400],
    ["4,096 bytes of metadata", { metadata: metadataOf(4_096, "x") }, 201],
    ["4,097 bytes of metadata", { metadata: metadataOf(4_097, "x") }, 400],
    ["metadata of 2,100 characters, each of two bytes", { metadata: metadataOf(2_100, "é") }, 400],
  ])("a key's own size: %s", async (_, fields, status) => {
    await call("POST", "/accounts", { id: "sized", name: "sized" });
    const answer = await call("POST", "/accounts/sized/keys", { name: "k", ...fields });
    expect(answer.status).toBe(status);
  });

  /** JSON of exactly so many bytes, of characters of two, three and four bytes. */
  function wideMetadata(bytes: number): Record<string, string> {
    const size = (value: unknown) => new TextEncoder().encode(JSON.stringify(value)).length;
    const some: Record<string, string> = {};
    for (const [index, filler] of [..."é漢😀"].entries()) some[`k${index}`] = filler.repeat(200);
    for (let index = 0; size(some) < bytes - 450; index++) some[`f${index}`] = "é".repeat(200);
    const left = bytes - size({ ...some, rest: "" });
    return { ...some, rest: "é".repeat(Math.floor(left / 2)) + "x".repeat(left % 2) };
  }

  it("at the very byte, in wide characters, made and amended, by the operator and by an owner", async () => {
    await done("POST", "/accounts", { id: "wide", name: "wide" });
    const owner = await done("POST", "/accounts/wide/keys", { name: "owner", role: "owner" });
    const { id } = await done("POST", "/accounts/wide/keys", { name: "k" });
    const models = (count: number) => ({ models: Array.from({ length: count }, (_, index) => `m${index}`) });
    const sizes: [Record<string, unknown>, boolean][] = [
      [{ metadata: wideMetadata(4_096) }, true],
      [{ metadata: wideMetadata(4_097) }, false],
      [models(200), true],
      [models(201), false],
    ];
    for (const [fields, fits] of sizes) {
      const ways = [
        call("POST", "/accounts/wide/keys", { name: "new", ...fields }),
        call("PATCH", `/accounts/wide/keys/${id}`, fields),
        as(owner.key, "POST", "/account/keys", { name: "new", ...fields }),
        as(owner.key, "PATCH", `/account/keys/${id}`, fields),
      ];
      const statuses = (await Promise.all(ways)).map(({ status }) => status);
      expect(statuses).toEqual(fits ? [201, 200, 201, 200] : [400, 400, 400, 400]);
    }
  });

  it("64 at once, where room is for ten: ten are made, and no more", async () => {
    const { number } = await done("POST", "/accounts", { id: "crowded", name: "crowded" });
    const object = env.ACCOUNTS.getByName(String(number));
    await rows(
      object,
      `INSERT INTO keys (id, last_four, fields, created_at_ms)
       SELECT 'crowd' || value, 'xxxx', '{"team":null,"role":"member","limits":{}}', 0 FROM ${numbers(9_990)}`,
    );
    await rows(
      object,
      `INSERT INTO teams (id, fields, created_at_ms) SELECT 'crowd' || value, '{"limits":{}}', 0 FROM ${numbers(9_990)}`,
    );
    for (const what of ["keys", "teams"]) {
      const creates = Array.from({ length: 64 }, (_, index) =>
        call("POST", `/accounts/crowded/${what}`, { name: `n${index}` }),
      );
      const statuses = (await Promise.all(creates)).map(({ status }) => status).sort();
      expect([what, statuses]).toEqual([what, [...Array(10).fill(201), ...Array(54).fill(409)]]);
    }
  });

  it("a body at the most values that are taken is answered within a second, and one above at once", async () => {
    await done("POST", "/accounts", { id: "listed", name: "listed" });
    for (const count of [19_990, 20_100]) {
      const models = Array.from({ length: count }, (_, index) => `m${index}`);
      const targets = Array.from({ length: count / 4 }, () => ({ upstream: "u", model: 1 }));
      const startedAt = performance.now();
      for (const [method, path, body] of [
        ["POST", "/accounts/listed/keys", { name: "k", models }],
        ["PUT", "/aliases/listed", { targets }],
        ["PUT", "/aliases/listed", { targets: models }],
        ["POST", "/accounts/listed/keys", { name: "k", metadata: Object.fromEntries(models.map((name) => [name, 1])) }],
      ] as const) {
        expect([path, (await call(method, path, body)).status]).toEqual([path, 400]);
      }
      expect(performance.now() - startedAt).toBeLessThan(await allowedMs(4_000));
    }
  });
});

it("a body of self-service has a place in the isolate's room while it is read, as one of a call has", async () => {
  await done("POST", "/accounts", { id: "roomy", name: "r", balance_usd: 1 });
  const { key } = await keyOf("roomy", { role: "owner" });
  const mediumBodies = BodyRoom.forMedium();
  const asked = vi.spyOn(mediumBodies, "queue");
  const through = (ports: PlatformPorts): PlatformPorts => ({ ...ports, mediumBodies });
  const small = await as(key, "POST", "/account/keys", { name: "small" }, through);
  expect([small.status, asked.mock.calls.length]).toEqual([201, 0]);
  const large = await as(key, "POST", "/account/keys", { name: "x".repeat(100_000) }, through);
  expect([large.status, asked.mock.calls.length, asked.mock.calls[0]?.[0]]).toEqual([400, 1, "roomy"]);
  expect(mediumBodies.heldBytes).toBe(0);
});
