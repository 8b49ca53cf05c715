/** Makes answers deterministic: the same request gets the same answer. A seed is the hash of the request. */

/** FNV-1a over the UTF-8 bytes, 32 bits. */
export function hash32(text: string): number {
  let hash = 0x811c9dc5;
  for (const byte of new TextEncoder().encode(text)) hash = Math.imul(hash ^ byte, 0x01000193);
  return hash >>> 0;
}

/** Numbers in [0, 1), the same sequence for the same seed (mulberry32). */
export function numbersFrom(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** Eight hex digits of a text's hash. */
export const fingerprint = (text: string): string => hash32(text).toString(16).padStart(8, "0");
