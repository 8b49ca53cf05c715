/** The two manners of the service's models of text. */
import type { Operator } from "../support/operator.ts";
import { pricesOf } from "../support/service.ts";
import type { Tenant } from "../support/tenant.ts";

/** The models of the service that say all that OpenAI's do, and no more than the contract names. */
export const MANNERS = [
  { model: "full-7b", words: "by a model that says all" },
  { model: "least-7b", words: "by a model that says the least" },
] as const;
export type Manner = (typeof MANNERS)[number]["model"];

/** An alias of the tenant's own for this chat model. */
export async function priced(operator: Operator, tenant: Tenant, model: string): Promise<string> {
  const alias = await operator.alias(tenant, [{ upstream: "sandbox", model }]);
  const prices = pricesOf("input_tokens", "cached_input_tokens", "output_tokens");
  return operator.model(alias, { prices, max_output_tokens: 256 });
}
