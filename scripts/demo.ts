/**
 * The demo that the first start creates through the operator's API: the sandbox as upstream, prices for all its models,
 * two instances behind the alias `chat`, an account with 10 USD and a key. It is created once; later changes and
 * deletions stay. Only the sandbox's address follows `SANDBOX_PORT`.
 */
import { OperatorClient } from "../client/operator.ts";
import { DEMO_MODELS } from "./demo-models.ts";
import type { State } from "./state.ts";

const KEPT_KEY = "demo-key";
const INSTANCES = [1042, 1043];

export interface Demo {
  readonly key: string;
}

export async function prepareDemo(gateway: string, adminToken: string, sandbox: string, state: State): Promise<Demo> {
  const admin = new OperatorClient({ url: gateway, token: adminToken });
  await followSandbox(admin, sandbox);
  const known = await admin.account("demo");
  const key = state.kept(KEPT_KEY);
  if (known && key) return { key };
  await makeModels(admin);
  if (!known) await admin.createAccount({ id: "demo", name: "Demo", balance_usd: 10 });
  await makeRoutes(admin);
  const made = await admin.createKey("demo", { name: "demo", role: "owner" });
  state.keep(KEPT_KEY, made.key);
  return { key: made.key };
}

/** Leaves the upstream's address alone if the operator pointed it somewhere else. */
async function followSandbox(admin: OperatorClient, baseUrl: string): Promise<void> {
  const current = (await admin.upstream("sandbox"))?.base_url;
  if (current === baseUrl) return;
  if (current !== undefined && !/^http:\/\/localhost:\d+$/.test(current)) return;
  await admin.putUpstream("sandbox", { base_url: baseUrl, api_key: "sandbox-key" });
}

async function makeModels(admin: OperatorClient): Promise<void> {
  for (const [model, row] of Object.entries(DEMO_MODELS)) {
    if (!(await admin.model(model))) await admin.putModel(model, row);
  }
}

async function makeRoutes(admin: OperatorClient): Promise<void> {
  for (const id of INSTANCES) {
    if (await admin.instance(id)) continue;
    await admin.putInstance(id, { account: "demo", name: "llama-7b", upstreams: ["sandbox"] });
  }
  if (await admin.alias("chat", "demo")) return;
  const targets = INSTANCES.map((id, priority) => ({ upstream: "sandbox", model: `llama-7b:${id}`, priority }));
  await admin.putAlias("chat", { account: "demo", targets });
}
