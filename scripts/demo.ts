/**
 * The demo that the first start creates through the operator's API: the sandbox as upstream, prices for all its models,
 * two instances behind the alias `chat`, an account with 10 USD and a key. It is created once; later changes and
 * deletions stay. Only the sandbox's address follows `SANDBOX_PORT`.
 */
import { DEMO_MODELS } from "./demo-models.ts";
import type { State } from "./state.ts";

const KEPT_KEY = "demo-key";
const INSTANCES = [1042, 1043];

export interface Demo {
  readonly key: string;
}

export async function prepareDemo(gateway: string, adminToken: string, sandbox: string, state: State): Promise<Demo> {
  const admin = adminAt(gateway, adminToken);
  await followSandbox(admin, sandbox);
  const known = await admin.get("/accounts/demo");
  const key = state.kept(KEPT_KEY);
  if (known && key) return { key };
  await makeModels(admin);
  if (!known) await admin.send("POST", "/accounts", { id: "demo", name: "Demo", balance_usd: 10 });
  await makeRoutes(admin);
  const made = await admin.send("POST", "/accounts/demo/keys", { name: "demo", role: "owner" });
  state.keep(KEPT_KEY, String(made.key));
  return { key: String(made.key) };
}

/** Leaves the upstream's address alone if the operator pointed it somewhere else. */
async function followSandbox(admin: Admin, baseUrl: string): Promise<void> {
  const upstream = await admin.get("/upstreams/sandbox");
  const current = upstream?.base_url;
  if (current === baseUrl) return;
  if (typeof current === "string" && !/^http:\/\/localhost:\d+$/.test(current)) return;
  await admin.send("PUT", "/upstreams/sandbox", { base_url: baseUrl, api_key: "sandbox-key" });
}

async function makeModels(admin: Admin): Promise<void> {
  for (const [model, row] of Object.entries(DEMO_MODELS)) {
    const path = `/models/${encodeURIComponent(model)}`;
    if (!(await admin.get(path))) await admin.send("PUT", path, row);
  }
}

async function makeRoutes(admin: Admin): Promise<void> {
  for (const id of INSTANCES) {
    if (await admin.get(`/instances/${id}`)) continue;
    await admin.send("PUT", `/instances/${id}`, { account: "demo", name: "llama-7b", upstreams: ["sandbox"] });
  }
  if (await admin.get("/aliases/chat?account=demo")) return;
  const targets = INSTANCES.map((id, priority) => ({ upstream: "sandbox", model: `llama-7b:${id}`, priority }));
  await admin.send("PUT", "/aliases/chat", { account: "demo", targets });
}

interface Admin {
  /** Undefined for 404. */
  get(path: string): Promise<Record<string, unknown> | undefined>;
  send(method: string, path: string, body: unknown): Promise<Record<string, unknown>>;
}

function adminAt(gateway: string, token: string): Admin {
  const call = async (method: string, path: string, body?: unknown) => {
    const response = await fetch(`${gateway}/admin${path}`, {
      method,
      headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
    const text = await response.text();
    if (response.status === 404 && method === "GET") return undefined;
    if (!response.ok)
      throw new Error(`the demo could not be made: ${method} /admin${path}: ${response.status} ${text}`);
    return JSON.parse(text) as Record<string, unknown>;
  };
  return {
    get: (path) => call("GET", path),
    send: async (method, path, body) => (await call(method, path, body)) ?? {},
  };
}
