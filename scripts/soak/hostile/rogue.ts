/** A hostile tenant: a key that works, and models that no fault is set for, so that whatever goes wrong is its own doing. */
import { type Operator, unique } from "../../../test/support/operator.ts";
import { pricesOf } from "../../../test/support/service.ts";
import type { Tenant } from "../../../test/support/tenant.ts";
import { Party } from "../party.ts";

/** No fault of the soak is set for it. */
const CHAT_MODEL = "llama-70b";
/** Below it a paused reader's answer fits into what lies between the two processes. */
const MAX_OUTPUT_TOKENS = 100_000;
/** After so long a reader that takes nothing is let go, ms. */
const IDLE_MS = 4_000;

/** What all of them do; each attack ends soon after that time. */
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
