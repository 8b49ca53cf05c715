/**
 * A conversation lives where it began: later turns and reads go to the target that made the response, and to no other.
 * In a process of its own: a region is taken down.
 */
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { Operator } from "../../support/operator.ts";
import { TollgateProcess } from "../../support/process.ts";
import type { Execution } from "../../support/sandbox.ts";
import { ask, callIdOf, callOf, instanceFor, type Names, pricesOf, serviceFor } from "../../support/service.ts";
import type { ErrorBody, Tenant } from "../../support/tenant.ts";

const REGIONS = ["us-east-1", "eu-west-1"] as const;
let tollgate: TollgateProcess;
let operator: Operator;
let tenant: Tenant;
/** Asked in this order; each is a region of the service on its own. */
let upstreams: string[];
let names: Names;

beforeAll(async () => {
  tollgate = await TollgateProcess.start();
  operator = new Operator(tollgate);
  tenant = await operator.tenant({ balance_usd: 5 });
  upstreams = await newUpstreams();
  names = await serviceFor(operator, tenant, { upstreams });
});
afterAll(() => tollgate?.stop());
afterEach(async () => {
  await operator.sandbox.clearFaults();
  for (const region of REGIONS) await operator.sandbox.setRegion(region, true);
  expect(await tenant.audit()).toMatchObject({ ok: true, open_holds: 0 });
});

interface Turn {
  readonly response: Response;
  readonly body: { readonly id: string; readonly usage: Record<string, number> } & ErrorBody;
  readonly region: string | null;
}

async function turn(fields: Record<string, unknown> = {}, model = names.chat): Promise<Turn> {
  const response = await ask(tenant, callOf("responses", model, fields));
  return { response, body: (await response.json()) as Turn["body"], region: response.headers.get("x-service-region") };
}

/** What the service heard of a call. */
const heard = (response: Response): Promise<Execution[]> => operator.sandbox.callsOf(callIdOf(response));

/** Each region on its own, as upstreams that no other test has made fail. */
const newUpstreams = (): Promise<string[]> =>
  Promise.all(REGIONS.map((region) => operator.upstream(`${tollgate.sandboxUrl}/regions/${region}`, { region })));

/** A conversation that began in the second region, when its alias knew of no other. */
async function begunInTheSecond(): Promise<Turn> {
  const both = await newUpstreams();
  const alone = await operator.alias(tenant, [{ upstream: both[1] ?? "", model: "llama-7b" }]);
  await operator.call("PUT", `/models/${alone}`, {
    kind: "chat",
    prices: pricesOf("input_tokens", "output_tokens"),
    max_output_tokens: 64,
  });
  const begun = await turn({ input: "one" }, alone);
  expect([begun.response.status, begun.region]).toEqual([200, "eu-west-1"]);
  // From now on the alias prefers the first.
  await operator.call("PUT", `/aliases/${alone}`, {
    account: tenant.account,
    targets: both.map((upstream, priority) => ({ upstream, model: "llama-7b", priority })),
  });
  return { ...begun, body: { ...begun.body, model: alone } as Turn["body"] };
}
const modelOf = ({ body }: Turn): string => (body as unknown as { model: string }).model;

describe("later turns and reads", () => {
  test("go where the response was made, though the alias prefers another target by then", async () => {
    const first = await begunInTheSecond();
    let previous = first.body.id;
    for (const input of ["two", "three"]) {
      const next = await turn({ input, previous_response_id: previous }, modelOf(first));
      expect([next.response.status, next.region]).toEqual([200, "eu-west-1"]);
      expect(await heard(next.response)).toMatchObject([{ region: "eu-west-1", executed: true }]);
      previous = next.body.id;
    }
    for (const [method, path] of [
      ["GET", ""],
      ["POST", "/cancel"],
    ] as const) {
      const read = await tenant.fetch(`/v1/responses/${previous}${path}`, { method });
      expect([read.status, read.headers.get("x-service-region")]).toEqual([200, "eu-west-1"]);
      expect(await heard(read)).toMatchObject([{ region: "eu-west-1", executed: false }]);
    }
    // A new conversation goes where the alias says.
    const fresh = await turn({ input: "one" }, modelOf(first));
    expect([fresh.response.status, fresh.region]).toEqual([200, "us-east-1"]);
  });

  test("keep all earlier turns: each counts what came before as cached input", async () => {
    const first = await turn({ input: "one" });
    const second = await turn({ input: "two", previous_response_id: first.body.id });
    const third = await turn({ input: "three", previous_response_id: second.body.id });
    for (const [before, after] of [
      [first, second],
      [second, third],
    ] as const) {
      const details = after.body.usage.input_tokens_details as unknown as { cached_tokens: number };
      expect(details.cached_tokens).toBe(before.body.usage.total_tokens);
    }
    // Continuing from an earlier turn is another branch of the same conversation.
    const branch = await turn({ input: "two again", previous_response_id: first.body.id });
    expect(branch.response.status).toBe(200);
  });

  test.each([
    ["the region is down", async () => operator.sandbox.setRegion("eu-west-1", false)],
    ["it answers 429", async () => operator.sandbox.faultAt({ region: "eu-west-1" }, { fault: "status", status: 429 })],
  ])("are 503 when %s: no other region hears of them, and nothing is charged", async (_what, breakIt) => {
    const first = await begunInTheSecond();
    const charges = (await tenant.charges()).length;
    await breakIt();
    const next = await turn({ input: "two", previous_response_id: first.body.id }, modelOf(first));
    expect([next.response.status, next.body.error.code]).toEqual([503, "no_healthy_upstream"]);
    const read = await tenant.fetch(`/v1/responses/${first.body.id}`);
    expect(read.status).toBe(503);
    for (const response of [next.response, read]) {
      for (const call of await heard(response)) expect([call.executed, call.region]).not.toEqual([true, "us-east-1"]);
    }
    const elsewhere = (await operator.sandbox.allExecutions()).filter(
      ({ request_id, region }) => request_id === callIdOf(next.response) && region !== "eu-west-1",
    );
    expect(elsewhere).toEqual([]);
    expect((await tenant.charges()).filter(({ amount_usd }) => amount_usd !== 0)).toHaveLength(charges);
  });

  test("a conversation that the service itself has forgotten is 404", async () => {
    const first = await turn({ input: "one" });
    await operator.sandbox.advance(24 * 3_600_000 + 1_000);
    const next = await turn({ input: "two", previous_response_id: first.body.id });
    expect([next.response.status, next.body.error.type]).toEqual([404, "invalid_request_error"]);
    expect((await tenant.fetch(`/v1/responses/${first.body.id}`)).status).toBe(404);
  });
});

describe("what a conversation refuses", () => {
  test("another model than the one it began with, without a call to the service", async () => {
    const first = await turn({ input: "one" });
    const others = [(await serviceFor(operator, tenant, { upstreams })).chat];
    for (const model of others) {
      const next = await turn({ input: "two", previous_response_id: first.body.id }, model);
      expect([next.response.status, next.body.error.param]).toEqual([400, "model"]);
      expect(await heard(next.response)).toEqual([]);
    }
    const same = await turn({ input: "two", previous_response_id: first.body.id });
    expect(same.response.status).toBe(200);
  });

  test("instances, by name and behind an alias, and models of other kinds", async () => {
    const { model } = await instanceFor(operator, tenant, "chat");
    const alias = await operator.alias(tenant, [{ upstream: "sandbox", model }]);
    const { chat: _, ...others } = names;
    for (const name of [model, alias, ...Object.values(others)]) {
      const refused = await turn({ input: "one" }, name);
      expect([name, refused.response.status, refused.body.error.code]).toEqual([name, 400, "model_not_supported"]);
      expect(await heard(refused.response)).toEqual([]);
    }
  });

  test("pictures, files and sound: the service keeps text", async () => {
    const input = [{ role: "user", content: [{ type: "input_image", image_url: "https://x.example/a.png" }] }];
    const refused = await turn({ input });
    expect(refused.response.status).toBe(400);
    expect((await tenant.charges()).every(({ call_id }) => call_id !== callIdOf(refused.response))).toBe(true);
  });
});
