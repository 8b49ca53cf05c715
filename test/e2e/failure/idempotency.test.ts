/** What makes something is made once: across repeats, at once and later, and where its answer was lost. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { openaiOf } from "../../support/openai.ts";
import { unique } from "../../support/operator.ts";
import { TcpProxy } from "../../support/tcp-proxy.ts";
import type { Tenant } from "../../support/tenant.ts";
import { world } from "../../support/world.ts";

const { operator, sandboxUrl } = world();
let tenant: Tenant;
let proxy: TcpProxy;
let broken: string;

beforeAll(async () => {
  tenant = await operator.tenant();
  proxy = await TcpProxy.start(sandboxUrl);
  broken = await operator.upstream(proxy.url);
});
afterAll(() => proxy.stop());

async function post(path: string, body: object, key: string) {
  const response = await tenant.fetch(path, {
    method: "POST",
    headers: { "content-type": "application/json", "idempotency-key": key },
    body: JSON.stringify(body),
  });
  const text = await response.text();
  return { response, text, body: text.startsWith("{") ? JSON.parse(text) : undefined };
}
const charges = async () => (await tenant.charges()).length;
/** How often the calls with these request ids were carried out. */
async function executed(...answers: { response: Response }[]): Promise<number> {
  const ids = answers.map(({ response }) => response.headers.get("x-request-id"));
  return (await operator.sandbox.allExecutions()).filter(({ request_id }) => ids.includes(request_id)).length;
}

test("a response that is asked for twice, and ten times at once, is one response, charged once", async () => {
  const model = await operator.alias(tenant, [{ upstream: "sandbox", model: "llama-7b" }]);
  const [key, body, before] = [unique("key"), { model, input: "Hi" }, await charges()];
  const answers = await Promise.all(Array.from({ length: 10 }, () => post("/v1/responses", body, key)));
  answers.push(await post("/v1/responses", body, key));
  expect(answers.map(({ response }) => response.status)).toEqual(answers.map(() => 200));
  expect(new Set(answers.map((answer) => answer.body.id)).size).toBe(1);
  expect(answers.filter(({ response }) => response.headers.has("idempotent-replayed"))).toHaveLength(10);
  expect(await executed(...answers)).toBe(1);
  expect(await charges()).toBe(before + 1);
});

test("a repeat of a stream is a stream of the same response, as the SDK reads it", async () => {
  const model = await operator.alias(tenant, [{ upstream: "sandbox", model: "llama-7b" }]);
  const options = { headers: { "idempotency-key": unique("key") } };
  const ask = async () => {
    const stream = await openaiOf(tenant).responses.create({ model, input: "Hi", stream: true }, options);
    let [text, id] = ["", ""];
    for await (const event of stream) {
      if (event.type === "response.output_text.delta") text += event.delta;
      if (event.type === "response.completed") id = event.response.id;
    }
    return { text, id };
  };
  const first = await ask();
  expect(first.id).not.toBe("");
  expect(await ask()).toEqual(first);
});

test("another body under the same key is 409 and is not sent", async () => {
  const model = await operator.alias(tenant, [{ upstream: "sandbox", model: "llama-7b" }]);
  const key = unique("key");
  await post("/v1/responses", { model, input: "Hi" }, key);
  const other = await post("/v1/responses", { model, input: "Ho" }, key);
  expect([other.response.status, other.response.headers.get("x-should-retry")]).toEqual([409, "false"]);
  expect(await executed(other)).toBe(0);
});

test("an answer lost on the way: 504, the same 504 to each repeat, carried out once", async () => {
  const model = await operator.alias(tenant, [
    { upstream: broken, model: "llama-7b" },
    { upstream: "sandbox", model: "llama-7b" },
  ]);
  await proxy.become({ kind: "reset_after", bytes: 20 });
  const key = unique("key");
  const first = await post("/v1/responses", { model, input: "Hi" }, key);
  await proxy.become({ kind: "pass" });
  const second = await post("/v1/responses", { model, input: "Hi" }, key);
  for (const { response } of [first, second]) {
    expect([response.status, response.headers.get("x-should-retry")]).toEqual([504, "false"]);
  }
  expect(second.body).toEqual(first.body);
  expect(await executed(first, second)).toBe(1);
  expect(await tenant.audit()).toMatchObject({ ok: true, held_usd: 0, open_holds: 0 });
});

/**
 * A machine that takes more than 50 ms to refuse a connection leaves open whether the call was executed (decision
 * 0005).
 */
const BUSY = { retry: 5 };

test(
  "a refused connection was no execution: the next target makes the image, and a repeat is told that it was made",
  BUSY,
  async () => {
    const fresh = await operator.upstream(proxy.url);
    const model = await operator.alias(tenant, [
      { upstream: fresh, model: "image-turbo" },
      { upstream: "sandbox", model: "image-turbo" },
    ]);
    await proxy.become({ kind: "refuse" });
    const [key, body] = [unique("key"), { model, prompt: "a fox", size: "512x512" }];
    const first = await post("/v1/images/generations", body, key);
    expect(first.response.status).toBe(200);
    const second = await post("/v1/images/generations", body, key);
    expect([second.response.status, second.body.error.code]).toEqual([409, "idempotency_error"]);
    expect(await executed(first, second)).toBe(1);
    await proxy.become({ kind: "pass" });
  },
);

test("a create that every target refused frees its key", BUSY, async () => {
  const fresh = await operator.upstream(proxy.url);
  const model = await operator.alias(tenant, [{ upstream: fresh, model: "llama-7b" }]);
  await proxy.become({ kind: "refuse" });
  const key = unique("key");
  expect((await post("/v1/responses", { model, input: "Hi" }, key)).response.status).toBe(503);
  await proxy.become({ kind: "pass" });
  const again = await post("/v1/responses", { model, input: "Hi" }, key);
  expect([again.response.status, again.response.headers.has("idempotent-replayed")]).toEqual([200, false]);
});
