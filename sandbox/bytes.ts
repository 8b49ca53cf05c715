/** Builds files from pieces of bytes, text and integers. */

export function concat(pieces: readonly Uint8Array[]): Uint8Array<ArrayBuffer> {
  const whole = new Uint8Array(pieces.reduce((sum, piece) => sum + piece.length, 0));
  let at = 0;
  for (const piece of pieces) {
    whole.set(piece, at);
    at += piece.length;
  }
  return whole;
}

export const ascii = (text: string): Uint8Array<ArrayBuffer> => Uint8Array.from(text, (char) => char.charCodeAt(0));

/** Integers of `size` bytes each. */
export function bigEndian(size: 1 | 2 | 4, ...values: readonly number[]): Uint8Array<ArrayBuffer> {
  return integers(size, values, false);
}
export function littleEndian(size: 1 | 2 | 4, ...values: readonly number[]): Uint8Array<ArrayBuffer> {
  return integers(size, values, true);
}

function integers(size: 1 | 2 | 4, values: readonly number[], little: boolean): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(size * values.length);
  const view = new DataView(bytes.buffer);
  for (const [index, value] of values.entries()) {
    if (size === 1) view.setUint8(index, value);
    else if (size === 2) view.setUint16(index * 2, value, little);
    else view.setUint32(index * 4, value, little);
  }
  return bytes;
}
