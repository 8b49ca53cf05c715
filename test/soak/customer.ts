/** An honest tenant that uses the whole service. */
import type { Operator } from "../support/operator.ts";
import { callOf, type Names, serviceFor } from "../support/service.ts";
import { Tenant } from "../support/tenant.ts";
import { Party } from "./party.ts";
import { VIDEO_PRICES_USD } from "./price-check.ts";

const SLOTS = 8;

export class Customer extends Party {
  readonly names: Names;
  readonly videoModel: string;

  private constructor(tenant: Tenant, names: Names, videoModel: string) {
    super(tenant);
    this.names = names;
    this.videoModel = videoModel;
  }

  static async make(operator: Operator, on_disconnect: "cancel" | "drain"): Promise<Customer> {
    const tenant = await operator.tenant({ balance_usd: 1_000_000, max_parallel_requests: SLOTS, on_disconnect });
    const videoModel = await operator.alias(tenant, [{ upstream: "sandbox", model: "service-video-gen-2.0" }]);
    const prices = Object.fromEntries(
      Object.entries(VIDEO_PRICES_USD).map(([unit, usd]) => [unit, { cost_usd: 1, price_usd: usd }]),
    );
    await operator.call("PUT", `/models/${videoModel}`, { kind: "video", prices });
    return new Customer(tenant, await serviceFor(operator, tenant), videoModel);
  }

  /** As many calls at once as there are slots: each must get one. */
  async fillSlots(): Promise<void> {
    const fields = { max_tokens: 4, sandbox_output_tokens: 4, sandbox_frame_delay_ms: 50, stream: true };
    const { path, init } = callOf("chat", this.names.chat, fields);
    const asked = await Promise.all(Array.from({ length: SLOTS }, () => this.tenant.fetch(path, init)));
    for (const response of asked) {
      await response.arrayBuffer();
      if (response.status !== 200) this.surprised(`a slot is lost: ${response.status}`);
    }
  }

  /** Revokes the key in use and continues with a new one. */
  async changeKey(): Promise<void> {
    const { operator, account, keyId } = this.tenant;
    const { id, key } = await operator.key(account);
    const old = this.tenant;
    this.tenant = new Tenant(operator, account, id, key);
    await operator.call("DELETE", `/accounts/${account}/keys/${keyId}`);
    const { path, init } = callOf("embeddings", this.names.embedding);
    const response = await old.fetch(path, init);
    await response.arrayBuffer();
    if (response.status !== 401) this.surprised(`a revoked key got ${response.status}`);
  }
}
