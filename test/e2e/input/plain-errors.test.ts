/** What a tenant and the operator read when a field is wrong, as it comes over HTTP and in the SDK's error. */
import OpenAI from "openai";
import { beforeAll, describe, expect, test } from "vitest";
import { openaiOf } from "../../support/openai.ts";
import type { ErrorBody, Tenant } from "../../support/tenant.ts";
import { world } from "../../support/world.ts";

const { operator } = world();
let tenant: Tenant;
let model: string;

beforeAll(async () => {
  tenant = await operator.tenant();
  model = await operator.alias(tenant, [{ upstream: "sandbox", model: await operator.instance(tenant) }]);
});

const SECRET = "a prompt that nobody else may read";
const HI = { role: "user", content: SECRET };

describe("a wrong field is named, with what it must be and what it was", () => {
  test.each<[Record<string, unknown>, string]>([
    [{ temperature: 3 }, "`temperature` must be a number from 0 to 2; it was 3."],
    [{ messages: undefined }, "`messages` is required: a non-empty array of messages."],
    [
      { messages: [{ ...HI, role: "robot" }] },
      '`messages[0].role` must be one of system, developer, user, assistant, tool, function; it was "robot".',
    ],
    [
      { messages: SECRET },
      `\`messages\` must be a non-empty array of messages; it was a string of ${SECRET.length} characters.`,
    ],
    [{ stop: ["a", 5] }, "`stop` must be a string or an array of strings; `stop[1]` was 5."],
  ])("%j in the SDK's error", async (fields, message) => {
    const body = { model, messages: [HI], ...fields } as unknown as OpenAI.ChatCompletionCreateParamsNonStreaming;
    const error: unknown = await openaiOf(tenant)
      .chat.completions.create(body)
      .then(
        () => undefined,
        (thrown: unknown) => thrown,
      );
    expect(error).toBeInstanceOf(OpenAI.BadRequestError);
    expect((error as Error).message).toBe(`400 ${message}`);
  });

  test("in a body that is no JSON, the place", async () => {
    const body = `{"model":"${model}","messages":[{"role":"user","content":"${SECRET}"}],}`;
    const headers = { "content-type": "application/json" };
    const response = await tenant.fetch("/v1/chat/completions", { method: "POST", body, headers });
    const { error } = (await response.json()) as ErrorBody;
    expect(error.message).toBe(`The request body is not valid JSON: look at character ${body.length}.`);
  });

  test("under /account and /admin too, with the field that was meant", async () => {
    const owner = await operator.tenant({}, { role: "owner" });
    const init = {
      method: "POST",
      body: JSON.stringify({ name: "a", rpm_limt: 5 }),
      headers: { "content-type": "application/json" },
    };
    const told = (await (await owner.fetch("/account/keys", init)).json()) as ErrorBody;
    const { body } = await operator.ask<ErrorBody>("POST", "/accounts", { name: "a", rpm_limt: 5 });
    const meant = "`rpm_limt` is not a field of this call. Did you mean `rpm_limit`?";
    expect([told.error.message, body.error.message]).toEqual([meant, meant]);
  });
});
