import { expect, test } from "vitest";
import { call, fault, json, post, rowOf } from "../support/worker/sandbox-client.ts";

const embed = (input: unknown, extra: object = {}) =>
  post("/v1/embeddings", { model: "embed-small", input, ...extra }, { "x-request-id": "embed" });
const dot = (a: number[], b: number[]) => a.reduce((sum, value, index) => sum + value * (b[index] ?? 0), 0);

test("embeddings have 768 dimensions, length one, and put like texts near each other", async () => {
  const body = await json(embed(["the toll road", "the toll roads", "quarterly figures"]));
  const [road, roads, figures] = body.data.map(({ embedding }: { embedding: number[] }) => embedding);
  expect(road).toHaveLength(768);
  expect(dot(road, road)).toBeCloseTo(1, 4);
  expect(dot(road, roads)).toBeGreaterThan(dot(road, figures) + 0.3);
  expect(body.usage).toEqual({ prompt_tokens: 4 + 4 + 5, total_tokens: 13 });
  expect((await rowOf("embed")).usage).toEqual({ input_tokens: 13 });
});

test("base64 holds the same floats", async () => {
  const { data: floats } = await json(embed("the toll road"));
  const { data: packed } = await json(embed("the toll road", { encoding_format: "base64" }));
  const bytes = Uint8Array.from(atob(packed[0].embedding), (char) => char.charCodeAt(0));
  expect([...new Float32Array(bytes.buffer)]).toEqual(floats[0].embedding);
});

test.each([[""], [[]], [[1.5]], [undefined]])("input %o is 400", async (input) => {
  await json(embed(input), 400);
});

const documents = ["apples and pears", "the toll road and its toll gate", "a road"];
const rank = (extra: object = {}) =>
  post("/v1/rerank", { model: "rerank-base", query: "toll road", documents, ...extra });

test("rerank sorts by relevance and names the places the documents came in", async () => {
  const body = await json(rank());
  expect(body.results.map(({ index }: { index: number }) => index)).toEqual([1, 2, 0]);
  expect(body.results[0]).not.toHaveProperty("document");
  expect(body.usage.total_tokens).toBe(3 * 6 + 4 + 8 + 2);
  const top = await json(rank({ top_n: 1, return_documents: true }));
  expect(top.results).toEqual([{ index: 1, relevance_score: expect.any(Number), document: { text: documents[1] } }]);
});

test("rerank takes 1 to 1000 documents", async () => {
  await json(rank({ documents: Array(1000).fill("a") }));
  await json(rank({ documents: Array(1001).fill("a") }), 400);
  await json(rank({ documents: [] }), 400);
});

const run = (path: string, body: BodyInit, type: string, key?: string) =>
  call(path, { method: "POST", body, headers: { "content-type": type, "x-request-id": "custom" } }, key);

test("a custom instance gets and gives any body verbatim, at its own path, for its owner", async () => {
  const bytes = Uint8Array.of(0, 255, 1, 254);
  const response = await run("/inference-instances/4001/proxy/run", bytes, "application/x-thing");
  expect(response.headers.get("content-type")).toBe("application/x-thing");
  expect(new Uint8Array(await response.arrayBuffer())).toEqual(bytes);
  expect(await rowOf("custom")).toMatchObject({ model: "echo:4001", usage: { requests: 1 } });
  await json(run("/inference-instances/4001/proxy/other", bytes, "text/plain"), 404);
  await json(run("/inference-instances/4002/proxy/run", bytes, "text/plain"), 401);
  await json(run("/inference-instances/9/proxy/run", bytes, "text/plain"), 404);
  await json(run("/inference-instances/1042/proxy/run", bytes, "text/plain"), 404);
});

test("a custom instance streams when its body asks", async () => {
  const body = JSON.stringify({ stream: true, sandbox_frames: 3 });
  const response = await run("/inference-instances/4001/proxy/run", body, "application/json");
  expect(response.headers.get("content-type")).toBe("text/event-stream");
  expect((await response.text()).match(/data: /g)).toHaveLength(3);
});

test("a custom path of several parts is served whole", async () => {
  const pods = [{ region: "eu-west-1" }];
  await json(
    post("/_sandbox/instances", {
      instance_id: 77,
      name: "x",
      account: "operator",
      kind: "custom",
      custom_api_path: "v2/run/it",
      pods,
    }),
    201,
  );
  expect((await run("/inference-instances/77/proxy/v2/run/it", "a", "text/plain")).status).toBe(200);
});

test("instances of other kinds are reached through the same endpoints", async () => {
  const pods = [{ region: "eu-west-1" }];
  for (const [instance_id, kind] of [
    [81, "embedding"],
    [82, "rerank"],
    [83, "image"],
  ] as const) {
    await json(post("/_sandbox/instances", { instance_id, name: "own", account: "operator", kind, pods }), 201);
  }
  await json(embed("a", { model: "own:81" }));
  await json(rank({ model: "own:82" }));
  await json(post("/v1/images/generations", { model: "own:83", prompt: "p" }));
  await json(embed("a", { model: "own:82" }), 400);
});

test("faults apply to every endpoint", async () => {
  await fault({ match: { model: "echo:4001" }, fault: "status", status: 503, times: 1 });
  await fault({ match: { model: "embed-small" }, fault: "no_usage", times: 1 });
  await json(run("/inference-instances/4001/proxy/run", "a", "text/plain"), 503);
  expect(await json(embed("a"))).not.toHaveProperty("usage");
});

test("arrays of tokens are embedded, and counted one by one", async () => {
  const body = await json(embed([[1, 2, 3], [4]]));
  expect(body.data.map(({ embedding }: { embedding: number[] }) => embedding.length)).toEqual([768, 768]);
  expect(body.usage).toEqual({ prompt_tokens: 4, total_tokens: 4 });
  expect((await json(embed([7, 8]))).usage).toEqual({ prompt_tokens: 2, total_tokens: 2 });
  await json(embed(Array(8_193).fill(1)), 400);
  await json(embed([[1], []]), 400);
});
