/** Usage events as they stand in the operator's D1: read from its file, for the reports show sums only. */
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { eventually } from "./eventually.ts";

export interface StoredEvent {
  readonly endpoint: string;
  readonly outcome: string;
  readonly reason: string | null;
  readonly status: number;
  readonly source: string;
  readonly low_input: number;
  readonly upstream: string | null;
  readonly region: string | null;
  readonly input_tokens: number;
  readonly output_tokens: number;
  readonly audio_ms: number;
  readonly images: number;
  readonly price_nano_usd: number;
  readonly loss_nano_usd: number;
}

/** The event of a call, once the queue's consumer has written it. */
export function usageEventOf(stateDir: string, callId: string | null): Promise<StoredEvent> {
  return eventually(`the usage event of ${callId}`, () => findEvent(stateDir, callId ?? ""), { withinMs: 15_000 });
}

function findEvent(stateDir: string, callId: string): StoredEvent | undefined {
  for (const file of readdirSync(join(stateDir, "gateway"), { recursive: true, encoding: "utf8" })) {
    if (!/d1.*\.sqlite$/i.test(file)) continue;
    const database = new DatabaseSync(join(stateDir, "gateway", file), { readOnly: true });
    try {
      const row = database.prepare("SELECT * FROM usage_events WHERE event_id LIKE ?").get(`%${callId}%`);
      if (row) return row as unknown as StoredEvent;
    } catch {
      // A database of miniflare's own.
    } finally {
      database.close();
    }
  }
  return undefined;
}
