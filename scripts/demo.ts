/**
 * The demo that the first start creates through the operator's API: the sandbox as upstream, prices for all its models
 * and GPUs, two instances behind the alias `chat`, an account with 10 USD that may rent GPUs and call what runs on
 * them, and a key. It is created once; later changes and deletions stay. Only the sandbox's address follows
 * `SANDBOX_PORT`.
 */
import { type NewKey, type NewModel, OperatorClient } from "../client/operator.ts";
import { DEMO_RENTALS } from "./demo-compute.ts";
import { DEMO_MODELS } from "./demo-models.ts";
import { openServices, SERVICE_KEY } from "./demo-services.ts";
import { SettingError } from "./settings.ts";
import type { State } from "./state.ts";

const KEPT_KEY = "demo-key";
/** Says that this state was given compute. A state of a version before gets it once, with a key that has the scope. */
const KEPT_COMPUTE = "demo-compute";
const INSTANCES = [1042, 1043];
/** Where the account's compute lives. */
const SEAT = { compute_enabled: true, compute_upstream: "sandbox" };

export interface Demo {
  readonly key: string;
  /** Whether the account may rent GPUs now: the operator may have changed that, or seated another account there. */
  readonly compute: boolean;
}

export async function prepareDemo(gateway: string, adminToken: string, sandbox: string, state: State): Promise<Demo> {
  const admin = new OperatorClient({ url: gateway, token: adminToken });
  await followSandbox(admin, sandbox);
  const known = await admin.account("demo");
  if (!known || !state.kept(KEPT_KEY)) await makeDemo(admin, state, known !== undefined);
  else if (!state.kept(KEPT_COMPUTE) && known.deleted_at === null) await addCompute(admin, state);
  if (state.kept(KEPT_COMPUTE) === "seated") await openServices(admin, sandbox, state);
  const account = await admin.account("demo");
  return {
    key: state.kept(KEPT_KEY) ?? "",
    compute: account?.compute_enabled === true && account.compute_upstream !== null,
  };
}

async function makeDemo(admin: OperatorClient, state: State, known: boolean): Promise<void> {
  await makeModels(admin, DEMO_MODELS);
  if (!known) await admin.createAccount({ id: "demo", name: "Demo", balance_usd: 10 });
  await makeRoutes(admin);
  if (!(await addCompute(admin, state))) await makeKey(admin, state, ["inference"]);
}

/** False where the upstream seats another account already: it is left to that one. */
async function addCompute(admin: OperatorClient, state: State): Promise<boolean> {
  await makeModels(admin, DEMO_RENTALS);
  const { status } = await admin.ask("PATCH", "/accounts/demo", SEAT);
  if (status !== 200 && status !== 409) throw new Error(`The demo account could not be seated: ${status}.`);
  if (status === 200) await makeKey(admin, state, ["inference", "compute"]);
  state.keep(KEPT_COMPUTE, status === 200 ? "seated" : "not seated");
  return status === 200;
}

async function makeKey(admin: OperatorClient, state: State, scopes: NonNullable<NewKey["scopes"]>): Promise<void> {
  const made = await admin.createKey("demo", { name: "demo", role: "owner", scopes });
  state.keep(KEPT_KEY, made.key);
}

/** Leaves the upstream's address alone if the operator pointed it somewhere else. */
async function followSandbox(admin: OperatorClient, baseUrl: string): Promise<void> {
  const stored = await admin.upstream("sandbox");
  const current = stored?.base_url;
  if (current === baseUrl) return;
  if (current !== undefined && !/^http:\/\/localhost:\d+$/.test(current)) return;
  const keys = { api_key: "sandbox-key", ...(stored?.service_api_key_set && { service_api_key: SERVICE_KEY }) };
  const moved = await admin.ask("PUT", "/upstreams/sandbox", { base_url: baseUrl, ...keys });
  if (moved.status === 200) return;
  throw new SettingError(
    `SANDBOX_PORT: the sandbox cannot move from ${current} to ${baseUrl}: ${JSON.stringify(moved.body)}. ` +
      `Start with the old port, and end what runs there.`,
  );
}

async function makeModels(admin: OperatorClient, rows: Readonly<Record<string, NewModel>>): Promise<void> {
  for (const [model, row] of Object.entries(rows)) {
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
