/** A hostile tenant: a working key, and models without faults, so that anything that goes wrong is its own doing. */
import { type Operator, unique } from "../../support/operator.ts";
import { pricesOf } from "../../support/service.ts";
import type { Tenant } from "../../support/tenant.ts";
import { Party } from "../party.ts";

/** A model without faults in the soak. */
const CHAT_MODEL = "llama-70b";
/** With fewer tokens, a paused reader's answer would fit into the buffers between the processes. */
const MAX_OUTPUT_TOKENS = 100_000;
/** A reader that takes nothing for this long is disconnected, ms. */
const IDLE_MS = 4_000;

/** What all of them do. Each attack ends soon after the given time. */
export interface Attacker {
  attackUntil(untilMs: number): Promise<void>;
}

export class Rogue extends Party {
  readonly chat: string;
  readonly transcription: string;

  private constructor(tenant: Tenant, chat: string, transcription: string) {
    super(tenant);
    this.chat = chat;
    this.transcription = transcription;
  }

  static async make(operator: Operator, fields: Record<string, unknown> = {}): Promise<Rogue> {
    const tenant = await operator.tenant({ balance_usd: 100_000, ...fields });
    const upstream = unique("up");
    await operator.call("PUT", `/upstreams/${upstream}`, {
      base_url: operator.sandbox.url,
      api_key: "sandbox-key",
      timeouts: { idle_ms: IDLE_MS },
    });
    const chat = await operator.alias(tenant, [{ upstream, model: CHAT_MODEL }]);
    const prices = pricesOf("input_tokens", "cached_input_tokens", "output_tokens");
    await operator.call("PUT", `/models/${chat}`, { kind: "chat", prices, max_output_tokens: MAX_OUTPUT_TOKENS });
    const transcription = await operator.alias(tenant, [{ upstream, model: "stt-large" }]);
    await operator.call("PUT", `/models/${transcription}`, {
      kind: "transcription",
      prices: pricesOf("transcribed_seconds"),
    });
    return new Rogue(tenant, chat, transcription);
  }
}
