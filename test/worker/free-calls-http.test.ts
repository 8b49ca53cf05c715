/** The limit on calls that cost nothing, as a tenant meets it. */
import { afterAll, expect, it, vi } from "vitest";
import { done, settled } from "../support/worker/operator.ts";
import { as, ask, keyOf } from "../support/worker/tenant.ts";

afterAll(async () => {
  vi.restoreAllMocks();
  await settled();
});

it("429 with retry-after in the shape of the call, nothing asked upstream, and /account shows what is left", async () => {
  const answers: string[] = [];
  vi.spyOn(globalThis, "fetch").mockImplementation(async (input) => {
    answers.push(String(input instanceof Request ? input.url : input));
    const usage = { input_tokens: 1, output_tokens: 1, total_tokens: 2 };
    return Response.json({ id: "resp_1", object: "response", status: "completed", output: [], usage });
  });
  vi.spyOn(console, "log").mockImplementation(() => undefined);
  await done("PUT", "/upstreams/free", { base_url: "https://free.example", api_key: "k" });
  const unit = { cost_usd: 1, price_usd: 2 };
  const prices = { input_tokens: unit, output_tokens: unit };
  await done("PUT", "/models/free-m", { kind: "chat", prices, max_output_tokens: 16, upstream: "free" });
  await done("POST", "/accounts", { id: "free", name: "free", balance_usd: 5, free_rpm_limit: 50 });
  const { key } = await keyOf("free", { free_rpm_limit: 2, role: "owner" });
  const create = { headers: { "content-type": "application/json" }, body: '{"model":"free-m","input":"hi"}' };
  expect((await ask(key, "POST", "/v1/responses", create)).status).toBe(200);
  const read = () => ask(key, "GET", "/v1/responses/resp_1");
  expect((await read()).status).toBe(200);
  const cancel = await ask(key, "POST", "/v1/responses/resp_1/cancel");
  expect(cancel.status).toBe(200);
  answers.length = 0;
  const refused = await read();
  expect(refused.status).toBe(429);
  expect(Number(refused.headers.get("retry-after"))).toBeGreaterThan(50);
  expect(JSON.parse(refused.text).error).toMatchObject({ code: "rate_limit_exceeded", type: "requests" });
  expect(answers).toEqual([]);

  const { body } = await as(key, "GET", "/account");
  expect(body.limits.key).toMatchObject({ free_rpm_limit: 2, free_rpm_remaining: 0 });
  expect(body.limits.account).toMatchObject({ free_rpm_limit: 50, free_rpm_remaining: 48 });
  const plain = await keyOf("free");
  const { body: other } = await as(plain.key, "GET", "/account");
  expect(other.limits.key).toMatchObject({ free_rpm_limit: 120, free_rpm_remaining: 120 });
  expect(other.key.free_rpm_limit).toBeNull();

  // One of its twenty others was `/account`.
  for (let left = 19; left > 0; left--) expect((await ask(key, "GET", "/v1/models")).status).toBe(200);
  const shapes = [
    ["/v1/models", { error: { code: "rate_limit_exceeded" } }],
    ["/account", { error: { code: "rate_limit_exceeded" } }],
    ["/billing/balance", { error: expect.stringContaining("free_rpm_limit") }],
    ["/v1/video/jobs/none", { code: "rate_limit_exceeded" }],
  ] as const;
  for (const [path, shape] of shapes) {
    const answer = await ask(key, "GET", path);
    expect(answer.status, path).toBe(429);
    expect(answer.headers.get("retry-after"), path).not.toBeNull();
    expect(JSON.parse(answer.text), path).toMatchObject(shape);
  }
  expect((await ask(key, "POST", "/v1/responses", create)).status).toBe(200);
});
