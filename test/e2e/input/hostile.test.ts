/**
 * What no honest client sends, on the wire and in text: no 5xx, no upstream call for what is refused, nobody's answer
 * given to another. Odd methods and targets: odd-requests.test.ts.
 */
import { createConnection } from "node:net";
import { beforeAll, describe, expect, test } from "vitest";
import { eventually, sleep } from "../../support/eventually.ts";
import { IN_FULL } from "../../support/in-full.ts";
import { chatHead, RawClient } from "../../support/raw-client.ts";
import { allowedMs } from "../../support/slowness.ts";
import type { Tenant } from "../../support/tenant.ts";
import { world } from "../../support/world.ts";

const { operator } = world();
let tenant: Tenant;
let model: string;

beforeAll(async () => {
  tenant = await operator.tenant();
  model = await operator.instance(tenant);
});

const NAUGHTY = [
  "",
  " ",
  "\u0000",
  "\t\r\n",
  "undefined",
  "null",
  "NaN",
  "true",
  "0",
  "-1",
  "1e400",
  "__proto__",
  "constructor",
  "hasOwnProperty",
  "toString",
  "../../../etc/passwd",
  "..%2f..%2f",
  "C:\\con",
  "CON",
  "NUL",
  "/dev/null",
  "'; DROP TABLE holds; --",
  "1' OR '1'='1",
  "%00",
  "%s%s%s%n",
  "\u0024{7*7}",
  "{{7*7}}",
  "$(id)",
  "`id`",
  "<script>alert(1)</script>",
  "]]>",
  "<!--",
  "<?xml?>",
  "&amp;",
  "\\",
  "\\u0000",
  '"',
  "'",
  "data: [DONE]\n\n",
  '\n\ndata: {"error":{}}\n\n',
  "event: error",
  "\r\nx-injected: 1",
  "\u202e\u202dRTL",
  "\u200b\u200c\u200d",
  "\ufeff",
  "\ufffe",
  "\uffff",
  "\ud800",
  "\udc00",
  "\udfff\ud800",
  "Z\u0351\u036b\u0343a\u0322lgo",
  "\u{1f468}\u200d\u{1f469}\u200d\u{1f467}",
  "\u{1f1e8}\u{1f1ed}",
  "\u0130\u0131",
  "\u00df",
  "\ufb03",
  "\u0660\u0661",
  "\u2028\u2029",
  "\u0085",
  "\u00a0",
  "\u{10ffff}",
  "test\u0300".normalize("NFD"),
  "\u{e0001}",
  "\u0e01\u0e34\u0e4c\u0e4d",
  "\u0627\u0644\u0639",
  "a".repeat(10_000),
  "\u{1f600}".repeat(3_000),
  "\\".repeat(5_000),
  '"'.repeat(5_000),
  "sk-tg-0000",
  "Bearer x",
  "operator",
  "sandbox",
];
const part = (text: string) => ({ type: "text", text });
const FIELDS: Record<string, (text: string) => Record<string, unknown>> = {
  model: (text) => ({ model: text }),
  role: (text) => ({ messages: [{ role: text, content: "Hi" }] }),
  content: (text) => ({ messages: [{ role: "user", content: text }] }),
  system: (text) => ({
    messages: [
      { role: "system", content: text },
      { role: "user", content: "Hi" },
    ],
  }),
  name: (text) => ({ messages: [{ role: "user", name: text, content: "Hi" }] }),
  "a part's text": (text) => ({ messages: [{ role: "user", content: [part(text)] }] }),
  "a part's type": (text) => ({ messages: [{ role: "user", content: [{ type: text, text }] }] }),
  "an image": (text) => ({
    messages: [{ role: "user", content: [part("x"), { type: "image_url", image_url: { url: text } }] }],
  }),
  "a tool's call": (text) => ({
    messages: [
      { role: "user", content: "Hi" },
      { role: "assistant", tool_calls: [{ id: text, type: "function", function: { name: text, arguments: text } }] },
      { role: "tool", tool_call_id: text, content: text },
    ],
  }),
  stop: (text) => ({ stop: [text] }),
  user: (text) => ({ user: text }),
  "a tool": (text) => ({ tools: [{ type: "function", function: { name: text, description: text, parameters: {} } }] }),
  "tool choice": (text) => ({ tool_choice: text }),
  "response format": (text) => ({ response_format: { type: text } }),
  metadata: (text) => ({ metadata: { [text]: text } }),
  "a field's name": (text) => ({ [text]: 1 }),
  "service tier": (text) => ({ service_tier: text, reasoning_effort: text, prompt_cache_key: text }),
};

describe("naughty strings", () => {
  test.each(Object.keys(FIELDS))("in %s", async (field) => {
    const owner = await operator.tenant();
    const target = await operator.instance(owner);
    const answers = await inTens(naughtyFor(field), async (text) => {
      const body = {
        model: target,
        max_tokens: 1,
        messages: [{ role: "user", content: "Hi" }],
        ...FIELDS[field]?.(text),
      };
      const response = await owner.post(body);
      expect(await response.json()).toBeTypeOf("object");
      expect(response.headers.get("x-injected")).toBeNull();
      return [text.slice(0, 40), response.status] as const;
    });
    expect(answers.filter(([, status]) => status !== 200 && (status < 400 || status > 499))).toEqual([]);
    const served = answers.filter(([, status]) => status === 200).length;
    expect(await operator.sandbox.executions(target)).toHaveLength(served);
    expect(await owner.charges()).toHaveLength(served);
    expect(await owner.audit()).toMatchObject({ ok: true, open_holds: 0 });
  });

  test("in the key, the path, the query and headers", async () => {
    for (const text of NAUGHTY) {
      const raw = new RawClient(
        operator.url,
        `GET /v1/models/${encodeURIComponent(text.toWellFormed()).slice(0, 2_000)}?x=${encodeURIComponent(text.toWellFormed()).slice(0, 2_000)} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${JSON.stringify(
          text,
        )
          .slice(0, 2_000)
          .replace(/[^ -~]/g, "?")}\r\nconnection: close\r\n\r\n`,
      );
      expect(await raw.untilClosed()).toMatch(/^HTTP\/1.1 4\d\d /);
    }
  });
});

/** Every string comes to a few of the fields, and some of each kind to every field; in `npm run proof` all to all. */
function naughtyFor(field: string): readonly string[] {
  const first = Object.keys(FIELDS).indexOf(field);
  return IN_FULL ? NAUGHTY : NAUGHTY.filter((_, at) => (at + first) % 5 === 0);
}

async function inTens<T, R>(all: readonly T[], work: (one: T) => Promise<R>): Promise<R[]> {
  const done: R[] = [];
  for (let at = 0; at < all.length; at += 10) done.push(...(await Promise.all(all.slice(at, at + 10).map(work))));
  return done;
}

describe("on the wire", () => {
  const body = () => JSON.stringify({ model, max_tokens: 1, messages: [{ role: "user", content: "Hi" }] });
  const length = () => `content-length: ${Buffer.byteLength(body())}`;
  const cases: [string, () => string][] = [
    ["two lengths that differ", () => `${chatHead(tenant.key, length(), "content-length: 5")}${body()}`],
    [
      "a length and chunks",
      () => `${chatHead(tenant.key, "content-length: 5", "transfer-encoding: chunked")}0\r\n\r\n`,
    ],
    ["a length that is no number", () => `${chatHead(tenant.key, "content-length: many")}${body()}`],
    ["a negative length", () => `${chatHead(tenant.key, "content-length: -5")}${body()}`],
    ["a length beyond numbers", () => `${chatHead(tenant.key, "content-length: 99999999999999999999999")}${body()}`],
    ["chunks of no size", () => `${chatHead(tenant.key, "transfer-encoding: chunked")}zz\r\n{}\r\n0\r\n\r\n`],
    ["an unknown coding", () => `${chatHead(tenant.key, "transfer-encoding: mystery", length())}${body()}`],
    ["bare line feeds", () => `${chatHead(tenant.key, length()).replaceAll("\r\n", "\n")}${body()}`],
    ["a header of a megabyte", () => `${chatHead(tenant.key, `x-large: ${"a".repeat(1_000_000)}`, length())}${body()}`],
    [
      "ten thousand headers",
      () => `${chatHead(tenant.key, ...Array.from({ length: 10_000 }, (_, at) => `x-${at}: 1`))}`,
    ],
    ["a header without a name", () => `${chatHead(tenant.key, ": nameless", length())}${body()}`],
    ["a header over two lines", () => `${chatHead(tenant.key, "x-folded: a\r\n b", length())}${body()}`],
    ["a null byte in a header", () => `${chatHead(tenant.key, "x-null: a\u0000b", length())}${body()}`],
    ["no HTTP at all", () => "\u0016\u0003\u0001\u0002hello\r\n\r\n"],
    ["no version", () => "GET /\r\n\r\n"],
    ["HTTP/9.9", () => "GET / HTTP/9.9\r\nhost: x\r\n\r\n"],
    ["a path of 100 KB", () => `GET /${"a".repeat(100_000)} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n`],
    [
      "a whole URL as the path",
      () => "GET http://elsewhere.example/v1/models HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n",
    ],
  ];
  test.each(cases)("%s: no 5xx, and the next one is served", async (_name, bytes) => {
    const before = await operator.sandbox.executions(model);
    const client = new RawClient(operator.url, bytes());
    await eventually("an answer or the end", () => client.text.includes("\r\n\r\n") || client.ended, {
      withinMs: 1_500,
    }).catch(() => undefined);
    client.reset();
    expect(client.text).not.toMatch(/^HTTP\/1.1 5/);
    const executed = (await operator.sandbox.executions(model)).length - before.length;
    const served = client.text.startsWith("HTTP/1.1 200") ? 1 : 0;
    expect(executed).toBe(served);
    expect((await tenant.chat({ model, max_tokens: 1 })).status).toBe(200);
  });

  test("requests of different keys, sent one after the other without waiting: each gets its own answer", async () => {
    const other = await operator.tenant();
    const otherModel = await operator.instance(other);
    const asks = Array.from({ length: 20 }, (_, at) => {
      const [who, what] = at % 2 === 0 ? [tenant, model] : [other, otherModel];
      const text = JSON.stringify({
        model: what,
        max_tokens: 20,
        sandbox_reply: `marker-${at}-of-${who.account}`,
        messages: [{ role: "user", content: "Hi" }],
      });
      return { who, at, bytes: `${chatHead(who.key, `content-length: ${Buffer.byteLength(text)}`)}${text}` };
    });
    const client = new RawClient(operator.url, asks.map(({ bytes }) => bytes).join(""));
    await client.until(`marker-19-of-${other.account}`, 10_000);
    client.reset();
    const order = [...client.text.matchAll(/marker-(\d+)-of-([\w-]+)/g)].map(([, at, who]) => `${at} ${who}`);
    expect(order).toEqual(asks.map(({ at, who }) => `${at} ${who.account}`));
  });

  test("what hides a second request behind the first's length is nobody's call", async () => {
    const hidden = `${chatHead(tenant.key, length())}${body()}`;
    const before = (await operator.sandbox.executions(model)).length;
    const client = new RawClient(
      operator.url,
      `${chatHead(tenant.key, "content-length: 2", "transfer-encoding: chunked")}0\r\n\r\n${hidden}`,
    );
    await sleep(500);
    client.reset();
    expect(client.text).not.toMatch(/HTTP\/1.1 5/);
    expect((await operator.sandbox.executions(model)).length).toBe(before);
  });

  test("slow senders hold up nobody and hold no money", async () => {
    const sockets = Array.from({ length: 50 }, () => {
      const socket = createConnection({ host: "127.0.0.1", port: Number(new URL(operator.url).port) });
      socket.on("error", () => undefined);
      socket.write(chatHead(tenant.key, "content-length: 1000"));
      return socket;
    });
    for (let at = 0; at < 5; at++) {
      for (const socket of sockets) socket.write(" ");
      const startedAtMs = Date.now();
      expect((await tenant.chat({ model, max_tokens: 1 })).status).toBe(200);
      expect(Date.now() - startedAtMs).toBeLessThan(allowedMs(2_000));
    }
    expect(await tenant.audit()).toMatchObject({ ok: true, open_holds: 0, held_usd: 0 });
    for (const socket of sockets) socket.destroy();
  });
});
