/** The operator, with his API: makes tenants and routes with names of their own, so that no test meets another's. */
import { randomBytes, randomInt } from "node:crypto";
import { ADMIN_TOKEN } from "./process.ts";
import { Sandbox } from "./sandbox.ts";
import { type AuditReport, type Ledger, Tenant } from "./tenant.ts";

export interface Answer<Body = Record<string, unknown>> {
  readonly status: number;
  readonly body: Body;
}

/** A price of 1 USD a million tokens either way; cost is half of it. */
const ONE_USD_A_MILLION = {
  input_tokens: { cost_usd: 0.5, price_usd: 1 },
  output_tokens: { cost_usd: 0.5, price_usd: 1 },
};

export const unique = (prefix: string): string => `${prefix}-${randomBytes(5).toString("hex")}`;

export class Operator {
  readonly url: string;
  readonly sandbox: Sandbox;

  constructor(at: { url: string; sandboxUrl: string }) {
    this.url = at.url;
    this.sandbox = new Sandbox(at.sandboxUrl);
  }

  /** Any status is an answer. */
  async ask<Body = Record<string, unknown>>(method: string, path: string, body?: unknown): Promise<Answer<Body>> {
    const response = await fetch(`${this.url}/admin${path}`, {
      method,
      headers: { authorization: `Bearer ${ADMIN_TOKEN}`, "content-type": "application/json" },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
    const text = await response.text();
    return { status: response.status, body: (text ? JSON.parse(text) : {}) as Body };
  }

  /** Throws on anything but 2xx. */
  async call<Body = Record<string, unknown>>(method: string, path: string, body?: unknown): Promise<Body> {
    const answer = await this.ask<Body>(method, path, body);
    if (answer.status < 200 || answer.status > 299) {
      throw new Error(`${method} /admin${path}: ${answer.status} ${JSON.stringify(answer.body)}`);
    }
    return answer.body;
  }

  /** An account with 1 USD, unless told otherwise, and a key. */
  async tenant(fields: Record<string, unknown> = {}, keyFields: Record<string, unknown> = {}): Promise<Tenant> {
    const account = unique("t");
    await this.call("POST", "/accounts", { id: account, name: account, balance_usd: 1, ...fields });
    const { id, key } = await this.key(account, keyFields);
    return new Tenant(this, account, id, key);
  }

  key(account: string, fields: Record<string, unknown> = {}): Promise<{ id: string; key: string }> {
    return this.call("POST", `/accounts/${account}/keys`, { name: "e2e", ...fields });
  }

  /** An upstream that answers at this address. */
  async upstream(baseUrl: string, fields: Record<string, unknown> = {}): Promise<string> {
    const id = unique("up");
    await this.call("PUT", `/upstreams/${id}`, { base_url: baseUrl, api_key: "sandbox-key", ...fields });
    return id;
  }

  async model(model: string, fields: Record<string, unknown> = {}): Promise<string> {
    await this.call("PUT", `/models/${encodeURIComponent(model)}`, {
      kind: "chat",
      prices: ONE_USD_A_MILLION,
      max_output_tokens: 256,
      ...fields,
    });
    return model;
  }

  /** A chat instance of the sandbox, registered to a tenant and priced. Gives its model id. */
  async instance(tenant: Tenant, options: InstanceOptions = {}): Promise<string> {
    const { upstreams = ["sandbox"], model = {}, regions, name = "llama-7b" } = options;
    const instanceId = randomInt(100_000, 900_000_000);
    await this.sandbox.addInstance(instanceId, name, regions);
    await this.call("PUT", `/instances/${instanceId}`, {
      account: tenant.account,
      name,
      upstreams,
    });
    return this.model(`${name}:${instanceId}`, model);
  }

  /** An alias of this tenant whose targets are asked in the order given. */
  async alias(tenant: Tenant, targets: readonly { upstream: string; model: string }[]): Promise<string> {
    const alias = unique("chat");
    await this.call("PUT", `/aliases/${alias}`, {
      account: tenant.account,
      targets: targets.map((target, priority) => ({ ...target, priority })),
    });
    return alias;
  }

  /** All of it, newest first. */
  async ledger(account: string): Promise<Ledger[]> {
    const entries: Ledger[] = [];
    for (let cursor: string | null = ""; cursor !== null; ) {
      const path = `/accounts/${account}/ledger?limit=1000${cursor && `&cursor=${cursor}`}`;
      const page: { data: Ledger[]; next_cursor: string | null } = await this.call("GET", path);
      entries.push(...page.data);
      cursor = page.next_cursor;
    }
    return entries;
  }

  audit(account: string): Promise<AuditReport> {
    return this.call("GET", `/audit/${account}`);
  }
}

export interface InstanceOptions {
  /** What its model is called (`llama-7b`). */
  readonly name?: string;
  /** In the order asked; the sandbox's own, if none is named. */
  readonly upstreams?: string[];
  /** Where its pods are. */
  readonly regions?: string[];
  /** Over the defaults of its price row. */
  readonly model?: Record<string, unknown>;
}
