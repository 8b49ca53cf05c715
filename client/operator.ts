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
import { type Answer, ApiError, type AskOptions, ask, type Connection, send } from "./http.ts";
import { OPERATIONS, type Operations, type Schemas } from "./operations.ts";

export type { Schemas };

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
  readonly data: readonly Row[];
  readonly next_cursor: string | null;
}

/** Of the document: the call's name. */
export type OperationId = keyof Operations;
export type AnswerOf<Id extends OperationId> = Operations[Id]["answer"];
export type QueryOf<Id extends OperationId> = Operations[Id]["query"];
/** What a call takes: its path's names, and query and body where it has them. */
export type TakenBy<Id extends OperationId> = Operations[Id]["params"] & {
  readonly query?: QueryOf<Id>;
  readonly body?: Operations[Id]["body"];
} & AskOptions;
/** Operations that answer a list in pages. */
export type ListId = {
  [Id in OperationId]: AnswerOf<Id> extends Page<unknown> ? Id : never;
}[OperationId];
export type RowOf<Id extends ListId> = AnswerOf<Id> extends Page<infer Row> ? Row : never;

/** A part of a path. A URL would take `..` for the folder above: another call than the one that was meant. */
function part(text: string): string {
  if (text === "" || text === "." || text === "..") throw new RangeError(`'${text}' is no name or id`);
  return encodeURIComponent(text);
}

function queryText(query: object | undefined): string {
  const given = Object.entries(query ?? {}).filter(([, value]) => value !== undefined);
  return given.length === 0 ? "" : `?${new URLSearchParams(given.map(([name, value]) => [name, String(value)]))}`;
}

/** Method, and path with its query after `/admin`. */
function placeOf<Id extends OperationId>(id: Id, taken: TakenBy<Id>): readonly [method: string, path: string] {
  const [method, path] = OPERATIONS[id];
  const names = taken as unknown as Record<string, string>;
  const filled = path.replaceAll(/\{(\w+)\}/g, (_, name: string) => part(names[name] ?? ""));
  return [method, filled.slice("/admin".length) + queryText(taken.query)];
}

export class OperatorClient {
  readonly #connection: Connection;

  /** `url`: the gateway's; `token`: its `ADMIN_TOKEN`, or an operator's own. */
  constructor(connection: Connection) {
    this.#connection = { ...connection, url: `${connection.url}/admin` };
  }

  /** A call that has no method here; `path` after `/admin`. Any status is an answer. */
  ask<Body = Record<string, unknown>>(
    method: string,
    path: string,
    body?: unknown,
    options?: AskOptions,
  ): Promise<Answer<Body>> {
    return ask<Body>(this.#connection, method, path, body, options);
  }

  /** The same; throws on anything but 2xx. */
  async call<Body = Record<string, unknown>>(
    method: string,
    path: string,
    body?: unknown,
    options?: AskOptions,
  ): Promise<Body> {
    const answer = await this.ask<Body>(method, path, body, options);
    if (answer.status < 200 || answer.status > 299) throw new ApiError(`${method} /admin${path}`, answer);
    return answer.body;
  }

  /** A call by its name in the OpenAPI document; throws on anything but 2xx. */
  run<Id extends OperationId>(id: Id, taken: TakenBy<Id>): Promise<AnswerOf<Id>> {
    const [method, path] = placeOf(id, taken);
    return this.call<AnswerOf<Id>>(method, path, taken.body, taken);
  }

  /** The same; undefined where there is none. */
  async find<Id extends OperationId>(id: Id, taken: TakenBy<Id>): Promise<AnswerOf<Id> | undefined> {
    return this.#find<AnswerOf<Id>>(placeOf(id, taken)[1]);
  }

  /** The rows of a list, page by page. */
  async *rows<Id extends ListId>(id: Id, taken: TakenBy<Id>): AsyncGenerator<RowOf<Id>> {
    for (let cursor: string | undefined; ; ) {
      const query = { limit: 100, ...taken.query, ...(cursor !== undefined && { cursor }) };
      const page = (await this.run(id, { ...taken, query } as TakenBy<Id>)) as Page<RowOf<Id>>;
      yield* page.data;
      if (page.next_cursor === null || page.next_cursor === cursor) return;
      cursor = page.next_cursor;
    }
  }

  /** An answer of any media type, as it comes. */
  stream<Id extends OperationId>(id: Id, taken: TakenBy<Id>): Promise<Response> {
    const [method, path] = placeOf(id, taken);
    return send(this.#connection, method, path, taken.body, taken);
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
