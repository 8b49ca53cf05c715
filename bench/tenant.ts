/** The gateway's state for the benchmark, made through the operator's API: everything on, and room for every call. */
import { OperatorClient } from "../client/operator.ts";
import { MODEL } from "./scenario.ts";

/** Limits and a budget at each of the three levels, so that each is checked and none is reached. */
const LIMITS = {
  rpm_limit: 1_000_000_000,
  tpm_limit: 1_000_000_000_000,
  rpd_limit: 1_000_000_000,
  max_parallel_requests: 1_000_000,
  max_budget: 1_000_000,
  budget_duration: "month" as const,
};
const UNIT = { cost_usd: 0.001, price_usd: 0.002 };

/** Gives the key's text. */
export async function makeTenant(gateway: string, adminToken: string, upstream: string): Promise<string> {
  const operator = new OperatorClient({ url: gateway, token: adminToken });
  await operator.putUpstream("bench", { base_url: upstream, api_key: "bench" });
  await operator.putModel("bench-1", {
    kind: "chat",
    prices: { input_tokens: UNIT, output_tokens: UNIT },
    max_output_tokens: 1_000_000,
    upstream: "bench",
  });
  await operator.createAccount({ id: "bench", name: "Bench", balance_usd: 1_000_000, ...LIMITS });
  await operator.putAlias(MODEL, { account: "bench", targets: [{ upstream: "bench", model: "bench-1" }] });
  const { id } = await operator.createTeam("bench", { name: "bench", ...LIMITS });
  const { key } = await operator.createKey("bench", { name: "bench", team: id, ...LIMITS });
  return key;
}
