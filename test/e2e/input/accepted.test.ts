/**
 * What clients send unlike the contract, through the real process: gzip, base URLs a little off, other caps, tokens.
 */
import { gzipSync } from "node:zlib";
import { beforeAll, describe, expect, test } from "vitest";
import type { ErrorBody, Tenant } from "../../support/tenant.ts";
import { world } from "../../support/world.ts";

const { operator } = world();
let tenant: Tenant;
let model: string;

beforeAll(async () => {
  tenant = await operator.tenant();
  model = await operator.alias(tenant, [{ upstream: "sandbox", model: await operator.instance(tenant) }]);
});

const chat = (path: string, body: Uint8Array | string, headers: Record<string, string> = {}) =>
  tenant.fetch(path, {
    method: "POST",
    body: body as BodyInit,
    headers: { "content-type": "application/json", ...headers },
  });
const asked = (content = "hello") => JSON.stringify({ model, max_tokens: 3, messages: [{ role: "user", content }] });
const PATH = "/v1/chat/completions";
const GZIP = { "content-encoding": "gzip" };

describe("a gzip body", () => {
  test("is charged for what it expands to", async () => {
    const plain = await chat(PATH, asked("word ".repeat(40_000)));
    const zipped = await chat(PATH, gzipSync(asked("word ".repeat(40_000))), GZIP);
    expect([plain.status, zipped.status]).toEqual([200, 200]);
    const [a, b] = (await Promise.all([plain.json(), zipped.json()])) as { usage: object }[];
    expect(b?.usage).toEqual(a?.usage);
  });

  test("of 200 MB of nothing is 413, and others are served meanwhile", async () => {
    const bomb = chat(PATH, gzipSync(new Uint8Array(200_000_000)), GZIP);
    expect((await chat(PATH, asked())).status).toBe(200);
    expect((await bomb).status).toBe(413);
  });

  test("of more values than a body may have is 400; one that is none says so; another encoding is 415", async () => {
    const told = async (body: Uint8Array, headers = GZIP) => {
      const response = await chat(PATH, body, headers);
      return [response.status, ((await response.json()) as ErrorBody).error.message];
    };
    const values = gzipSync(`{"model":"${model}","x":[${"1,".repeat(300_000)}1]}`);
    expect(await told(values)).toEqual([400, expect.stringMatching(/more than 250,000 JSON values/)]);
    expect(await told(Buffer.from(asked()))).toEqual([400, expect.stringMatching(/is not valid gzip/)]);
    const other = await told(Buffer.from(asked()), { "content-encoding": "br" });
    expect(other).toEqual([415, expect.stringMatching(/Content-Encoding: gzip/)]);
  });
});

test.each(["//v1/chat/completions", "/v1/chat/completions/", "/chat/completions", "/v1/v1/chat/completions"])(
  "%s is served",
  async (path) => {
    expect((await chat(path, asked())).status).toBe(200);
  },
);

test("what is not served begins with what may be meant; another API is not reached by an odd path", async () => {
  const near = (await (await chat("/v1/chat/completion", asked())).json()) as ErrorBody;
  expect(near.error.message).toMatch(/^Did you mean POST \/v1\/chat\/completions\? POST \/v1\/chat\/completion is not/);
  for (const path of ["//admin/accounts", "/v1/admin/accounts", "/v1//account", "/v1%2fchat%2fcompletions"]) {
    expect((await tenant.fetch(path)).status, path).toBe(404);
  }
});

test("a byte order mark before the body is named", async () => {
  const response = await chat(PATH, `\ufeff${asked()}`);
  expect([response.status, ((await response.json()) as ErrorBody).error.message]).toEqual([
    400,
    "The request body begins with a byte order mark; send it without.",
  ]);
});
