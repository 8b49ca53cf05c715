import { beforeEach, expect, test } from "vitest";
import { advance, call, calls, chat, json, post } from "../support/worker/sandbox-client.ts";

const serving = async (model: string, headers = {}) => (await chat({ model }, headers)).headers.get("x-service-region");
const instance = (instance_id: number, us: boolean, eu: boolean, more = {}) =>
  json(
    post("/_sandbox/instances", {
      instance_id,
      name: "llama-7b",
      account: "operator",
      pods: [
        { region: "us-east-1", healthy: us },
        { region: "eu-west-1", healthy: eu },
      ],
      ...more,
    }),
    201,
  );

beforeEach(async () => {
  for (const region of ["us-east-1", "eu-west-1"]) await json(post("/_sandbox/regions", { region, healthy: true }));
  await instance(1042, true, true);
  await advance(10_000);
});

test("healthy pods take turns and the answer names the region and a request id", async () => {
  const regions = [await serving("llama-7b:1042"), await serving("llama-7b:1042"), await serving("llama-7b:1042")];
  expect(new Set(regions)).toEqual(new Set(["us-east-1", "eu-west-1"]));
  expect(regions[0]).toBe(regions[2]);
  expect((await chat()).headers.get("x-service-request-id")).toMatch(/^srv_/);
});

test("a pod that fails is passed over at once; one that recovers is seen after the cache's 10 s", async () => {
  await serving("llama-7b:1042");
  await instance(1042, false, true);
  expect([await serving("llama-7b:1042"), await serving("llama-7b:1042")]).toEqual(["eu-west-1", "eu-west-1"]);
  await advance(10_000);
  await serving("llama-7b:1042");
  await instance(1042, true, true);
  expect([await serving("llama-7b:1042"), await serving("llama-7b:1042")]).toEqual(["eu-west-1", "eu-west-1"]);
  await advance(10_000);
  expect(new Set([await serving("llama-7b:1042"), await serving("llama-7b:1042")]).size).toBe(2);
});

test("no healthy pod is 503, and an instance of one region has nowhere to fail over to", async () => {
  await instance(1042, false, false);
  const { error } = await json(chat({ model: "llama-7b:1042" }), 503);
  expect(error.code).toBe("no_healthy_region");
  await json(post("/_sandbox/regions", { region: "us-east-1", healthy: false }));
  await json(chat({ model: "tuned-7b:2001" }), 503);
  expect(await serving("llama-7b")).toBe("eu-west-1");
});

test("the key's account must own the instance; unknown models, instances and names are 404", async () => {
  await json(chat({ model: "llama-7b:3001" }), 401);
  await json(chat({ model: "llama-7b:3001" }, {}, "sandbox-other-key"));
  for (const model of ["nothing", "llama-7b:9999", "tuned-7b:1042"]) {
    expect((await json(chat({ model }), 404)).error.code).toBe("model_not_found");
  }
});

test("a missing or wrong key is 401 in OpenAI's shape", async () => {
  const { error } = await json(chat({}, {}, "sandbox-wrong"), 401);
  expect(error).toMatchObject({ code: "invalid_api_key", type: "invalid_request_error", param: null });
  await json(call("/v1/models", {}, ""), 401);
});

test("a base path or a header pins the region; there no failover happens", async () => {
  const pinned = (region: string, model = "llama-7b:1042") =>
    post(`/regions/${region}/v1/chat/completions`, { model, messages: [{ role: "user", content: "Hi" }] });
  for (const region of ["us-east-1", "eu-west-1"]) {
    expect((await pinned(region)).headers.get("x-service-region")).toBe(region);
    expect(await serving("llama-7b:1042", { "x-sandbox-region": region })).toBe(region);
  }
  expect((await calls()).every(({ path }) => !path.includes("regions"))).toBe(true);
  await json(pinned("eu-west-1", "tuned-7b:2001"), 503);
  await json(pinned("moon"), 404);
  await json(post("/_sandbox/regions", { region: "eu-west-1", healthy: false }));
  await json(pinned("eu-west-1"), 503);
});

test("models: the platform's and one's own instances", async () => {
  const { data } = await json(call("/v1/models"));
  const ids = data.map(({ id }: { id: string }) => id);
  expect(ids).toContain("llama-7b");
  expect(ids).toContain("llama-7b:1042");
  expect(ids).not.toContain("llama-7b:3001");
  expect(await json(call("/v1/models/llama-70b"))).toMatchObject({ id: "llama-70b", object: "model" });
  await json(call("/v1/models/nothing"), 404);
});

test("unknown paths are 404 in OpenAI's shape", async () => {
  expect((await json(call("/v1/files"), 404)).error.code).toBe("not_found");
});
