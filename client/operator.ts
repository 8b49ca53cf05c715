/**
 * The operator's API, `/admin`, as a typed client. Bodies and answers have the types of the schemas that the gateway
 * validates by, so a call that it would refuse for its fields does not compile.
 */
import type * as z from "zod";
import type { KeyBody, NewKeyAnswer } from "../src/api/kit/key-schema.ts";
import type { TeamAnswer, TeamBody } from "../src/api/kit/team-schema.ts";
import type { AccountAnswer, AccountBody } from "../src/api/operator/account-schema.ts";
import type { AliasAnswer, AliasBody } from "../src/api/operator/alias-schema.ts";
import type { InstanceAnswer, InstanceBody } from "../src/api/operator/instance-schema.ts";
import type { AuditAnswer, EntryAnswer } from "../src/api/operator/ledger-schema.ts";
import type { ModelAnswer, ModelBody, ModelPricesBody, RowAnswer } from "../src/api/operator/model-schema.ts";
import type { UpstreamAnswer, UpstreamBody } from "../src/api/operator/upstream-schema.ts";
import { type Answer, ApiError, ask, type Connection, call } from "./http.ts";

export type Account = z.output<typeof AccountAnswer>;
export type NewAccount = z.input<typeof AccountBody>;
export type NewKey = z.input<typeof KeyBody>;
/** Calls of this client carry no idempotency key, so none of them is a repeat without the secret. */
export type KeyWithSecret = z.output<typeof NewKeyAnswer> & { readonly key: string };
export type Team = z.output<typeof TeamAnswer>;
export type NewTeam = z.input<typeof TeamBody>;
export type Upstream = z.output<typeof UpstreamAnswer>;
export type NewUpstream = z.input<typeof UpstreamBody>;
export type Model = z.output<typeof ModelAnswer>;
export type PriceRow = z.output<typeof RowAnswer>;
export type NewPrices = z.input<typeof ModelPricesBody>;
export type NewModel = z.input<typeof ModelBody>;
export type Instance = z.output<typeof InstanceAnswer>;
export type NewInstance = z.input<typeof InstanceBody>;
export type Alias = z.output<typeof AliasAnswer>;
export type NewAlias = z.input<typeof AliasBody>;
export type LedgerEntry = z.output<typeof EntryAnswer>;
export type Audit = z.output<typeof AuditAnswer>;

interface Page<Row> {
  readonly data: Row[];
  readonly next_cursor: string | null;
}

const part = encodeURIComponent;

export class OperatorClient {
  readonly #connection: Connection;

  /** `url`: the gateway's; `token`: its `ADMIN_TOKEN`. */
  constructor({ url, token }: Connection) {
    this.#connection = { url: `${url}/admin`, token };
  }

  /** A call that has no method here; `path` after `/admin`. Any status is an answer. */
  ask<Body = Record<string, unknown>>(method: string, path: string, body?: unknown): Promise<Answer<Body>> {
    return ask<Body>(this.#connection, method, path, body);
  }

  /** The same; throws on anything but 2xx. */
  call<Body = Record<string, unknown>>(method: string, path: string, body?: unknown): Promise<Body> {
    return call<Body>(this.#connection, method, path, body);
  }

  createAccount(body: NewAccount): Promise<Account> {
    return this.call("POST", "/accounts", body);
  }

  /** Undefined where there is none; so are the others that read one thing. */
  account(id: string): Promise<Account | undefined> {
    return this.#find(`/accounts/${part(id)}`);
  }

  /** The secret stands in this answer only. */
  createKey(account: string, body: NewKey): Promise<KeyWithSecret> {
    return this.call("POST", `/accounts/${part(account)}/keys`, body);
  }

  createTeam(account: string, body: NewTeam): Promise<Team> {
    return this.call("POST", `/accounts/${part(account)}/teams`, body);
  }

  putUpstream(id: string, body: NewUpstream): Promise<Upstream> {
    return this.call("PUT", `/upstreams/${part(id)}`, body);
  }

  upstream(id: string): Promise<Upstream | undefined> {
    return this.#find(`/upstreams/${part(id)}`);
  }

  putModel(name: string, body: NewModel): Promise<Model> {
    return this.call("PUT", `/models/${part(name)}`, body);
  }

  /** Prices from `from` on, or from now. */
  putPrices(model: string, body: NewPrices): Promise<PriceRow> {
    return this.call("PUT", `/models/${part(model)}/prices`, body);
  }

  model(name: string): Promise<Model | undefined> {
    return this.#find(`/models/${part(name)}`);
  }

  putInstance(id: number, body: NewInstance): Promise<Instance> {
    return this.call("PUT", `/instances/${id}`, body);
  }

  instance(id: number): Promise<Instance | undefined> {
    return this.#find(`/instances/${id}`);
  }

  putAlias(name: string, body: NewAlias): Promise<Alias> {
    return this.call("PUT", `/aliases/${part(name)}`, body);
  }

  /** The alias that this account has for itself. */
  alias(name: string, account: string): Promise<Alias | undefined> {
    return this.#find(`/aliases/${part(name)}?account=${part(account)}`);
  }

  /** All of it, newest first. */
  async ledger(account: string): Promise<LedgerEntry[]> {
    const entries: LedgerEntry[] = [];
    for (let cursor: string | null = ""; cursor !== null; ) {
      const path = `/accounts/${part(account)}/ledger?limit=1000${cursor && `&cursor=${cursor}`}`;
      const page: Page<LedgerEntry> = await this.call("GET", path);
      entries.push(...page.data);
      cursor = page.next_cursor;
    }
    return entries;
  }

  audit(account: string): Promise<Audit> {
    return this.call("GET", `/audit/${part(account)}`);
  }

  async #find<Body>(path: string): Promise<Body | undefined> {
    const answer = await this.ask<Body>("GET", path);
    if (answer.status === 404) return undefined;
    if (answer.status !== 200) throw new ApiError(`GET /admin${path}`, answer);
    return answer.body;
  }
}
