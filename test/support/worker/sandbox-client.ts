/** How the tests talk to the sandbox: as its client, and as whoever breaks it. */
import { exports } from "cloudflare:workers";
import { expect } from "vitest";
import type { Call } from "../../../sandbox/service/calls.ts";

const worker = exports.default as unknown as Fetcher;
export const BASE = "http://sandbox.test";

export function call(path: string, init: RequestInit = {}, key = "sandbox-key"): Promise<Response> {
  const headers = new Headers(init.headers);
  if (key && !headers.has("authorization")) headers.set("authorization", `Bearer ${key}`);
  return worker.fetch(new Request(BASE + path, { ...init, headers, redirect: "manual" }));
}

export function post(
  path: string,
  body: unknown,
  headers: Record<string, string> = {},
  key?: string,
): Promise<Response> {
  const init = { method: "POST", body: JSON.stringify(body) };
  return call(path, { ...init, headers: { "content-type": "application/json", ...headers } }, key);
}

export const chat = (extra: object = {}, headers?: Record<string, string>, key?: string) =>
  post(
    "/v1/chat/completions",
    { model: "llama-7b", messages: [{ role: "user", content: "Hi" }], ...extra },
    headers,
    key,
  );

/** Whatever JSON an answer holds, to be looked into by a test. */
// biome-ignore lint/suspicious/noExplicitAny: tests look into answers of every shape
export type Json = any;

export async function json(answer: Promise<Response> | Response, status = 200): Promise<Json> {
  const response = await answer;
  const text = await response.text();
  expect(response.status, text).toBe(status);
  return JSON.parse(text);
}

/** The data of each frame, `[DONE]` as text. */
export async function frames(answer: Promise<Response> | Response): Promise<Json[]> {
  const text = await (await answer).text();
  return text
    .split("\n\n")
    .filter(Boolean)
    .map((frame) => {
      const data = frame.replace(/^data: /, "");
      return data === "[DONE]" ? data : JSON.parse(data);
    });
}

export const fault = (body: object) => json(post("/_sandbox/faults", body), 201);
export const advance = (advance_ms: number) => json(post("/_sandbox/clock", { advance_ms }));
export const executions = async (after = 0): Promise<Call[]> =>
  (await json(call(`/_sandbox/executions?after=${after}`))).data;
export const calls = async (after = 0): Promise<Call[]> => (await json(call(`/_sandbox/calls?after=${after}`))).data;

/** The row of the call that carried this `x-request-id`, once it has ended. */
export async function rowOf(requestId: string): Promise<Call> {
  for (let attempt = 0; attempt < 100; attempt++) {
    const row = (await calls()).find((one) => one.request_id === requestId);
    if (row?.ended_ms != null) return row;
    await scheduler.wait(10);
  }
  throw new Error(`no ended call ${requestId}`);
}
