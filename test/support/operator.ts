/** The operator, with its API: makes tenants and routes with names of their own, so that no test meets another's. */
import { randomBytes, randomInt } from "node:crypto";
import type { Answer } from "../../client/http.ts";
import {
  type Audit,
  type KeyWithSecret,
  type LedgerEntry,
  type NewAccount,
  type NewKey,
  type NewModel,
  type NewUpstream,
  OperatorClient,
} from "../../client/operator.ts";
import { ADMIN_TOKEN } from "./process.ts";
import { Sandbox } from "./sandbox.ts";
import { Tenant } from "./tenant.ts";

/** A price of 1 USD a million tokens either way; cost is half of it. */
const ONE_USD_A_MILLION = {
  input_tokens: { cost_usd: 0.5, price_usd: 1 },
  output_tokens: { cost_usd: 0.5, price_usd: 1 },
};

export const unique = (prefix: string): string => `${prefix}-${randomBytes(5).toString("hex")}`;

export class Operator {
  readonly url: string;
  readonly sandbox: Sandbox;
  readonly #client: OperatorClient;

  constructor(at: { url: string; sandboxUrl: string }) {
    this.url = at.url;
    this.#client = new OperatorClient({ url: at.url, token: ADMIN_TOKEN });
    this.sandbox = new Sandbox(at.sandboxUrl);
  }

  /** Any status is an answer. */
  ask<Body = Record<string, unknown>>(method: string, path: string, body?: unknown): Promise<Answer<Body>> {
    return this.#client.ask<Body>(method, path, body);
  }

  /** Throws on anything but 2xx. */
  call<Body = Record<string, unknown>>(method: string, path: string, body?: unknown): Promise<Body> {
    return this.#client.call<Body>(method, path, body);
  }

  /** An account with 1 USD, unless told otherwise, and a key. */
  async tenant(fields: Partial<NewAccount> = {}, keyFields: Partial<NewKey> = {}): Promise<Tenant> {
    const account = unique("t");
    await this.#client.createAccount({ id: account, name: account, balance_usd: 1, ...fields });
    const { id, key } = await this.key(account, keyFields);
    return new Tenant(this, account, id, key);
  }

  key(account: string, fields: Partial<NewKey> = {}): Promise<Pick<KeyWithSecret, "id" | "key">> {
    return this.#client.createKey(account, { name: "e2e", ...fields });
  }

  /** An upstream that answers at this address. */
  async upstream(baseUrl: string, fields: Partial<NewUpstream> = {}): Promise<string> {
    const id = unique("up");
    await this.#client.putUpstream(id, { base_url: baseUrl, api_key: "sandbox-key", ...fields });
    return id;
  }

  async model(model: string, fields: Partial<NewModel> = {}): Promise<string> {
    await this.#client.putModel(model, {
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
    await this.#client.putInstance(instanceId, {
      account: tenant.account,
      name,
      upstreams,
    });
    return this.model(`${name}:${instanceId}`, model);
  }

  /** An alias of this tenant whose targets are asked in the order given. */
  async alias(tenant: Tenant, targets: readonly { upstream: string; model: string }[]): Promise<string> {
    const alias = unique("chat");
    await this.#client.putAlias(alias, {
      account: tenant.account,
      targets: targets.map((target, priority) => ({ ...target, priority })),
    });
    return alias;
  }

  /** All of it, newest first. */
  ledger(account: string): Promise<LedgerEntry[]> {
    return this.#client.ledger(account);
  }

  audit(account: string): Promise<Audit> {
    return this.#client.audit(account);
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
  readonly model?: Partial<NewModel>;
}
