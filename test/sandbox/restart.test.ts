import { abortAllDurableObjects } from "cloudflare:test";
import { expect, test } from "vitest";
import { advance, call, chat, executions, fault, json, post } from "../support/worker/sandbox-client.ts";

test("the log, faults, clock, instances, responses and jobs survive a restart", async () => {
  await json(chat());
  const response = await json(post("/v1/responses", { model: "llama-7b", input: "Hi" }));
  const job = await json(post("/v1/video/generations", { model: "service-video-gen-2.0", prompt: "p" }), 202);
  await json(
    post("/_sandbox/instances", { instance_id: 7, name: "x", account: "operator", pods: [{ region: "us-east-1" }] }),
    201,
  );
  await json(post("/_sandbox/regions", { region: "eu-west-1", healthy: false }));
  await fault({ fault: "status", status: 503, times: 2, match: { model: "llama-70b" } });
  await json(chat({ model: "llama-70b" }), 503);
  const { now_ms } = await advance(3_600_000);
  const before = await executions();

  await abortAllDurableObjects();

  expect(await executions()).toEqual(before);
  expect((await json(call("/_sandbox/clock"))).now_ms).toBeGreaterThanOrEqual(now_ms);
  await json(chat({ model: "llama-70b" }), 503);
  await json(chat({ model: "llama-70b" }));
  expect((await chat({ model: "x:7" })).headers.get("x-service-region")).toBe("us-east-1");
  expect((await chat()).headers.get("x-service-region")).toBe("us-east-1");
  expect((await json(call("/_sandbox/regions"))).data).toContainEqual({ region: "eu-west-1", healthy: false });
  await json(post("/_sandbox/regions", { region: "eu-west-1", healthy: true }));
  expect(await json(call(`/v1/responses/${response.id}`))).toEqual(response);
  expect((await json(call(`/v1/video/jobs/${job.id}`))).status).toBe("completed");
});
