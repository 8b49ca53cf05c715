/** Base64 with padding (RFC 4648), read strictly: each sequence of bytes has one encoding. */
const DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const WHOLE = /^[A-Za-z0-9+/]*={0,2}$/;

/** Undefined for anything but the one encoding of some bytes. */
export function decodeBase64(text: string): Uint8Array<ArrayBuffer> | undefined {
  if (text.length % 4 !== 0 || !WHOLE.test(text)) return undefined;
  const digits = text.replace(/=+$/, "");
  const bytes = new Uint8Array(Math.floor((digits.length * 3) / 4));
  let bits = 0;
  let value = 0;
  let at = 0;
  for (const digit of digits) {
    value = (value << 6) | DIGITS.indexOf(digit);
    bits += 6;
    if (bits < 8) continue;
    bits -= 8;
    bytes[at] = value >> bits;
    at += 1;
    value &= (1 << bits) - 1;
  }
  // Bits that are left over must be zero, and a single digit holds no byte.
  return value === 0 && bits < 6 ? bytes : undefined;
}

export function encodeBase64(bytes: Uint8Array): string {
  let text = "";
  for (let at = 0; at < bytes.length; at += 3) {
    const [one = 0, two = 0, three = 0] = bytes.subarray(at, at + 3);
    const value = (one << 16) | (two << 8) | three;
    const digits = Array.from({ length: 4 }, (_, index) => DIGITS[(value >> (18 - 6 * index)) & 63]);
    text += digits.slice(0, Math.min(3, bytes.length - at) + 1).join("");
  }
  return text.padEnd(Math.ceil(text.length / 4) * 4, "=");
}
