/**
 * The length of an uploaded recording from what it is made of (contract: mp3, wav, m4a, webm, ogg or flac). Read in
 * place: no byte of the upload is copied. `docs/decisions/0004-lengths-are-walked.md` says why no library does it.
 */
import { recordingLengthMs } from "../core/formats/audio/recording.ts";

/** Whole ms; null for what is no audio of a known format. */
export async function recordingMs(bytes: Uint8Array): Promise<number | null> {
  return recordingLengthMs(bytes);
}
