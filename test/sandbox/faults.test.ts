import { beforeEach, expect, test } from "vitest";
import { call, chat, executions, fault, frames, json, post, rowOf } from "../support/worker/sandbox-client.ts";

beforeEach(async () => {
  await call("/_sandbox/faults", { method: "DELETE" });
});

const match = { model: "llama-7b:1042" };
const at = (id: string, extra = {}) => chat({ model: "llama-7b:1042", ...extra }, { "x-request-id": id });

test("a 503 happens so many times, to that model only, and is no execution", async () => {
  await fault({ match, fault: "status", status: 503, times: 1 });
  await json(chat());
  await json(at("down"), 503);
  await json(at("up"));
  expect((await rowOf("down")).executed).toBe(false);
  expect((await rowOf("up")).executed).toBe(true);
});

test("pace pauses between frames, whatever the request asks for", async () => {
  await fault({ match, fault: "pace", ms: 30 });
  const began = Date.now();
  const text = await (await at("paced", { stream: true, sandbox_output_tokens: 4, sandbox_frame_delay_ms: 0 })).text();
  expect(text.match(/data: /g)).toHaveLength(7);
  expect(Date.now() - began).toBeGreaterThanOrEqual(5 * 30);
});

test("status carries headers and body, verbatim", async () => {
  await fault({
    match,
    fault: "status",
    status: 429,
    headers: { "retry-after": "7" },
    body: { error: { message: "m" } },
  });
  const response = await at("limited");
  expect(response.headers.get("retry-after")).toBe("7");
  expect(await json(response, 429)).toEqual({ error: { message: "m" } });
});

test("500, 502 and 504 come after the work: executed, not answered; `executed` says otherwise", async () => {
  for (const status of [500, 502, 504]) {
    await call("/_sandbox/faults", { method: "DELETE" });
    await fault({ fault: "status", status });
    await json(at(`s${status}`), status);
    const row = await rowOf(`s${status}`);
    expect(row).toMatchObject({ executed: true, answered: false });
    expect(row.usage?.output_tokens).toBeGreaterThan(0);
  }
  await call("/_sandbox/faults", { method: "DELETE" });
  await fault({ fault: "status", status: 500, executed: false });
  await json(at("not"), 500);
  expect((await executions()).some(({ request_id }) => request_id === "not")).toBe(false);
});

test("truncate cuts the connection after so many frames: no [DONE], no clean end", async () => {
  await fault({ match, fault: "truncate", after_frames: 3 });
  const response = await at("cut", { stream: true });
  const reader = response.body!.getReader();
  let text = "";
  await expect(
    (async () => {
      for (;;) {
        const { done, value } = await reader.read();
        if (done) return;
        text += new TextDecoder().decode(value);
      }
    })(),
  ).rejects.toThrow();
  expect(text.match(/data: /g)).toHaveLength(3);
  expect(await rowOf("cut")).toMatchObject({ frames_sent: 3, closed_early: false, usage: { output_tokens: 2 } });
  await expect((await at("cut-json")).text()).rejects.toThrow();
});

test("garble sends a frame that is no JSON, and a body that is none", async () => {
  await fault({ match, fault: "garble" });
  const text = await (await at("g", { stream: true })).text();
  const bad = text.split("\n\n").filter((frame) => {
    if (!frame || frame === "data: [DONE]") return false;
    try {
      JSON.parse(frame.slice(6));
      return false;
    } catch {
      return true;
    }
  });
  expect(bad).toHaveLength(1);
  const body = await (await at("g2")).text();
  expect(() => JSON.parse(body)).toThrow();
});

test("no_usage leaves the figures out; the log keeps them", async () => {
  await fault({ match, fault: "no_usage" });
  expect(await json(at("nu"))).not.toHaveProperty("usage");
  const streamed = await frames(at("nus", { stream: true, stream_options: { include_usage: true } }));
  expect(JSON.stringify(streamed)).not.toContain("usage");
  expect((await rowOf("nus")).usage?.input_tokens).toBe(10);
});

test("usage reports any figures, however absurd", async () => {
  await fault({ match, fault: "usage", usage: { prompt_tokens: -5, completion_tokens: "NaN", total_tokens: 1e300 } });
  expect((await json(at("u"))).usage).toEqual({ prompt_tokens: -5, completion_tokens: "NaN", total_tokens: 1e300 });
  const streamed = await frames(at("us", { stream: true, stream_options: { include_usage: true } }));
  expect(streamed[0].usage).toBe(null);
  expect(streamed.at(-2).usage.prompt_tokens).toBe(-5);
});

test("slow delays the first byte, stall the second frame", async () => {
  await fault({ fault: "slow", ms: 60, times: 1 });
  let begun = Date.now();
  const response = await at("slow", { stream: true });
  expect(Date.now() - begun).toBeGreaterThanOrEqual(55);
  await response.text();
  await fault({ fault: "stall", ms: 80, times: 1 });
  const reader = (await at("stall", { stream: true })).body!.getReader();
  await reader.read();
  begun = Date.now();
  await reader.read();
  expect(Date.now() - begun).toBeGreaterThanOrEqual(70);
  while (!(await reader.read()).done);
});

test("error_frame, no_done, json_error_200, redirect and echo_headers", async () => {
  await fault({ fault: "error_frame", after_frames: 2, times: 1 });
  const broken = await frames(at("e", { stream: true }));
  expect(broken).toHaveLength(3);
  expect(broken[2].error.message).toBeTruthy();
  await fault({ fault: "no_done", times: 1 });
  expect((await frames(at("nd", { stream: true }))).at(-1)).not.toBe("[DONE]");
  await fault({ fault: "json_error_200", times: 1 });
  expect(await json(at("je"))).toHaveProperty("error");
  await fault({ fault: "redirect", times: 1 });
  const moved = await at("re");
  expect(moved.status).toBe(302);
  expect(moved.headers.get("location")).toMatch(/^https:/);
  await fault({ fault: "echo_headers", times: 1 });
  expect((await json(at("eh"), 400)).error.message).toContain("Bearer sandbox-key");
});

test("faults combine, are listed, matched by region and path, and cleared", async () => {
  await fault({ match: { region: "eu-west-1", path: "/v1/chat" }, fault: "status", status: 402 });
  await fault({ fault: "no_usage", times: 2 });
  await fault({ fault: "garble", times: 1, match: { path: "/v1/embeddings" } });
  expect(await json(chat({}, { "x-sandbox-region": "us-east-1" }))).not.toHaveProperty("usage");
  await json(chat({}, { "x-sandbox-region": "eu-west-1" }), 402);
  const { data } = await json(call("/_sandbox/faults"));
  expect(data.map(({ left }: { left: number | null }) => left)).toEqual([null, 1, 1]);
  expect((await json(call("/_sandbox/faults", { method: "DELETE" }))).data).toEqual([]);
  await json(chat({}, { "x-sandbox-region": "eu-west-1" }));
});

test("an unknown fault or parameter is refused, and the log cannot be deleted", async () => {
  await json(post("/_sandbox/faults", { fault: "explode" }), 400);
  await json(post("/_sandbox/faults", { fault: "slow", ms: 5, speed: 1 }), 400);
  await json(call("/_sandbox/executions", { method: "DELETE" }), 404);
});
