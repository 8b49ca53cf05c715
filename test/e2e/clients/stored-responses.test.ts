/** Stored responses: their input is read and they are deleted by the account that made them, and by no other. */
import { expect, test } from "vitest";
import { openaiOf } from "../../support/openai.ts";
import { type Exchange, ScriptedUpstream } from "../../support/upstream.ts";
import { world } from "../../support/world.ts";

const { operator } = world();
const UNKNOWN = {
  status: 404,
  body: expect.objectContaining({ error: expect.objectContaining({ type: "invalid_request_error" }) }),
};

test("input is read in pages; a deleted response is gone, once and for all, and costs nothing", async () => {
  const tenant = await operator.tenant();
  const stranger = await operator.tenant();

  await operator.model("full-7b", { upstream: "sandbox", max_output_tokens: 4_096 });
  const alias = await operator.alias(tenant, [{ upstream: "sandbox", model: "full-7b" }]);
  const { responses } = openaiOf(tenant);
  const input = ["a", "b", "c"].map((content) => ({ role: "user" as const, content }));
  const { id } = await responses.create({ model: alias, input });
  const read: unknown[] = [];
  for await (const item of responses.inputItems.list(id, { limit: 2, order: "asc" })) read.push(item);
  expect(read).toMatchObject(input);
  const asked = (method: string, path: string, who = tenant) =>
    who
      .fetch(`/v1/responses/${path}`, { method })
      .then(async (answer) => ({ status: answer.status, body: await answer.json() }));
  expect(await asked("GET", `${id}/input_items?limit=1000`)).toMatchObject({
    status: 400,
    body: { error: { param: "limit" } },
  });
  const calls = async () => (await operator.sandbox.allCalls()).filter(({ path }) => path.includes(id)).length;
  const unknown = await asked("DELETE", "resp_nothing", stranger);
  expect(unknown).toMatchObject(UNKNOWN);
  const before = await calls();
  expect(await asked("DELETE", id, stranger)).toEqual(unknown);
  expect(await asked("GET", `${id}/input_items`, stranger)).toEqual(unknown);
  expect(await calls()).toBe(before);

  expect(await asked("DELETE", id)).toEqual({ status: 200, body: { id, object: "response", deleted: true } });
  const after = await calls();
  expect(after).toBeGreaterThan(before);
  for (const [method, path] of [
    ["DELETE", id],
    ["GET", id],
    ["GET", `${id}/input_items`],
  ] as const) {
    expect(await asked(method, path)).toEqual(unknown);
  }
  await expect(responses.create({ model: alias, input: "Hi", previous_response_id: id })).rejects.toMatchObject({
    status: 404,
  });
  expect(await calls()).toBe(after);
  expect(await tenant.charges()).toHaveLength(1);
});

test.each([404, 405, 501])(
  "an upstream without them (%d): the 404 of an unknown id, and the response stays",
  async (status) => {
    const answers = (exchange: Exchange) => {
      const { method, path } = exchange;
      const made = { id: "resp_kept", object: "response", created_at: 1, model: "m", status: "completed", output: [] };
      const usage = { input_tokens: 1, output_tokens: 1 };
      if (method === "POST" || (method === "GET" && !path.endsWith("input_items")))
        return exchange.answer({ ...made, usage });
      return exchange.answer({ detail: "none" }, status);
    };
    const upstream = await ScriptedUpstream.start(answers);
    try {
      const tenant = await operator.tenant();
      const id = await operator.upstream(upstream.url);
      const model = await operator.alias(tenant, [
        { upstream: id, model: await operator.model(`few-${id}`, { upstream: id }) },
      ]);
      const { responses } = openaiOf(tenant);
      await responses.create({ model, input: "Hi" });
      await expect(responses.delete("resp_kept")).rejects.toMatchObject({ status: 404, type: "invalid_request_error" });
      await expect(responses.inputItems.list("resp_kept")).rejects.toMatchObject({ status: 404 });
      expect((await responses.retrieve("resp_kept")).id).toBe("resp_kept");
    } finally {
      await upstream.stop();
    }
  },
);
