/**
 * Somebody else's id is no id at all: whatever a tenant names, where and however it is spelt, the answer is byte for
 * byte the one that an id nobody has gets, and the service behind hears nothing of it.
 */
import { randomBytes, randomInt } from "node:crypto";
import { beforeAll, describe, expect, test } from "vitest";
import { partOf } from "../../support/in-full.ts";
import { openaiOf } from "../../support/openai.ts";
import { chatHead, RawClient } from "../../support/raw-client.ts";
import {
  type Asked,
  ask,
  callIdOf,
  callOf,
  ENDPOINT_NAMES,
  instanceFor,
  type Names,
  type OwnInstance,
  serviceFor,
} from "../../support/service.ts";
import type { Tenant } from "../../support/tenant.ts";
import { world } from "../../support/world.ts";

const { operator } = world();
const KINDS = ["chat", "image", "embedding", "rerank", "custom"] as const;
let owner: Tenant;
let stranger: Tenant;
let own: Names;
/** The owner's: answered with 200 to it alone. */
let responseId: string;
let instances: Record<(typeof KINDS)[number], OwnInstance>;

beforeAll(async () => {
  owner = await operator.tenant({ balance_usd: 5 });
  stranger = await operator.tenant({ balance_usd: 5 });
  const theirs = await serviceFor(operator, owner);
  own = await serviceFor(operator, stranger);
  const made = await openaiOf(owner).responses.create({ model: theirs.chat, input: "mine" });
  responseId = made.id;
  const entries = await Promise.all(
    KINDS.map(async (kind) => [kind, await instanceFor(operator, owner, kind)] as const),
  );
  instances = Object.fromEntries(entries) as typeof instances;
});

/** Headers that differ from call to call whatever is asked. */
const VOLATILE = new Set(["x-request-id", "x-service-request-id", "date"]);

interface Seen {
  readonly status: number;
  readonly headers: [string, string][];
  readonly body: string;
  readonly callId: string | null;
}

const asHex = (text: string) =>
  Array.from(Buffer.from(text), (byte) => `%${byte.toString(16).padStart(2, "0")}`).join("");
/** An id as an answer may repeat it that says what is not served. */
const echoesOf = (id: string) => [id, asHex(id).replaceAll("%", "%25"), id.toUpperCase()];

/** The answer with the id that was asked for taken out where it is repeated. */
async function see(asked: Asked, id: string): Promise<Seen> {
  const response = await ask(stranger, asked);
  return {
    status: response.status,
    headers: [...response.headers].filter(([name]) => !VOLATILE.has(name)).sort(),
    body: echoesOf(id).reduce((text, echo) => text.replaceAll(echo, "ID"), await response.text()),
    callId: callIdOf(response),
  };
}

async function expectSilence(...callIds: (string | null)[]): Promise<void> {
  // A preflight has no id: it goes nowhere.
  const known = callIds.filter((id) => id !== null);
  expect(await operator.sandbox.callsOf(...known)).toEqual([]);
}

/** The owner's id and one that nobody has, of the same length, asked for by the stranger in the same way. */
async function expectAlike(statuses: number[], id: string, nobodys: string, asking: (id: string) => Asked) {
  expect(nobodys).toHaveLength(id.length);
  const theirs = await see(asking(id), id);
  const unknown = await see(asking(nobodys), nobodys);
  expect({ ...theirs, callId: null }).toEqual({ ...unknown, callId: null });
  expect(statuses).toContain(theirs.status);
  await expectSilence(theirs.callId, unknown.callId);
}

const randomResponse = () => `resp_${randomBytes((responseId.length - 5) / 2).toString("hex")}`;

/** Spellings of an id inside a path. */
const SPELLINGS: Record<string, (id: string) => string> = {
  "as it is": (id) => id,
  "first letter encoded": (id) => asHex(id.slice(0, 1)) + id.slice(1),
  "wholly encoded": asHex,
  "encoded twice": (id) => asHex(id).replaceAll("%", "%25"),
  "in capitals": (id) => id.toUpperCase(),
  "after a dot segment": (id) => `./${id}`,
  "after a climb": (id) => `x/../${id}`,
  "after an encoded climb": (id) => `..%2Fresponses%2F${id}`,
  "with a query": (id) => `${id}?account=other`,
  "with an encoded zero": (id) => `${id}%00`,
  "with a slash": (id) => `${id}/`,
};

describe("response ids in paths", () => {
  const routes = [
    ["GET", ""],
    ["POST", "/cancel"],
    ["HEAD", ""],
    ["GET", "/input_items"],
    ["DELETE", ""],
    ["PUT", ""],
    ["PATCH", "/cancel"],
    ["OPTIONS", ""],
  ] as const;
  const cases = routes.flatMap(([method, rest]) =>
    Object.entries(SPELLINGS).map(([how, spell]) => [method, rest, how, spell] as const),
  );

  // A fifth has each route twice and each spelling once.
  test.each(partOf(cases, 5))("%s /v1/responses/{id}%s, %s", async (method, rest, _how, spell) => {
    const asking = (id: string): Asked => ({ path: `/v1/responses/${spell(id)}${rest}`, init: { method } });
    const statuses = method === "OPTIONS" ? [204] : [404];
    await expectAlike(statuses, responseId, randomResponse(), asking);
  });

  test("the owner's own read works: the ids above are live", async () => {
    expect((await owner.fetch(`/v1/responses/${responseId}`)).status).toBe(200);
    expect((await stranger.fetch(`/v1/responses/${responseId}`)).status).toBe(404);
  });

  test.each(["/regions/us-east-1", "//", "/v1/../"])("below another prefix: %s", async (prefix) => {
    const asking = (id: string): Asked => ({ path: `${prefix}/v1/responses/${id}`, init: {} });
    await expectAlike([404], responseId, randomResponse(), asking);
  });
});

describe("response ids in bodies", () => {
  test.each([
    ["JSON", {}],
    ["a stream", { stream: true }],
    ["with a price that cannot be paid", { max_output_tokens: 1_000_000_000 }],
    ["with the owner's model", { model: "llama-7b" }],
    ["with an absurd model", { model: "no-such-model" }],
    ["with a user", { user: "someone" }],
  ])("previous_response_id: %s", async (_how, fields) => {
    const asking = (id: string) => callOf("responses", own.chat, { previous_response_id: id, ...fields });
    await expectAlike([404], responseId, randomResponse(), asking);
  });

  test.each([" ID", "ID ", "ID\u0000", "ID\n", "../ID", "\ufeffID"])("previous_response_id as %j", async (shape) => {
    const asking = (id: string) => callOf("responses", own.chat, { previous_response_id: shape.replace("ID", id) });
    await expectAlike([404], responseId, randomResponse(), asking);
  });

  test.each([
    ["an item reference", (id: string) => ({ input: [{ type: "item_reference", id }] })],
    ["a conversation", (id: string) => ({ conversation: id })],
    ["a conversation's id", (id: string) => ({ conversation: { id } })],
    ["a stored prompt", (id: string) => ({ prompt: { id } })],
    ["a file", (id: string) => ({ input: [{ role: "user", content: [{ type: "input_file", file_id: id }] }] })],
  ])("as %s", async (_how, fields) => {
    await expectAlike([400], responseId, randomResponse(), (id) => callOf("responses", own.chat, fields(id)));
  });

  test("twice in one body: the last one counts, and is looked up", async () => {
    const twice = (first: string, last: string): Asked => ({
      path: "/v1/responses",
      init: {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: `{"model":"${own.chat}","input":"x","previous_response_id":"${first}","previous_response_id":"${last}"}`,
      },
    });
    await expectAlike([404], responseId, randomResponse(), (id) => twice(randomResponse(), id));
  });

  test("a header is no place for an id", async () => {
    const mine = await openaiOf(stranger).responses.create({ model: own.chat, input: "mine" });
    const headers = { "x-sandbox-region": "us-east-1", "x-previous-response-id": responseId };
    const read = await stranger.fetch(`/v1/responses/${mine.id}`, { headers });
    expect(await read.json()).toMatchObject({ id: mine.id });
  });
});

const randomNumber = () => randomInt(100_000_000, 900_000_000);

describe("instances by <name>:<id>", () => {
  const cases = ENDPOINT_NAMES.flatMap((endpoint) => KINDS.map((kind) => [endpoint, kind] as const));

  // A third has each endpoint and each kind.
  test.each(partOf(cases, 3))("%s with an instance of kind %s", async (endpoint, kind) => {
    const { id, model } = instances[kind];
    const asking = (asked: string) => callOf(endpoint, model.replace(String(id), asked));
    await expectAlike([401], String(id), String(randomNumber()), asking);
  });

  test.each(["chat", "responses"])("%s as a stream", async (endpoint) => {
    const { id, model } = instances.chat;
    const asking = (asked: string) => callOf(endpoint, model.replace(String(id), asked), { stream: true });
    await expectAlike([401], String(id), String(randomNumber()), asking);
  });

  test.each([
    ["another name", (id: string) => `other:${id}`],
    ["a leading zero", (id: string) => `engine:0${id}`],
    ["a sign", (id: string) => `engine:+${id}`],
    ["a space", (id: string) => `engine: ${id}`],
    ["a fraction", (id: string) => `engine:${id}.0`],
    [
      "other digits",
      (id: string) => `engine:${[...id].map((digit) => String.fromCharCode(0xff10 + Number(digit))).join("")}`,
    ],
    ["a prefix", (id: string) => `service/engine:${id}`],
    ["two ids", (id: string) => `engine:${id}:${id}`],
  ])("with %s", async (_how, spell) => {
    const id = String(instances.chat.id);
    const name = instances.chat.model.split(":")[0] ?? "";
    const asking = (asked: string) => callOf("chat", spell(asked).replace("engine", name));
    // The full-width digits stand in the answer as they were asked for.
    const nobodys = String(randomNumber());
    const theirs = await see(asking(id), id);
    const unknown = await see(asking(nobodys), nobodys);
    expect([401, 404]).toContain(theirs.status);
    expect(theirs.status).toBe(unknown.status);
    expect(theirs.headers).toEqual(unknown.headers);
    await expectSilence(theirs.callId, unknown.callId);
  });

  test("no list and no model page shows them", async () => {
    const list = await (await stranger.fetch("/v1/models")).text();
    for (const { id, model } of Object.values(instances)) {
      expect(list).not.toContain(String(id));
      const asking = (asked: string): Asked => ({
        path: `/v1/models/${model.replace(String(id), asked)}`,
        init: {},
      });
      await expectAlike([401, 404], String(id), String(randomNumber()), asking);
    }
  });
});

describe("instances by path", () => {
  const shapes: Record<string, (id: string) => string> = {
    "as it is": (id) => `${id}/proxy/run`,
    encoded: (id) => `${asHex(id)}/proxy/run`,
    "path encoded": (id) => `${id}/proxy/%72un`,
    "another path": (id) => `${id}/proxy/other/path`,
    "with a query": (id) => `${id}/proxy/run?x=1`,
    "after a climb": (id) => `1/../${id}/proxy/run`,
    "after an encoded climb": (id) => `1%2f..%2f${id}/proxy/run`,
    "a leading zero": (id) => `0${id}/proxy/run`,
    "no path": (id) => `${id}/proxy/`,
    "by name": (id) => `engine:${id}/proxy/run`,
  };
  const cases = Object.entries(shapes).flatMap(([how, shape]) =>
    (["POST", "GET", "PUT", "DELETE"] as const).map((method) => [method, how, shape] as const),
  );

  test.each(partOf(cases, 3))("%s %s", async (method, _how, shape) => {
    for (const kind of ["custom", "chat"] as const) {
      const asking = (id: string): Asked => ({
        path: `/inference-instances/${shape(id)}`,
        init: { method, ...(method === "POST" && { body: "{}" }) },
      });
      await expectAlike([401, 404], String(instances[kind].id), String(randomNumber()), asking);
    }
  });
});

test("a path with dots, as it stands on the wire, names nothing of anybody's", async () => {
  const head = chatHead(stranger.key, "content-length: 0").replace(
    "POST /v1/chat/completions",
    "GET /v1/x/../responses/ID",
  );
  const answers = await Promise.all(
    [responseId, randomResponse()].map(async (id) => {
      const client = new RawClient(operator.url, head.replace("ID", id));
      const text = await client.until("}}");
      client.close();
      return text.replaceAll(id, "ID").replace(/^(x-request-id|x-service-request-id|date): .*\r\n/gim, "");
    }),
  );
  expect(answers[0]).toMatch(/^HTTP\/1.1 404 /);
  expect(answers[0]).toBe(answers[1]);
});

test("aliases of another account answer as unknown names do", async () => {
  const theirs = (await serviceFor(operator, owner)).chat;
  const nobodys = `chat-${randomBytes(5).toString("hex")}`;
  for (const endpoint of ENDPOINT_NAMES) {
    await expectAlike([404], theirs, nobodys, (model) => callOf(endpoint, model));
  }
});

test("none of it cost the stranger anything, or left anything held; the owner was charged for its one response", async () => {
  const { open_holds, ok } = await stranger.audit();
  expect([open_holds, ok]).toEqual([0, true]);
  expect(await stranger.charges()).toHaveLength(1);
  expect(await owner.charges()).toHaveLength(1);
});
