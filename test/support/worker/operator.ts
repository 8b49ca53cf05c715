/** The operator, for tests: calls `/admin` with the token, straight at the application. */
import { createExecutionContext, waitOnExecutionContext } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { adminApp } from "../../../src/api/operator/index.ts";

/** Any JSON, as loosely as a test reads it. */
// biome-ignore lint/suspicious/noExplicitAny: tests look into answers by hand
export type Json = any;
export interface Answer {
  readonly status: number;
  readonly body: Json;
  readonly headers: Headers;
  readonly text: string;
}

const { app } = adminApp();
const contexts: ExecutionContext[] = [];

/** The answer of an object that a test evicted may never come. */
const SETTLED_WITHIN_MS = 10_000;

/** Waits for what the calls left running; call it after all tests of a file. */
export async function settled(): Promise<void> {
  const all = Promise.all(contexts.splice(0).map((context) => waitOnExecutionContext(context)));
  const late = new AbortController();
  const noLater = new Promise<void>((resolve) => {
    const timer = setTimeout(resolve, SETTLED_WITHIN_MS);
    late.signal.addEventListener("abort", () => clearTimeout(timer));
  });
  await Promise.race([all, noLater]);
  late.abort();
}

export async function send(request: Request, values: Partial<Env> = {}): Promise<Answer> {
  const context = createExecutionContext();
  contexts.push(context);
  const response = await app.fetch(request, { ...env, ...values }, context);
  const text = await response.text();
  const json = response.headers.get("content-type")?.startsWith("application/json");
  return { status: response.status, headers: response.headers, text, body: json ? JSON.parse(text) : undefined };
}

/** `path` goes on after `/admin`. */
export function call(method: string, path: string, body?: unknown): Promise<Answer> {
  return send(
    new Request(`http://gateway.test/admin${path}`, {
      method,
      headers: { authorization: `Bearer ${env.ADMIN_TOKEN}`, "content-type": "application/json" },
      ...(body !== undefined && { body: typeof body === "string" ? body : JSON.stringify(body) }),
    }),
  );
}

/** The same, for what a test does not look into: it must succeed. */
export async function done(method: string, path: string, body?: unknown): Promise<Json> {
  const answer = await call(method, path, body);
  if (answer.status >= 300) throw new Error(`${method} ${path}: ${answer.status} ${answer.text}`);
  return answer.body;
}

/** The shape of every refusal. */
export const refusal = (status: number, code: string, param: string | null) => ({
  status,
  body: {
    error: {
      message: expect_text,
      type: status >= 500 ? "server_error" : "invalid_request_error",
      param,
      code,
    },
  },
});
const expect_text: unknown = { asymmetricMatch: (value: unknown) => typeof value === "string" && value.length > 10 };
