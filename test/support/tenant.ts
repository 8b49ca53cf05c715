/** A tenant: one account and one key, with the clients that such a one has. */
import OpenAI, { type ClientOptions } from "openai";
import type { AuditReport, Ledger, Operator } from "./operator.ts";

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

export class Tenant {
  readonly operator: Operator;
  readonly account: string;
  readonly keyId: string;
  readonly key: string;

  constructor(operator: Operator, account: string, keyId: string, key: string) {
    this.operator = operator;
    this.account = account;
    this.keyId = keyId;
    this.key = key;
  }

  /** The SDK as it comes, but that it does not repeat. */
  openai(options: ClientOptions = {}): OpenAI {
    return new OpenAI({ baseURL: `${this.operator.url}/v1`, apiKey: this.key, maxRetries: 0, ...options });
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

  ledger(): Promise<Ledger[]> {
    return this.operator.ledger(this.account);
  }

  /** Entries of calls, oldest first. */
  async charges(): Promise<Ledger[]> {
    return (await this.ledger()).filter(({ kind }) => kind === "charge").reverse();
  }

  audit(): Promise<AuditReport> {
    return this.operator.audit(this.account);
  }
}
