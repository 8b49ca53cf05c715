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

export interface Tenants {
  /** Of the account that most figures call with. */
  readonly key: string;
  /** Twenty keys of ten accounts. */
  readonly keys: readonly string[];
  /** Keys of that first account that nobody has called with. */
  newKeys(count: number): Promise<readonly string[]>;
}

const ACCOUNTS = 10;

export async function makeTenants(gateway: string, adminToken: string, upstream: string): Promise<Tenants> {
  const operator = new OperatorClient({ url: gateway, token: adminToken });
  await operator.putUpstream("bench", { base_url: upstream, api_key: "bench" });
  await operator.putModel("bench-1", {
    kind: "chat",
    prices: { input_tokens: UNIT, output_tokens: UNIT },
    max_output_tokens: 1_000_000,
    upstream: "bench",
  });
  await operator.putAlias(MODEL, { targets: [{ upstream: "bench", model: "bench-1" }] });
  const make = async (account: string) => {
    await operator.createAccount({ id: account, name: "Bench", balance_usd: 1_000_000, ...LIMITS });
    const { id: team } = await operator.createTeam(account, { name: "bench", ...LIMITS });
    return async () => (await operator.createKey(account, { name: "bench", team, ...LIMITS })).key;
  };
  const newKey = await make("bench");
  const keys: string[] = [];
  for (let account = 0; account < ACCOUNTS; account++) {
    const another = await make(`bench-${account}`);
    keys.push(await another(), await another());
  }
  const newKeys = async (count: number) => {
    const made: string[] = [];
    while (made.length < count) made.push(await newKey());
    return made;
  };
  return { key: await newKey(), keys, newKeys };
}
