/** The TCP proxy breaks what it says it breaks: tests that lean on it would else prove nothing. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { TcpProxy } from "../../support/tcp-proxy.ts";
import { ScriptedUpstream } from "../../support/upstream.ts";

const TEXT = "héllo, wörld ".repeat(20);
let upstream: ScriptedUpstream;
let proxy: TcpProxy;

beforeAll(async () => {
  upstream = await ScriptedUpstream.start((exchange) => exchange.stream(TEXT));
  proxy = await TcpProxy.start(upstream.url);
});
afterAll(async () => {
  await proxy.stop();
  await upstream.stop();
});

const codeOf = (error: unknown): string | undefined =>
  ((error as Error).cause as NodeJS.ErrnoException | undefined)?.code;

test("passes what it is told to pass", async () => {
  await proxy.become({ kind: "pass" });
  expect(await (await fetch(proxy.url)).text()).toBe(TEXT);
});

test("refuses: nobody listens, and it listens again afterwards", async () => {
  await proxy.become({ kind: "refuse" });
  const error = await fetch(proxy.url).catch((failure: unknown) => failure);
  expect(codeOf(error)).toBe("ECONNREFUSED");
  await proxy.become({ kind: "pass" });
  expect((await fetch(proxy.url)).status).toBe(200);
});

test("resets before an answer, without a word to the upstream", async () => {
  await proxy.become({ kind: "reset" });
  const before = upstream.exchanges.length;
  const error = await fetch(proxy.url).catch((failure: unknown) => failure);
  expect(codeOf(error)).toMatch(/ECONNRESET|UND_ERR_SOCKET/);
  expect(upstream.exchanges.length).toBe(before);
});

test("resets in the middle of an answer", async () => {
  await proxy.become({ kind: "reset_after", bytes: 220 });
  const response = await fetch(proxy.url);
  expect(response.status).toBe(200);
  await expect(response.text()).rejects.toThrow();
});

test("stays half open until it is told otherwise", async () => {
  await proxy.become({ kind: "half_open" });
  const patience = AbortSignal.timeout(300);
  await expect(fetch(proxy.url, { signal: patience })).rejects.toThrow(/timeout/i);
});

test("delays", async () => {
  await proxy.become({ kind: "delay", ms: 200 });
  const started = Date.now();
  expect(await (await fetch(proxy.url)).text()).toBe(TEXT);
  expect(Date.now() - started).toBeGreaterThanOrEqual(190);
});

test("splits at any byte and loses none", async () => {
  for (const sizes of [[1], [2, 3], [7]]) {
    await proxy.become({ kind: "split", sizes });
    expect(await (await fetch(proxy.url)).text()).toBe(TEXT);
  }
});
