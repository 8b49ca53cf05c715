/** The SDK as tenants use it. Apart, because loading it costs every file that imports it a quarter of a second. */
import OpenAI, { type ClientOptions } from "openai";
import type { Tenant } from "./tenant.ts";

/** As it comes, but that it does not repeat. */
export function openaiOf(tenant: Tenant, options: ClientOptions = {}): OpenAI {
  return new OpenAI({ baseURL: `${tenant.operator.url}/v1`, apiKey: tenant.key, maxRetries: 0, ...options });
}
