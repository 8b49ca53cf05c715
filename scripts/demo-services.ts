/**
 * Turns the demo's service paths on, as an operator does: a second key of the upstream account, an instance that shows
 * what it is sent, the check, and the end of that instance. The sandbox's clock is moved so that nobody waits for it.
 */
import type { OperatorClient } from "../client/operator.ts";
import type { State } from "./state.ts";

/** Says that the upstream was given its second key once. Whoever takes it away again wants it so. */
const KEPT_SERVICES = "demo-services";
export const SERVICE_KEY = "sandbox-service-key";
const ECHO = {
  name: "echo",
  region_id: "eu-north-1",
  gpu_type: "RTX 4090",
  gpu_count: 1,
  container_image: "platform/pytorch:2.9",
  service_port: 8000,
};
/** The sandbox's pods start and stop in less, ms. */
const STARTS_MS = 2_100;
const STOPS_MS = 1_100;

/** A change of the sandbox's address turned them off: then they are checked again. */
export async function openServices(admin: OperatorClient, sandbox: string, state: State): Promise<void> {
  const { base_url, service_api_key_set } = (await admin.upstream("sandbox")) ?? {};
  if (base_url !== sandbox) return;
  if (!service_api_key_set && state.kept(KEPT_SERVICES) === undefined) {
    await admin.call("PATCH", "/upstreams/sandbox", { service_api_key: SERVICE_KEY });
  }
  state.keep(KEPT_SERVICES, "given");
  const upstream = await admin.upstream("sandbox");
  if (upstream?.service_api_key_set && upstream.service_checked_at === null) await check(admin, sandbox);
}

async function check(admin: OperatorClient, sandbox: string): Promise<void> {
  const ask = async (method: string, path: string, body?: object): Promise<unknown> => {
    const response = await fetch(sandbox + path, {
      method,
      headers: { authorization: "Bearer sandbox-key", "content-type": "application/json" },
      ...(body && { body: JSON.stringify(body) }),
    });
    const text = await response.text();
    if (!response.ok) throw new Error(`${method} ${path} of the sandbox: ${response.status} ${text}`);
    return text === "" ? null : JSON.parse(text);
  };
  const wait = (advance_ms: number) => ask("POST", "/_sandbox/compute/clock", { account: "operator", advance_ms });
  const { id } = (await ask("POST", "/gpu-instances", ECHO)) as { id: number };
  await wait(STARTS_MS);
  await admin.call("POST", "/upstreams/sandbox/check", { echo: id });
  await ask("POST", `/gpu-instances/${id}/terminate`);
  await wait(STOPS_MS);
  await ask("DELETE", `/gpu-instances/${id}`);
}
