/** The length of a recording from what it is made of. */

/** Null for what is no audio of a known format. */
export async function recordingMs(_bytes: Uint8Array): Promise<number | null> {
  return null;
}
