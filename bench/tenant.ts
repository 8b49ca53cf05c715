/** The gateway's state for the benchmark, made through the operator's API: everything on, and room for every call. */
import { MODEL } from "./scenario.ts";

/** Limits and a budget at each of the three levels, so that each is checked and none is reached. */
const LIMITS = {
  rpm_limit: 1_000_000_000,
  tpm_limit: 1_000_000_000_000,
  rpd_limit: 1_000_000_000,
  max_parallel_requests: 1_000_000,
  max_budget: 1_000_000,
  budget_duration: "month",
};
const UNIT = { cost_usd: 0.001, price_usd: 0.002 };

/** Gives the key's text. */
export async function makeTenant(gateway: string, adminToken: string, upstream: string): Promise<string> {
  const send = adminAt(gateway, adminToken);
  await send("PUT", "/upstreams/bench", { base_url: upstream, api_key: "bench" });
  await send("PUT", "/models/bench-1", {
    kind: "chat",
    prices: { input_tokens: UNIT, output_tokens: UNIT },
    max_output_tokens: 1_000_000,
    upstream: "bench",
  });
  await send("POST", "/accounts", { id: "bench", name: "Bench", balance_usd: 1_000_000, ...LIMITS });
  await send("PUT", `/aliases/${MODEL}`, { account: "bench", targets: [{ upstream: "bench", model: "bench-1" }] });
  const { id } = await send("POST", "/accounts/bench/teams", { name: "bench", ...LIMITS });
  const { key } = await send("POST", "/accounts/bench/keys", { name: "bench", team: id, ...LIMITS });
  return String(key);
}

/** Sends one call of the operator's API; throws on anything but 2xx. */
export function adminAt(gateway: string, token: string) {
  return async (method: string, path: string, body?: unknown): Promise<Record<string, unknown>> => {
    const response = await fetch(`${gateway}/admin${path}`, {
      method,
      headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
    const text = await response.text();
    if (!response.ok) throw new Error(`${method} /admin${path}: ${response.status} ${text}`);
    return JSON.parse(text) as Record<string, unknown>;
  };
}
