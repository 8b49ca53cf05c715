/** A hold covers whatever the call may come to: nothing that a tenant can send gets more out of the upstream. */
import { beforeAll, describe, expect, test } from "vitest";
import { eventually } from "../../support/eventually.ts";
import type { Tenant } from "../../support/tenant.ts";
import { world } from "../../support/world.ts";

const { operator } = world();
let tenant: Tenant;
let target: string;
let model: string;

/** What the price row lets a call put out at most. */
const MOST_OUTPUT = 256;

beforeAll(async () => {
  tenant = await operator.tenant();
  target = await operator.instance(tenant, { model: { max_output_tokens: MOST_OUTPUT } });
  model = await operator.alias(tenant, [{ upstream: "sandbox", model: target }]);
});

async function usageOfOne(body: Record<string, unknown>): Promise<{ status: number; output: number }> {
  const before = await operator.sandbox.executions(target);
  const { status } = await tenant.chat({ model, ...body });
  const made = (await operator.sandbox.executions(target)).slice(before.length);
  return { status, output: made.reduce((sum, { usage }) => sum + (usage?.output_tokens ?? 0), 0) };
}

test("a prompt of two bytes, which the upstream counts as ten tokens, fits its hold", async () => {
  const answer = await tenant.chat({ model, max_tokens: 1 });
  expect(answer.status).toBe(200);
  const entry = (await tenant.charges()).at(-1);
  expect(entry?.call_id).toBe(answer.headers.get("x-request-id"));
  expect(entry?.amount_usd).toBeCloseTo(-11e-6, 9);
  expect(await tenant.audit()).toMatchObject({ ok: true, overrun_usd: 0 });
});

test("without a cap of the caller's, the row's is sent", async () => {
  expect(await usageOfOne({ sandbox_output_tokens: 5_000 })).toEqual({ status: 200, output: MOST_OUTPUT });
});

test.each([
  [{ max_tokens: 7 }, 7],
  [{ max_completion_tokens: 7 }, 7],
  [{ max_tokens: 7, max_completion_tokens: 9 }, 7],
  [{ max_tokens: 9, max_completion_tokens: 7 }, 7],
  [{ max_tokens: 100_000 }, MOST_OUTPUT],
  [{ max_tokens: null }, MOST_OUTPUT],
  [{ max_tokens: 7, n: 3 }, 21],
])("the least cap holds, for each choice: %j", async (caps, most) => {
  expect(await usageOfOne({ ...caps, sandbox_output_tokens: 5_000 })).toEqual({ status: 200, output: most });
});

describe("unknown fields pass, and get no more than was held", () => {
  test.each([
    { min_tokens: 9_999, ignore_eos: true, repeat: 50 },
    { options: { num_ctx: 9_999 }, extra: { top_k: 9_999 } },
    { stream_options: undefined, metadata: { n: "50", max_tokens: 9_999, best_of: 5 }, service_tier: "default" },
  ])("%j", async (fields) => {
    const { status, output } = await usageOfOne({ ...fields, max_tokens: 5, sandbox_output_tokens: 5_000 });
    expect(status).toBe(200);
    expect(output).toBe(5);
  });

  test("a body full of them", async () => {
    const noise = Object.fromEntries(
      Array.from({ length: 900 }, (_, at) => [`field_${at}`, { at, list: [1, "2", null] }]),
    );
    const { status, output } = await usageOfOne({ ...noise, max_tokens: 5, sandbox_output_tokens: 5_000 });
    expect([status, output]).toEqual([200, 5]);
  });
});

describe("what would multiply, reroute, defer or reach into the house is refused wherever it stands", () => {
  test.each([
    ["best_of", { best_of: 5 }],
    ["max_new_tokens", { max_new_tokens: 9_999 }],
    ["max_length", { max_length: 9_999 }],
    ["MAX_TOKENS", { MAX_TOKENS: 9_999 }],
    ["maxTokens", { maxTokens: 9_999 }],
    ["max_tokens ", { "max_tokens ": 9_999 }],
    ["options.num_predict", { options: { num_predict: 9_999 } }],
    ["extra.max_tokens", { extra: { max_tokens: 9_999 } }],
    ["extra.n", { extra: { n: 50 } }],
    ["num_return_sequences", { num_return_sequences: 50 }],
    ["candidateCount", { candidateCount: 50 }],
    ["service_tier", { service_tier: "priority" }],
    ["models", { models: ["llama-70b"] }],
    ["api_base", { api_base: "http://elsewhere.example" }],
    ["base_url", { base_url: "http://elsewhere.example" }],
    ["api_key", { api_key: "sk-mine" }],
    ["extra_headers", { extra_headers: { authorization: "Bearer x" } }],
    ["background", { background: true }],
    ["conversation", { conversation: "conv_1" }],
    ["extra_body", { extra_body: { n: 5 } }],
    ["x.best_of", { x: { best_of: 5 } }],
    ["tools[0].type", { tools: [{ type: "web_search" }] }],
  ])("%s", async (param, fields) => {
    const before = await operator.sandbox.calls(target);
    const answer = await tenant.chat({ model, ...fields });
    expect(answer.status).toBe(400);
    expect((answer.body as { error: { param: string } }).error.param).toContain(param.split(".").at(-1)?.split("[")[0]);
    expect(await operator.sandbox.calls(target)).toHaveLength(before.length);
  });
});

describe("usage that the upstream does not tell, or lies about, is counted by the gateway", () => {
  test.each([
    ["no usage", { fault: "no_usage" }],
    ["negative", { fault: "usage", usage: { prompt_tokens: -5, completion_tokens: -5, total_tokens: -10 } }],
    ["text", { fault: "usage", usage: { prompt_tokens: "many", completion_tokens: "more", total_tokens: "most" } }],
    ["beyond the cap", { fault: "usage", usage: { prompt_tokens: 10, completion_tokens: 1e9, total_tokens: 1e9 } }],
  ])("%s", async (_name, fault) => {
    for (const stream of [false, true]) {
      const liar = await operator.instance(tenant);
      await operator.sandbox.fault(liar, fault);
      const answer = await tenant.chat({ model: liar, stream, max_tokens: 50, sandbox_output_tokens: 50 });
      expect(answer.status).toBe(200);
      const entry = (await tenant.charges()).at(-1);
      expect(entry?.call_id).toBe(answer.headers.get("x-request-id"));
      expect(entry?.amount_usd).toBeLessThan(-40e-6);
      expect(entry?.amount_usd).toBeGreaterThan(-200e-6);
    }
    expect(await tenant.audit()).toMatchObject({ ok: true, overrun_usd: 0, open_holds: 0 });
  });

  test("an explicit zero stays zero", async () => {
    const free = await operator.instance(tenant);
    await operator.sandbox.fault(free, {
      fault: "usage",
      usage: { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 },
    });
    const answer = await tenant.chat({ model: free });
    expect(answer.status).toBe(200);
    const entry = (await tenant.charges()).at(-1);
    expect([entry?.call_id, Math.abs(entry?.amount_usd ?? 1)]).toEqual([answer.headers.get("x-request-id"), 0]);
  });
});

test("a failed call costs nothing", async () => {
  const failing = await operator.instance(tenant);
  await operator.sandbox.fault(failing, { fault: "status", status: 500, executed: false });
  const before = await tenant.audit();
  const answer = await tenant.chat({ model: failing });
  expect(answer.status).toBe(502);
  // With leases, what is left of one comes back within a second.
  const after = await eventually("nothing is held", async () => {
    const found = await tenant.audit();
    return found.open_holds === 0 && found;
  });
  expect(after).toMatchObject({ ok: true, balance_usd: before.balance_usd, held_usd: 0 });
});
