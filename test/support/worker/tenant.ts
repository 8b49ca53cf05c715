/** A tenant with a virtual key, for tests: calls self-service, straight at the application. */
import { createExecutionContext, waitOnExecutionContext } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { selfServiceApp } from "../../../src/api/tenant/index.ts";
import { createApp } from "../../../src/app.ts";
import { openPorts, type PlatformPorts } from "../../../src/platform/ports.ts";
import { readSecrets } from "../../../src/platform/secrets.ts";
import { type Answer, done, type Json } from "./operator.ts";

const { app } = selfServiceApp();

/** `through`: changes what the application is given. `more`: headers. */
export async function as(
  key: string,
  method: string,
  path: string,
  body?: unknown,
  through: (ports: PlatformPorts) => PlatformPorts = (ports) => ports,
  more: Readonly<Record<string, string>> = {},
): Promise<Answer> {
  const secrets = await readSecrets(env);
  if (!secrets.ok) throw new Error(secrets.fault.message);
  const context = createExecutionContext();
  const request = new Request(`http://gateway.test${path}`, {
    method,
    headers: { authorization: `Bearer ${key}`, "content-type": "application/json", ...more },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  });
  const ports = through(openPorts(env, context, secrets.secrets));
  const response = await app.fetch(request, { ...env, ports }, context);
  const text = await response.text();
  await waitOnExecutionContext(context);
  const json = response.headers.get("content-type")?.startsWith("application/json");
  return { status: response.status, headers: response.headers, text, body: json ? JSON.parse(text) : undefined };
}

const gateway = createApp();

/** The same of the whole gateway. */
export async function ask(key: string, method: string, path: string, init: RequestInit = {}) {
  const secrets = await readSecrets(env);
  if (!secrets.ok) throw new Error(secrets.fault.message);
  const context = createExecutionContext();
  const headers = new Headers(init.headers);
  headers.set("authorization", `Bearer ${key}`);
  const request = new Request(`http://gateway.test${path}`, { ...init, method, headers });
  const ports = openPorts(env, context, secrets.secrets);
  const response = await gateway.fetch(request, { ...env, ports }, context);
  const text = await response.text();
  await waitOnExecutionContext(context);
  return { status: response.status, headers: response.headers, text };
}

/** A key of that account, made by the operator. */
export const keyOf = (account: string, fields: object = {}): Promise<Json> =>
  done("POST", `/accounts/${account}/keys`, { name: "test", ...fields });
