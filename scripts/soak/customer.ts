/** A tenant that calls everything it may, one call after the other, and notes what it did not expect. */
import { sleep } from "../../test/support/eventually.ts";
import type { Operator } from "../../test/support/operator.ts";
import { callOf, type Names, serviceFor, useOf } from "../../test/support/service.ts";
import { Tenant } from "../../test/support/tenant.ts";
import { pick, type Random } from "./random.ts";

const ENDPOINTS = [
  "chat",
  "chat",
  "chat stream",
  "chat stream",
  "responses",
  "embeddings",
  "rerank",
  "images",
  "speech",
];
const SLOTS = 6;
/** What a call may come to under faults, kills and revocations. */
const EXPECTED = new Set([200, 400, 401, 404, 413, 422, 429, 502, 503, 504]);

export class Customer {
  readonly names: Names;
  readonly answers: string[] = [];
  readonly surprises: string[] = [];
  calls = 0;
  tenant: Tenant;
  readonly #random: Random;

  private constructor(tenant: Tenant, names: Names, random: Random) {
    this.tenant = tenant;
    this.names = names;
    this.#random = random;
  }

  static async make(operator: Operator, random: Random): Promise<Customer> {
    const on_disconnect = random() < 0.5 ? "cancel" : "drain";
    const tenant = await operator.tenant({ balance_usd: 1_000, max_parallel_requests: SLOTS, on_disconnect });
    return new Customer(tenant, await serviceFor(operator, tenant), random);
  }

  async callUntil(untilMs: number): Promise<void> {
    while (Date.now() < untilMs) {
      await this.#call(pick(this.#random, ENDPOINTS));
      await sleep(this.#random() * 60);
    }
  }

  async callEvery(times: number): Promise<void> {
    for (let round = 0; round < times; round++) for (const endpoint of ENDPOINTS) await this.#call(endpoint);
  }

  /** As many calls at once as there are slots: each must get one. */
  async fillSlots(): Promise<void> {
    const fields = { max_tokens: 4, sandbox_output_tokens: 4, sandbox_frame_delay_ms: 50, stream: true };
    const { path, init } = callOf("chat", this.names.chat, fields);
    const asked = await Promise.all(Array.from({ length: SLOTS }, () => this.tenant.fetch(path, init)));
    for (const response of asked) {
      await response.arrayBuffer();
      if (response.status !== 200) this.surprises.push(`${this.tenant.account}: a slot is lost: ${response.status}`);
    }
  }

  /** The key it uses is revoked, and it goes on with another. */
  async changeKey(): Promise<void> {
    const { operator, account, keyId } = this.tenant;
    const { id, key } = await operator.key(account);
    const old = this.tenant;
    this.tenant = new Tenant(operator, account, id, key);
    await operator.call("DELETE", `/accounts/${account}/keys/${keyId}`);
    const { path, init } = callOf("embeddings", this.names.embedding);
    const response = await old.fetch(path, init);
    await response.arrayBuffer();
    if (response.status !== 401) this.surprises.push(`${account}: a revoked key got ${response.status}`);
  }

  async #call(chosen: string): Promise<void> {
    const random = this.#random;
    const [endpoint = "", stream] = chosen.split(" ");
    const tokens = 1 + Math.floor(random() * 60);
    const text = endpoint === "chat" || endpoint === "responses";
    const fields = text
      ? { sandbox_output_tokens: tokens, sandbox_frame_delay_ms: 3, ...(stream && { stream: true }) }
      : {};
    const asked = callOf(endpoint, this.names[useOf(endpoint)], fields);
    const leaves = random() < 0.08 ? random() * 150 : null;
    const leaving = new AbortController();
    if (leaves !== null) setTimeout(() => leaving.abort(), leaves);
    this.calls += 1;
    try {
      const response = await this.tenant.fetch(asked.path, { ...asked.init, signal: leaving.signal });
      const status = response.status;
      const body = await response.text();
      this.answers.push(String(status));
      if (!EXPECTED.has(status)) this.surprises.push(`${endpoint} answered ${status}: ${body.slice(0, 200)}`);
      if (status === 200 && stream && !body.includes("[DONE]"))
        this.surprises.push("a stream ended as if it were whole");
    } catch {
      this.answers.push(leaving.signal.aborted ? "left" : "broken");
    }
  }
}
