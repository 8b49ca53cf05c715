/**
 * Keys that end and keys that begin, at edges whose KV shows what was there a minute ago: refused from the moment the
 * call that ended them is answered, with calls under way all the time; served from the moment they are made.
 */
import { createExecutionContext, waitOnExecutionContext } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import { createApp } from "../../src/app.ts";
import { IsolateLeases } from "../../src/core/leases/isolate-leases.ts";
import { LeaseHolder } from "../../src/core/leases/lease-holder.ts";
import { newEdgeState, openDirectory } from "../../src/platform/edge/directory.ts";
import { log } from "../../src/platform/log.ts";
import { openPorts } from "../../src/platform/ports.ts";
import { readSecrets } from "../../src/platform/secrets.ts";
import { done, type Json, settled } from "../support/worker/operator.ts";
import { as, keyOf } from "../support/worker/tenant.ts";

const app = createApp();

beforeAll(async () => {
  await done("PUT", "/upstreams/main", { base_url: "https://inference.example", api_key: "k" });
  const unit = { cost_usd: 1, price_usd: 2 };
  await done("PUT", "/models/llama", {
    kind: "chat",
    prices: { input_tokens: unit, output_tokens: unit },
    max_output_tokens: 16,
    upstream: "main",
  });
});
beforeEach(() => {
  const usage = { prompt_tokens: 10, completion_tokens: 2, total_tokens: 12 };
  const message = { role: "assistant", content: "Hi" };
  const body = JSON.stringify({ id: "c", choices: [{ index: 0, message, finish_reason: "stop" }], usage });
  vi.spyOn(globalThis, "fetch").mockImplementation(async () => {
    await pause(2);
    return new Response(body, { headers: { "content-type": "application/json" } });
  });
  vi.spyOn(console, "log").mockImplementation(() => undefined);
});
afterEach(() => {
  vi.restoreAllMocks();
});
afterAll(settled);

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

/** KV near an edge that read each key's record once and shows that, or that there was none, from then on. */
function staleKv(remembered = new Map<string, Promise<unknown>>()): KVNamespace {
  const get = (name: string, options: "json") => {
    if (!name.startsWith("key:")) return env.EDGE.get(name, options);
    if (!remembered.has(name)) remembered.set(name, env.EDGE.get(name, options));
    return remembered.get(name);
  };
  const rest = { put: env.EDGE.put.bind(env.EDGE), delete: env.EDGE.delete.bind(env.EDGE) };
  return { get, ...rest } as unknown as KVNamespace;
}

/** What calls with leases left behind. */
const behind: Promise<void>[] = [];

/** An isolate with a memory of its own. Gives the status of a call there. */
function isolate(kv: KVNamespace, leases: IsolateLeases | null = null) {
  const state = newEdgeState();
  return async (key: string, path = "/v1/chat/completions", model = "llama"): Promise<number> => {
    const secrets = await readSecrets(env);
    if (!secrets.ok) throw new Error(secrets.fault.message);
    const context = createExecutionContext();
    const opened = openPorts(env, context, secrets.secrets);
    const { now, waitUntil } = opened;
    const findKey: Parameters<typeof openDirectory>[0]["findKey"] = (number, digest) =>
      env.ACCOUNTS.getByName(String(number)).findKey(digest);
    const directory = openDirectory({ kv, books: env.BOOKS, findKey, now, waitUntil, log }, state);
    const chat = path.startsWith("/v1/chat");
    const request = new Request(`http://gateway.test${path}`, {
      method: chat ? "POST" : "GET",
      headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
      ...(chat && { body: JSON.stringify({ model, messages: [{ role: "user", content: "Hi" }] }) }),
    });
    const response = await app.fetch(request, { ...env, ports: { ...opened, directory, leases } }, context);
    await response.text();
    const rest = waitOnExecutionContext(context);
    // A call with leases ends once its report was answered.
    if (leases) behind.push(rest);
    else await rest;
    return response.status;
  };
}

interface Scene {
  readonly account: string;
  readonly owner: Json;
  readonly team: Json;
  readonly key: Json;
}
let scenes = 0;
async function newScene(): Promise<Scene> {
  const account = `scene-${++scenes}`;
  await done("POST", "/accounts", { id: account, name: account, balance_usd: 5 });
  const team = await done("POST", `/accounts/${account}/teams`, { name: "T" });
  const owner = await keyOf(account, { role: "owner" });
  return { account, owner, team, key: await keyOf(account, { team: team.id }) };
}

const CALLED = ["/v1/chat/completions", "/v1/chat/completions", "/v1/models", "/account", "/billing/balance"];

type End = (scene: Scene) => Promise<unknown>;
const byOperator =
  (method: string, path: (scene: Scene) => string, body?: object): End =>
  (scene) =>
    done(method, `/accounts/${scene.account}${path(scene)}`, body);
const byOwner =
  (method: string, path: (scene: Scene) => string, body?: object): End =>
  async (scene) => {
    const answer = await as(scene.owner.key, method, `/account${path(scene)}`, body);
    if (answer.status !== 200) throw new Error(answer.text);
  };
const ofKey = ({ key }: Scene) => `/keys/${key.id}`;
const ofTeam = ({ team }: Scene) => `/teams/${team.id}`;

const ENDS: [name: string, end: End][] = [
  ["the operator revokes the key", byOperator("DELETE", ofKey)],
  ["the operator blocks the key", byOperator("PATCH", ofKey, { blocked: true })],
  ["the operator lets the key expire", byOperator("PATCH", ofKey, { expires_at: 1 })],
  ["the operator rotates the key", byOperator("POST", (scene) => `${ofKey(scene)}/rotate`)],
  ["the operator blocks the team", byOperator("PATCH", ofTeam, { blocked: true })],
  ["the operator deletes the team", byOperator("DELETE", ofTeam)],
  ["the operator blocks the account", byOperator("PATCH", () => "", { blocked: true })],
  ["an owner revokes the key", byOwner("DELETE", ofKey)],
  ["an owner blocks the key", byOwner("PATCH", ofKey, { blocked: true })],
  ["an owner rotates the key", byOwner("POST", (scene) => `${ofKey(scene)}/rotate`)],
  ["an owner deletes the team", byOwner("DELETE", ofTeam)],
];

describe("a key that ended, with KV a minute behind", () => {
  it.each(ENDS)("%s: not one success of a call that came after the answer", async (name, end) => {
    const scene = await newScene();
    const kv = staleKv();
    const isolates = [isolate(kv), isolate(kv)];
    for (const ask of isolates) expect(await ask(scene.key.key)).toBe(200);
    let answered = false;
    const [before, after]: number[][] = [[], []];
    const client = async (at: number) => {
      for (let calls = 0; calls < 200; calls++) {
        const late = answered;
        const status = await isolates[at % 2]!(scene.key.key, CALLED[(at + calls) % CALLED.length]);
        (late ? after : before)!.push(status);
        if (late) return;
      }
    };
    const load = Promise.all(Array.from({ length: 8 }, (_, at) => client(at)));
    await pause(20);
    await end(scene);
    answered = true;
    // A third isolate knows the key from KV alone.
    const third = isolate(kv);
    const found = vi.spyOn(env.EDGE, "get");
    for (const path of new Set(CALLED)) after!.push(await third(scene.key.key, path));
    expect(found.mock.calls.filter(([name]) => String(name).startsWith("key:"))).toEqual([]);
    // Nor is it told which models there are.
    for (const ask of isolates) after!.push(await ask(scene.key.key, "/v1/chat/completions", "no-such-model"));
    await load;
    expect(before).toContain(200);
    expect(new Set(after)).toEqual(new Set([401]));
    // An end that can be undone is undone at once, too.
    if (!name.includes("blocks")) return;
    await byOperator("PATCH", () => "", { blocked: false })(scene);
    await byOperator("PATCH", ofTeam, { blocked: false })(scene);
    await byOperator("PATCH", ofKey, { blocked: false })(scene);
    for (const ask of [...isolates, third]) expect(await ask(scene.key.key)).toBe(200);
  });

  it("an account that is deleted reads nothing any more", async () => {
    const scene = await newScene();
    const ask = isolate(staleKv());
    expect(await ask(scene.key.key, "/v1/models")).toBe(200);
    await done("DELETE", `/accounts/${scene.account}`);
    for (const path of CALLED) expect(await ask(scene.key.key, path)).toBe(401);
  });
});

describe("a key that ended, under leases", () => {
  const some = ENDS.filter(([name]) => /operator (revokes|blocks the account)|owner (rotates|deletes)/.test(name));
  it.each(some)("%s: four isolates admit nothing after the answer, and the books are whole", async (_, end) => {
    const scene = await newScene();
    const kv = staleKv();
    const admitted = vi.spyOn(LeaseHolder.prototype, "admit");
    const isolates = Array.from({ length: 4 }, () => isolate(kv, new IsolateLeases()));
    let answered = false;
    const [before, after]: number[][] = [[], []];
    const client = async (at: number) => {
      for (let late = false; !late; ) {
        late = answered;
        (late ? after : before)!.push(await isolates[at % 4]!(scene.key.key));
      }
    };
    const load = Promise.all(Array.from({ length: 8 }, (_, at) => client(at)));
    const leased = () => admitted.mock.results.some(({ value }) => value);
    for (let waits = 0; waits < 400 && !leased(); waits++) await pause(25);
    await end(scene);
    answered = true;
    await load;
    expect(new Set(after)).toEqual(new Set([401]));
    expect(before).toContain(200);
    expect(leased()).toBe(true);
    await Promise.all(behind.splice(0));
    const audit = await done("GET", `/audit/${scene.account}`);
    expect(audit).toMatchObject({ problems: [], open_holds: 0, operator_loss_usd: 0 });
  });
});

describe("a key that is new, with KV that remembers its absence", () => {
  it("works at once everywhere: made by the operator, by an owner, or the new secret of a rotated one", async () => {
    const scene = await newScene();
    const nothing = { get: async () => null, put: async () => undefined, delete: async () => undefined };
    const kv = nothing as unknown as KVNamespace;
    const isolates = [isolate(kv), isolate(kv)];
    const byOperator = await keyOf(scene.account);
    const byOwner = (await as(scene.owner.key, "POST", "/account/keys", { name: "new" })).body;
    const rotated = await done("POST", `/accounts/${scene.account}/keys/${scene.key.id}/rotate`, { grace_seconds: 60 });
    for (const ask of isolates) {
      for (const { key } of [byOperator, byOwner, rotated, scene.key]) expect(await ask(key)).toBe(200);
    }
    // The grace is over with the next rotation, and with it both older secrets.
    const last = await done("POST", `/accounts/${scene.account}/keys/${scene.key.id}/rotate`);
    for (const ask of isolates) {
      expect(await ask(last.key)).toBe(200);
      for (const { key } of [rotated, scene.key]) expect(await ask(key)).toBe(401);
    }
  });
});
