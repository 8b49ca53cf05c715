/**
 * Methods and targets that no API client sends: answered here or closed, never followed anywhere. The place that they
 * name is a listener of the test's own, which must not see a connection.
 *
 * `CONNECT` and methods that HTTP does not know never come to the Worker: workerd's own words for them are pinned here.
 * (Exporting a `connect` handler would change its 500 for CONNECT into a 200, which promises a tunnel.)
 */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { chatHead, RawClient } from "../../support/raw-client.ts";
import { TcpProxy } from "../../support/tcp-proxy.ts";
import type { Tenant } from "../../support/tenant.ts";
import { world } from "../../support/world.ts";

const { operator, sandboxUrl } = world();
let tenant: Tenant;
let model: string;
let elsewhere: TcpProxy;
let connectionsBefore: number;
let callsBefore: number;

beforeAll(async () => {
  tenant = await operator.tenant();
  model = await operator.instance(tenant);
  elsewhere = await TcpProxy.start(sandboxUrl);
});
beforeEach(async () => {
  connectionsBefore = elsewhere.connections;
  callsBefore = (await operator.sandbox.calls(model)).length;
});
afterAll(() => elsewhere.stop());

const other = () => new URL(elsewhere.url).host;
const body = () => JSON.stringify({ model, max_tokens: 1, messages: [{ role: "user", content: "Hi" }] });

/** A request line, with a key that is good: nothing is refused for the lack of one. */
const request = (line: string, ...headers: string[]) =>
  [line, `host: ${other()}`, `authorization: Bearer ${tenant.key}`, "connection: close", ...headers, "\r\n"].join(
    "\r\n",
  );

/** The status; null where the connection was closed without a word. */
async function statusOf(bytes: string): Promise<number | null> {
  const text = await new RawClient(operator.url, bytes).untilClosed();
  return text === "" ? null : Number(/^HTTP\/1\.1 (\d{3}) /.exec(text)?.[1]);
}

/** So many calls came to the model, none anywhere else, and the next one is served. */
async function expectCalls(count: number): Promise<void> {
  expect((await tenant.chat({ model, max_tokens: 1 })).status).toBe(200);
  expect(await operator.sandbox.calls(model)).toHaveLength(callsBefore + count + 1);
  expect(elsewhere.connections).toBe(connectionsBefore);
}

describe("what comes to the Worker is answered without a 5xx, and calls nobody", () => {
  const cases: [string, () => string, number][] = [
    ["OPTIONS *", () => request("OPTIONS * HTTP/1.1"), 404],
    ["OPTIONS of an operator's path", () => request("OPTIONS /admin/accounts HTTP/1.1"), 401],
    ["GET *", () => request("GET * HTTP/1.1"), 404],
    ["TRACE", () => request("TRACE /v1/models HTTP/1.1", "max-forwards: 1"), 404],
    ["a method of WebDAV", () => request("PROPFIND /v1/models HTTP/1.1"), 404],
    ["DELETE of a route that has none", () => request("DELETE /v1/chat/completions HTTP/1.1"), 404],
    ["a whole URL of somebody else", () => request(`GET http://${other()}/v1/models HTTP/1.1`), 200],
    ["a whole URL of a path that is not served", () => request(`GET http://${other()}/_sandbox/calls HTTP/1.1`), 404],
    ["a whole URL that is none", () => request("GET http://[::1/v1/models HTTP/1.1"), 400],
    ["a host as the path", () => request(`GET //${other()}/v1/models HTTP/1.1`), 404],
    ["no host", () => "GET /v1/models HTTP/1.1\r\nconnection: close\r\n\r\n", 400],
    [
      "an upgrade to a WebSocket",
      () =>
        request(
          "GET /v1/models HTTP/1.1",
          "upgrade: websocket",
          "sec-websocket-version: 13",
          "sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==",
        ),
      200,
    ],
  ];
  test.each(cases)("%s", async (_name, bytes, status) => {
    expect(await statusOf(bytes())).toBe(status);
    await expectCalls(0);
  });

  test("a call under a whole URL of somebody else goes where its model is, once", async () => {
    const text = body();
    const head = chatHead(tenant.key, `content-length: ${Buffer.byteLength(text)}`, "connection: close");
    expect(await statusOf(head.replace("/v1/", `http://${other()}/v1/`) + text)).toBe(200);
    await expectCalls(1);
  });
});

describe("what workerd answers by itself calls nobody either", () => {
  const cases: [string, () => string, number | null][] = [
    ["CONNECT to a host", () => request(`CONNECT ${other()} HTTP/1.1`), 500],
    ["CONNECT to a path", () => request("CONNECT /v1/models HTTP/1.1"), 500],
    ["a method in small letters", () => request("get /v1/models HTTP/1.1"), 501],
    ["a method of nobody's", () => request("BREW /v1/models HTTP/1.1"), 501],
    ["the preface of HTTP/2", () => "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", null],
  ];
  test.each(cases)("%s", async (_name, bytes, status) => {
    expect(await statusOf(bytes())).toBe(status);
    await expectCalls(0);
  });

  test("POST in small letters is no call", async () => {
    const text = body();
    const head = chatHead(tenant.key, `content-length: ${Buffer.byteLength(text)}`, "connection: close");
    expect(await statusOf(head.replace("POST", "post") + text)).toBe(501);
    await expectCalls(0);
  });
});
