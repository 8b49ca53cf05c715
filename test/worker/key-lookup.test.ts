/** Whose key is it, and what did it do. */
import { env } from "cloudflare:workers";
import { afterAll, afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { type AccountId, asId, type KeyId } from "../../src/core/ids.ts";
import { accountObject } from "../../src/platform/account/stub.ts";
import { indexOlder } from "../../src/platform/d1/key-index.ts";
import { call, done, type Json, refusal, settled } from "../support/worker/operator.ts";
import { deliver, emptyUsage, event, HOUR, message, START } from "../support/worker/usage-support.ts";

const lines: string[] = [];
let account: string;
let made: Json;
let nth = 0;
beforeEach(async () => {
  lines.length = 0;
  vi.spyOn(console, "log").mockImplementation((line) => void lines.push(line));
  await emptyUsage();
  account = `lookup-${++nth}`;
  await done("POST", "/accounts", { id: account, name: `Lookup ${nth}` });
  made = await done("POST", `/accounts/${account}/keys`, { name: "leaked" });
});
afterEach(() => vi.restoreAllMocks());
afterAll(settled);

const lookup = async (body: unknown): Promise<Json[]> => (await done("POST", "/keys/lookup", body)).data;
const ours = async (lastFour: string) =>
  (await lookup({ last_four: lastFour })).filter((one) => one.account === account);

describe("a key is found", () => {
  it("by itself and by its last four, revoked and rotated too; nobody's key by neither", async () => {
    const wanted = { account, account_name: `Lookup ${nth}`, secret: "current", key: { id: made.id, name: "leaked" } };
    expect(await lookup({ key: made.key })).toMatchObject([wanted]);
    expect(await ours(made.last_four)).toMatchObject([wanted]);
    const rotated = await done("POST", `/accounts/${account}/keys/${made.id}/rotate`, { grace_seconds: 60 });
    const earlier = { account, secret: "earlier", key: { id: made.id, last_four: rotated.last_four } };
    expect(await lookup({ key: made.key })).toMatchObject([earlier]);
    expect(await ours(made.last_four)).toMatchObject([earlier]);
    expect(await ours(rotated.last_four)).toMatchObject([wanted]);
    await done("DELETE", `/accounts/${account}/keys/${made.id}`);
    expect(await lookup({ key: rotated.key })).toMatchObject([{ key: { revoked_at: expect.any(String) } }]);
    const other = `${made.key.slice(0, -1)}${made.key.endsWith("a") ? "b" : "a"}`;
    for (const key of [other, "sk-x", "' or 1=1 --", "€".repeat(200)]) expect(await lookup({ key }), key).toEqual([]);
  });

  it("under the name that it has now; a change that was refused leaves nothing", async () => {
    await done("PATCH", `/accounts/${account}/keys/${made.id}`, { name: "renamed" });
    const rows = () => env.BOOKS.prepare("select name from key_index where account = ?1").bind(account).all<Json>();
    expect((await rows()).results).toEqual([{ name: "renamed" }]);
    expect((await call("POST", `/accounts/${account}/keys`, { name: "x", team: "none" })).status).toBe(400);
    expect((await call("POST", `/accounts/${account}/keys/none/rotate`, {})).status).toBe(404);
    expect((await rows()).results).toHaveLength(1);
  });

  it("if it was there before the index, once the scheduled run has read its account", async () => {
    const team = await done("POST", `/accounts/${account}/teams`, { name: "old" });
    await env.BOOKS.batch([
      env.BOOKS.prepare("delete from key_index"),
      env.BOOKS.prepare("delete from team_index"),
      env.BOOKS.prepare("update index_progress set account_number = 0, cursor = null"),
    ]);
    expect(await ours(made.last_four)).toEqual([]);
    while ((await indexOlder(env.BOOKS, (number) => accountObject(env, number), 5)) > 0);
    expect(await ours(made.last_four)).toMatchObject([{ key: { id: made.id } }]);
    const named = await env.BOOKS.prepare("select name from team_index where team = ?1").bind(team.id).first("name");
    expect(named).toBe("old");
  });

  it("and neither logged nor kept: no change is recorded, and a wrong body does not repeat it", async () => {
    const events = async () => (await done("GET", "/events?limit=1")).data[0]?.id;
    const before = await events();
    await lookup({ key: made.key });
    expect(await events()).toBe(before);
    const both = await call("POST", "/keys/lookup", { key: made.key, last_four: made.last_four });
    expect(both).toMatchObject(refusal(400, "invalid_request_error", "key"));
    expect((await call("POST", "/keys/lookup", {})).status).toBe(400);
    const long = await call("POST", "/keys/lookup", { key: made.key.repeat(9) });
    expect([long.status, long.text.includes(made.key)]).toEqual([400, false]);
    expect(lines.join("\n")).not.toContain(made.key);
  });
});

it("a key's activity has its hours, models and countries, and nobody else's", async () => {
  const key = asId<KeyId>(String(made.id));
  const of = { account: asId<AccountId>(account), key };
  await deliver([
    message(
      event({ ...of, country: "DE", model: "a", priceNanoUsd: 7 }),
      event({ ...of, country: "DE", model: "a", priceNanoUsd: 7, endedAtMs: START + HOUR }),
      event({ ...of, country: "FR", model: "b", outcome: "failed", endedAtMs: START + HOUR + 1 }),
      event({ account: asId("other"), country: "US" }),
    ),
  ]);
  const found = await done("GET", `/keys/${made.id}/activity?from=${START}&to=${START + 3 * HOUR}`);
  expect(found).toMatchObject({ account, key: made.id, calls: 3, errors: 1 });
  const sums = (rows: Json[], name: string) => rows.map((row) => [row[name], row.calls, row.errors]);
  expect(sums(found.hours, "hour")).toEqual([
    [new Date(START + HOUR).toISOString(), 2, 1],
    [new Date(START).toISOString(), 1, 0],
  ]);
  expect(sums(found.models, "model")).toEqual([
    ["a", 2, 0],
    ["b", 1, 1],
  ]);
  expect(sums(found.countries, "country")).toEqual([
    ["DE", 2, 0],
    ["FR", 1, 1],
  ]);
  expect((await call("GET", "/keys/none/activity")).status).toBe(404);
  expect((await call("GET", `/keys/${made.id}/activity?from=2026-02-01&to=2026-01-01`)).status).toBe(400);
});
