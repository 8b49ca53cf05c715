/** Bad input: an error in OpenAI's shape that names the field, no upstream call, no hold left. */
import { afterEach, beforeAll, describe, expect, test } from "vitest";
import { eventually } from "../../support/eventually.ts";
import { chatHead, RawClient } from "../../support/raw-client.ts";
import type { ErrorBody, Tenant } from "../../support/tenant.ts";
import { world } from "../../support/world.ts";

const { operator } = world();
let tenant: Tenant;
let target: string;
let model: string;

beforeAll(async () => {
  tenant = await operator.tenant();
  target = await operator.instance(tenant);
  model = await operator.alias(tenant, [{ upstream: "sandbox", model: target }]);
});

/** Whatever a test did, the upstream heard nothing and no money is held. */
afterEach(async () => {
  expect(await operator.sandbox.calls(target)).toEqual([]);
  expect(await tenant.charges()).toEqual([]);
  expect(await tenant.audit()).toMatchObject({ ok: true, open_holds: 0, held_usd: 0, balance_usd: 1 });
});

async function expectError(response: Response, status: number, code: string, param?: string | null): Promise<void> {
  const body = (await response.json()) as ErrorBody;
  expect([response.status, body.error?.code]).toEqual([status, code]);
  expect(Object.keys(body.error).sort()).toEqual(["code", "message", "param", "type"]);
  expect(body.error.message.length).toBeGreaterThan(10);
  if (param !== undefined) expect(body.error.param).toBe(param);
  expect(response.headers.get("x-request-id")).toBeTruthy();
  expect(response.headers.get("cache-control")).toBe("no-store");
}

const HI = [{ role: "user", content: "Hi" }];
const deep = (depth: number): unknown => (depth === 0 ? 1 : { deeper: deep(depth - 1) });
const raw = (body: string, contentType = "application/json") =>
  tenant.fetch("/v1/chat/completions", { method: "POST", body, headers: { "content-type": contentType } });

describe("what is no JSON object", () => {
  test.each([
    ["nothing", ""],
    ["broken off", '{"model":'],
    ["a trailing comma", '{"model":"a",}'],
    ["two objects", "{}{}"],
    ["text", '"chat"'],
    ["a list", "[]"],
    ["null", "null"],
    ["a number beyond numbers", '{"model":"a","messages":[{"role":"user","content":"Hi"}],"x":1e400}'],
    ["an integer beyond 2^53", '{"model":"a","messages":[{"role":"user","content":"Hi"}],"seed":9007199254740993}'],
    ["no UTF-8", "{\u0000}"],
    ["__proto__", '{"model":"a","messages":[{"role":"user","content":"Hi"}],"__proto__":{"n":5}}'],
  ])("%s", async (_name, body) => expectError(await raw(body), 400, "invalid_request_error"));

  test("bytes that are no text", async () => {
    const bytes = new Uint8Array([0x7b, 0x22, 0xff, 0xfe, 0x22, 0x3a, 0x31, 0x7d]);
    const headers = { "content-type": "application/json" };
    const response = await tenant.fetch("/v1/chat/completions", { method: "POST", body: bytes, headers });
    await expectError(response, 400, "invalid_request_error");
  });

  test("depth beyond 64", async () => {
    const body = JSON.stringify({ model, messages: HI, noise: deep(70) });
    await expectError(await raw(body), 400, "invalid_request_error");
  });
});

describe("fields that are missing, of the wrong type or out of range are named", () => {
  test.each<[string, Record<string, unknown>]>([
    ["model", { model: undefined }],
    ["model", { model: 5 }],
    ["model", { model: "" }],
    ["messages", { messages: undefined }],
    ["messages", { messages: "Hi" }],
    ["messages", { messages: [] }],
    ["messages[0]", { messages: ["Hi"] }],
    ["messages[0].role", { messages: [{ content: "Hi" }] }],
    ["messages[1].content", { messages: [...HI, { role: "user", content: 5 }] }],
    ["messages[0].content[0].type", { messages: [{ role: "user", content: [{ text: "Hi" }] }] }],
    [
      "messages[0].content[0].image_url.url",
      { messages: [{ role: "user", content: [{ type: "image_url", image_url: { url: "file:///etc/passwd" } }] }] },
    ],
    ["max_tokens", { max_tokens: 0 }],
    ["max_tokens", { max_tokens: -1 }],
    ["max_tokens", { max_tokens: 1.5 }],
    ["max_tokens", { max_tokens: "5" }],
    ["temperature", { temperature: 2.1 }],
    ["temperature", { temperature: -0.1 }],
    ["temperature", { temperature: "hot" }],
    ["top_p", { top_p: 1.1 }],
    ["top_p", { top_p: -1 }],
    ["n", { n: 0 }],
    ["n", { n: 1.5 }],
    ["stream", { stream: "yes" }],
    ["stop", { stop: 5 }],
    ["stop", { stop: [5] }],
    ["presence_penalty", { presence_penalty: 2.5 }],
    ["frequency_penalty", { frequency_penalty: -2.5 }],
    ["seed", { seed: "lucky" }],
    ["response_format", { response_format: "json" }],
    ["tools", { tools: {} }],
    ["tool_choice", { tool_choice: 5 }],
  ])("%s: %j", async (param, fields) => {
    const response = await tenant.post({ model, messages: HI, ...fields });
    const { error } = (await response.clone().json()) as ErrorBody;
    await expectError(response, 400, "invalid_request_error");
    expect(error.param?.startsWith(param.split("[")[0] as string)).toBe(true);
    expect(error.message).toContain(error.param);
  });
});

describe("content types", () => {
  test.each(["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"])(
    "%s",
    async (type) => expectError(await raw(JSON.stringify({ model, messages: HI }), type), 400, "invalid_request_error"),
  );

  test("none at all", async () => {
    const text = await rawHttp(
      `POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${tenant.key}\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}`,
    );
    expect(text).toMatch(/^HTTP\/1.1 400 /);
    expect(text).toContain('"invalid_request_error"');
  });
});

describe("what is not served", () => {
  test.each([
    ["POST", "/v1/nothing"],
    ["GET", "/v1/chat/completions"],
    ["DELETE", "/v1/chat/completions"],
    ["POST", "/v1/models"],
    ["PUT", "/v1/chat/completions"],
    ["POST", "/v1/fine_tuning/jobs"],
    ["GET", "/"],
    ["GET", "/.env"],
  ])("%s %s is a local 404", async (method, path) => {
    await expectError(await tenant.fetch(path, { method }), 404, "not_found");
  });
});

test("a path with dots, as it stands on the wire, is a local 404", async () => {
  const text = await rawHttp(
    `POST /v1/chat/../chat/nothing HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${tenant.key}\r\ncontent-length: 0\r\n\r\n`,
  );
  expect(text).toMatch(/^HTTP\/1.1 404 /);
});

describe("too large is 413", () => {
  const MANY = 21 * 1024 * 1024;

  test("with an honest length", async () => {
    const body = JSON.stringify({ model, messages: [{ role: "user", content: "x".repeat(MANY) }] });
    // The answer comes before the body was read; a client that is still sending may find the connection closed first.
    const response = await eventually("an answer", () => raw(body));
    await expectError(response, 413, "request_too_large");
  });

  test("in chunks, without a length", async () => {
    let sent = 0;
    const body = new ReadableStream<Uint8Array>({
      pull(controller) {
        sent += 65_536;
        controller.enqueue(new Uint8Array(65_536).fill(0x20));
        if (sent > MANY) controller.close();
      },
    });
    const init = { method: "POST", body, duplex: "half", headers: { "content-type": "application/json" } };
    const response = await tenant.fetch("/v1/chat/completions", init as RequestInit);
    await expectError(response, 413, "request_too_large");
  });

  test("by the length alone, before the body comes", async () => {
    const text = await rawHttp(chatHead(tenant.key, `content-length: ${MANY}`));
    expect(text).toMatch(/^HTTP\/1.1 413 /);
  });

  test("with a length that lies below: what follows is no part of the call", async () => {
    const body = JSON.stringify({ model, messages: HI });
    const text = await rawHttp(`${chatHead(tenant.key, "content-length: 10")}${body}`);
    expect(text).toMatch(/^HTTP\/1.1 400 /);
  });
});

describe("before the sender is known, nothing is read", () => {
  test("a bad key is refused while its body has not come", async () => {
    const text = await rawHttp(chatHead("sk-tg-wrong", "content-length: 1000000"));
    expect(text).toMatch(/^HTTP\/1.1 401 /);
    expect(text).toContain('"invalid_api_key"');
  });

  test.each([
    ["none", {}],
    ["malformed", { authorization: "Bearer sk-wrong" }],
    ["of another scheme", { authorization: "Basic abc" }],
    ["well-formed and forged", { authorization: `Bearer sk-tg-${"0".repeat(38)}` }],
  ])("a key that is %s", async (_name, headers) => {
    const response = await fetch(`${operator.url}/v1/chat/completions`, { method: "POST", headers, body: "{" });
    await expectError(response, 401, "invalid_api_key");
  });
});

/** Sends bytes as they are and gives the answer. */
async function rawHttp(bytes: string): Promise<string> {
  const client = new RawClient(operator.url, bytes);
  const text = await client.until("}");
  client.close();
  return text;
}
