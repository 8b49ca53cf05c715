/** No byte of prompt or completion, no key and no credential in any log, table, queue or error text. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, expect, test } from "vitest";
import { eventually } from "../../support/eventually.ts";
import { unique } from "../../support/operator.ts";
import type { Tenant } from "../../support/tenant.ts";
import { chunk, completion, DONE, ScriptedUpstream } from "../../support/upstream.ts";
import { world } from "../../support/world.ts";

const { operator, stateDir, logFile } = world();
/** Stands wherever a tenant or a model can put text. */
const MARKER = `marker-${unique("")}-`.padEnd(64, "0123456789abcdef");
const UPSTREAM_SECRET = `upstream-secret-${unique("")}`;
let tenant: Tenant;

/** Files below a directory that hold one of these strings. */
function filesWith(dir: string, needles: readonly string[]): string[] {
  const files = readdirSync(dir, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  return files
    .map((entry) => join(entry.parentPath, entry.name))
    .filter((file) => {
      const bytes = readIfThere(file);
      return needles.some((needle) => bytes.includes(needle));
    });
}

/** A file that was there a moment ago may have been replaced. */
function readIfThere(file: string): Buffer {
  try {
    return readFileSync(file);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
    return Buffer.alloc(0);
  }
}

const base = (model: string) => ({
  model,
  messages: [
    { role: "system", content: MARKER, name: MARKER },
    { role: "user", content: [{ type: "text", text: MARKER }] },
    { role: "user", content: [{ type: "image_url", image_url: { url: `https://x.example/${MARKER}` } }] },
    { role: "assistant", content: MARKER, tool_calls: [{ id: MARKER, type: "function", function: { name: MARKER } }] },
    { role: "tool", tool_call_id: MARKER, content: MARKER },
  ],
  tools: [{ type: "function", function: { name: MARKER, description: MARKER, parameters: { [MARKER]: MARKER } } }],
  stop: [MARKER],
  user: MARKER,
  safety_identifier: MARKER,
  prompt_cache_key: MARKER,
  metadata: { [MARKER]: MARKER },
  [MARKER]: MARKER,
  max_tokens: 20,
});

const wrong = [
  { temperature: MARKER },
  { messages: MARKER },
  { messages: [{ role: MARKER, content: MARKER }] },
  { messages: [{ role: "user", content: [{ type: MARKER, text: MARKER }] }] },
  { stream: MARKER },
  { stop: { [MARKER]: MARKER } },
  { api_key: MARKER },
  { tools: [{ type: MARKER }] },
  { response_format: { type: MARKER } },
];

beforeAll(async () => {
  tenant = await operator.tenant();
});

test("a marker in every text position, valid or not, whatever the upstream does, is found nowhere", async () => {
  const target = await operator.instance(tenant);
  const faulty = [
    { fault: "status", status: 400, body: { error: { message: MARKER, param: MARKER, code: MARKER } } },
    { fault: "status", status: 500, body: MARKER, executed: false },
    { fault: "status", status: 503 },
    { fault: "truncate" },
    { fault: "garble" },
    { fault: "json_error_200" },
    { fault: "redirect", location: `https://elsewhere.example/${MARKER}` },
    { fault: "no_usage" },
  ];
  await tenant.chat(base(target));
  await tenant.chat({ ...base(target), stream: true }).catch(() => undefined);
  for (const fault of faulty) {
    const broken = await operator.instance(tenant);
    await operator.sandbox.fault(broken, fault);
    for (const stream of [false, true]) await tenant.chat({ ...base(broken), stream }).catch(() => undefined);
  }
  for (const fields of wrong) await tenant.chat({ ...base(target), ...fields });
  await tenant.chat(base(MARKER));
  await tenant.fetch(`/v1/models/${MARKER}`);
  await tenant.fetch(`/v1/${MARKER}?${MARKER}=${MARKER}`, { method: "POST", headers: { "user-agent": MARKER } });
  await tenant.fetch("/v1/models", { headers: { authorization: `Bearer ${MARKER}` } });
  await tenant.fetch("/v1/chat/completions", { method: "POST", body: MARKER, headers: { "content-type": MARKER } });
  await tenant.post(`{"${MARKER}`);

  await eventually("everything is shipped", async () => (await tenant.audit()).outbox === 0, { withinMs: 10_000 });
  // What is kept is found: the search would see the marker.
  expect(filesWith(join(stateDir, "gateway"), [tenant.account])).not.toEqual([]);
  // The sandbox is somebody else's house: what it keeps is not looked at.
  expect(filesWith(join(stateDir, "gateway"), [MARKER])).toEqual([]);
  expect(readFileSync(logFile).includes(MARKER)).toBe(false);
});

test("no key and no credential of an upstream stands in clear anywhere, nor in an answer", async () => {
  const upstream = await ScriptedUpstream.start(async (exchange) => {
    // It tells its caller all that it was sent.
    const echo = JSON.stringify({ headers: exchange.headers, body: exchange.text });
    if (exchange.text.includes("whole")) exchange.answer({ error: { message: echo } }, 400);
    else if (exchange.json.stream) await exchange.stream(chunk({ content: "a" }) + DONE);
    else exchange.answer(completion("a"));
  });
  const id = await operator.upstream(upstream.url, { api_key: UPSTREAM_SECRET });
  const model = await operator.model(`echo-${id}`, { upstream: id });
  const answers = [
    await tenant.chat({ model }),
    await tenant.chat({ model, stream: true }),
    await tenant.chat({ model, messages: [{ role: "user", content: "whole" }] }),
  ];
  expect(answers.map(({ status }) => status)).toEqual([200, 200, 400]);
  expect(upstream.exchanges.every(({ headers }) => headers.authorization === `Bearer ${UPSTREAM_SECRET}`)).toBe(true);
  for (const { headers, body } of answers) {
    const text = JSON.stringify([...headers, body]);
    expect(text).not.toContain(UPSTREAM_SECRET);
    expect(text).not.toContain(new URL(upstream.url).host);
  }
  const rotated = await operator.call<{ key: string }>(
    "POST",
    `/accounts/${tenant.account}/keys/${tenant.keyId}/rotate`,
    { grace_seconds: 60 },
  );
  const second = await operator.key(tenant.account);
  const secrets = [UPSTREAM_SECRET, tenant.key, rotated.key, second.key];
  expect(filesWith(stateDir, secrets)).toEqual([]);
  const log = readFileSync(logFile);
  expect(secrets.filter((secret) => log.includes(secret))).toEqual([]);
  await upstream.stop();
});

test("only listed headers pass, either way", async () => {
  const upstream = await ScriptedUpstream.start((exchange) =>
    exchange.answer(completion("a"), 200, {
      "set-cookie": "a=b",
      "x-service-account": "operator",
      "x-ratelimit-limit-requests": "77777",
      "x-anything": "else",
      server: "engine",
    }),
  );
  const id = await operator.upstream(upstream.url);
  const model = await operator.model(`headers-${id}`, { upstream: id });
  const response = await tenant.post(
    { model, messages: [{ role: "user", content: "Hi" }] },
    {
      headers: {
        cookie: "c=d",
        "x-forwarded-for": "10.0.0.1",
        "openai-organization": "org",
        "x-mine": "1",
        te: "trailers",
      },
    },
  );
  expect(response.status).toBe(200);
  const names = [...response.headers.keys()];
  for (const hidden of ["set-cookie", "x-service-account", "x-anything", "server"]) expect(names).not.toContain(hidden);
  expect(response.headers.get("x-ratelimit-limit-requests")).not.toBe("77777");
  const sent = Object.keys(upstream.exchanges[0]?.headers ?? {});
  // The platform itself names the Worker's zone.
  const listed = [
    "host",
    "connection",
    "content-length",
    "transfer-encoding",
    "authorization",
    "content-type",
    "accept",
  ];
  const others = sent.filter(
    (name) => ![...listed, "accept-encoding", "user-agent", "x-request-id", "cf-worker"].includes(name),
  );
  expect(others).toEqual([]);
  await upstream.stop();
});
