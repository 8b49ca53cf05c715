/** How long a recording is that a call sends: measured, because its price depends on it and its header may lie. */
import type { Call } from "../core/endpoints/endpoint.ts";
import type { Refusal } from "../core/refusal.ts";
import type { Ports } from "./ports.ts";

/** Contract, "Limits": longer recordings are split by the client. */
const LONGEST_RECORDING_MS = 30 * 60 * 1000;

export type Heard = { ok: true; recordingMs: number | null } | { ok: false; refusal: Refusal };

export async function listen(call: Call, ports: Ports): Promise<Heard> {
  if (call.recording === null) return { ok: true, recordingMs: null };
  const recordingMs = await ports.recordingMs(call.recording);
  if (recordingMs === null) {
    return refuse("The audio could not be read. Send mp3, wav, m4a, webm, ogg or flac.");
  }
  if (recordingMs > LONGEST_RECORDING_MS) {
    return refuse("The audio is longer than 30 minutes. Split it and send the pieces.");
  }
  return { ok: true, recordingMs };
}

const refuse = (message: string): Heard => ({
  ok: false,
  refusal: { kind: "invalid_request", message, param: "file" },
});
