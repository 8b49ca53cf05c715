/** A tenant: one account and one key, with the clients that such a one has. */
import type { Audit, LedgerEntry } from "../../client/operator.ts";
import type { Sandbox } from "./sandbox.ts";

export interface ChatAnswer {
  readonly status: number;
  readonly headers: Headers;
  /** Parsed where it is JSON. */
  readonly body: unknown;
}

/** The parts of an error that tests look at. */
export interface ErrorBody {
  readonly error: {
    readonly message: string;
    readonly type: string;
    readonly param: string | null;
    readonly code: string;
  };
}

/** What a tenant's tests ask of the operator who made it. */
interface Maker {
  readonly url: string;
  readonly sandbox: Sandbox;
  call<Body = Record<string, unknown>>(method: string, path: string, body?: unknown): Promise<Body>;
  key(account: string, fields?: Record<string, unknown>): Promise<{ id: string; key: string }>;
  ledger(account: string): Promise<LedgerEntry[]>;
  audit(account: string): Promise<Audit>;
}

export class Tenant {
  readonly operator: Maker;
  readonly account: string;
  readonly keyId: string;
  readonly key: string;

  constructor(operator: Maker, account: string, keyId: string, key: string) {
    this.operator = operator;
    this.account = account;
    this.keyId = keyId;
    this.key = key;
  }

  fetch(path: string, init: RequestInit = {}): Promise<Response> {
    const headers = new Headers(init.headers);
    if (!headers.has("authorization")) headers.set("authorization", `Bearer ${this.key}`);
    return fetch(`${this.operator.url}${path}`, { ...init, headers });
  }

  /** A POST of JSON to chat completions, whatever the body. */
  post(body: unknown, init: RequestInit = {}): Promise<Response> {
    return this.fetch("/v1/chat/completions", {
      method: "POST",
      body: JSON.stringify(body),
      ...init,
      headers: { "content-type": "application/json", ...(init.headers as Record<string, string>) },
    });
  }

  async chat(body: Record<string, unknown>): Promise<ChatAnswer> {
    const response = await this.post({ messages: [{ role: "user", content: "Hi" }], ...body });
    const text = await response.text();
    const isJson = response.headers.get("content-type")?.includes("json");
    return { status: response.status, headers: response.headers, body: isJson ? JSON.parse(text) : text };
  }

  ledger(): Promise<LedgerEntry[]> {
    return this.operator.ledger(this.account);
  }

  /** Entries of calls, oldest first. */
  async charges(): Promise<LedgerEntry[]> {
    return (await this.ledger()).filter(({ kind }) => kind === "charge").reverse();
  }

  audit(): Promise<Audit> {
    return this.operator.audit(this.account);
  }
}
