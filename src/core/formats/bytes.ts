/**
 * Joins pieces of a body. A single piece is returned as it is. Bodies are never in shared memory, so the cast is safe.
 */
export function joinBytes(pieces: readonly Uint8Array[]): Uint8Array<ArrayBuffer> {
  const [only] = pieces;
  if (only && pieces.length === 1) return only as Uint8Array<ArrayBuffer>;
  const whole = new Uint8Array(pieces.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const piece of pieces) {
    whole.set(piece, at);
    at += piece.length;
  }
  return whole;
}

export const toHex = (bytes: Uint8Array): string =>
  Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
