/**
 * JSON as the JSON test suite has it: what must be refused (`n_`) is a 400 in the endpoint's error shape, quickly, and
 * no upstream hears of it; what must be accepted (`y_`) is no reason for a 400 by itself. In short a part of it: the
 * reader itself is tried with all of it in test/core/formats/json-suite.test.ts.
 */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { partOf } from "../../support/in-full.ts";
import { ACCEPTED, LISTS, NUMBERS, OBJECTS, TEXTS, WHOLE } from "../../support/json-cases.ts";
import { allowedMs } from "../../support/slowness.ts";
import type { ErrorBody, Tenant } from "../../support/tenant.ts";
import { world } from "../../support/world.ts";

const { operator } = world();
let tenant: Tenant;
let model: string;

beforeAll(async () => {
  tenant = await operator.tenant();
  model = await operator.instance(tenant);
});

const post = (body: BodyInit) =>
  tenant.fetch("/v1/chat/completions", { method: "POST", body, headers: { "content-type": "application/json" } });
/** A whole call but for the value of one unknown field. */
const around = (value: string) =>
  `{"model":"${model}","max_tokens":1,"messages":[{"role":"user","content":"Hi"}],"noise":${value}}`;

describe("refused", () => {
  afterAll(async () => {
    expect(await operator.sandbox.calls(model)).toEqual([]);
    expect(await tenant.audit()).toMatchObject({ ok: true, open_holds: 0, balance_usd: 1 });
  });

  async function expectRefused(body: BodyInit): Promise<void> {
    const startedAtMs = performance.now();
    const response = await post(body);
    const { error } = (await response.json()) as ErrorBody;
    expect([response.status, error.code, error.type]).toEqual([400, "invalid_request_error", "invalid_request_error"]);
    expect(performance.now() - startedAtMs).toBeLessThan(allowedMs(2_000));
  }

  test.each(partOf([...LISTS, ...NUMBERS, ...OBJECTS, ...TEXTS], 3))("%j as a field", (value) =>
    expectRefused(around(value)),
  );
  test.each(partOf([...LISTS, ...OBJECTS, ...TEXTS], 4))("%j as the whole", (value) => expectRefused(value));
  test.each(WHOLE)("%s", (_name, body) => expectRefused(new Uint8Array(body)));

  test("in 50 ms, in the middle of fifty of them", async () => {
    const times: number[] = [];
    for (let at = 0; at < 50; at++) {
      const startedAtMs = performance.now();
      await (await post(around(TEXTS[at % TEXTS.length] as string))).arrayBuffer();
      times.push(performance.now() - startedAtMs);
    }
    expect(times.sort((a, b) => a - b)[25]).toBeLessThan(allowedMs(50));
  });
});

describe("accepted", () => {
  test.each(partOf(ACCEPTED, 3))("%j", async (value) => {
    const response = await post(around(value));
    expect([response.status, await response.text()]).toEqual([200, expect.stringContaining("chat.completion")]);
  });
});
