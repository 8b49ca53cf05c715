/** Measures how long an uploaded recording is: its price depends on the length, and its header may lie. */
import type { Call } from "../core/endpoints/call.ts";
import { recordingLengthMs } from "../core/formats/audio/recording.ts";
import { type Outcome, type Refused, refused } from "../core/outcome.ts";

export function measureRecording(call: Call): Outcome<{ recordingMs: number | null }> {
  const recording = call.recording();
  if (recording === null) return { ok: true, recordingMs: null };
  const { bytes, field, longestMs } = recording;
  const recordingMs = recordingLengthMs(bytes);
  if (recordingMs === null) {
    return refuse(`The audio in \`${field}\` could not be read. Send mp3, wav, m4a, webm, ogg or flac.`, field);
  }
  if (longestMs !== null && recordingMs > longestMs) {
    const minutes = longestMs / 60_000;
    return refuse(`The audio in \`${field}\` is longer than ${minutes} minutes. Split it and send the pieces.`, field);
  }
  return { ok: true, recordingMs };
}

const refuse = (message: string, param: string): Refused => refused({ kind: "invalid_request", message, param });
