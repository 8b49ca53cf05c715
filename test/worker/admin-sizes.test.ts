/** What an account, and a key of it, may have of what takes no money. */
import { env } from "cloudflare:workers";
import { afterAll, describe, expect, it } from "vitest";
import { capsOf } from "../../src/platform/account/settings.ts";
import { rows } from "../support/worker/account-support.ts";
import { call, done, refusal, settled } from "../support/worker/operator.ts";
import { as } from "../support/worker/tenant.ts";

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
});
