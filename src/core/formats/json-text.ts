/** The grammar of escapes in a JSON string, byte by byte, for `JsonScan`. */
import { isDigit } from "./json-number.ts";

/** What may follow a backslash, except `u`. */
export const ESCAPES: ReadonlySet<number> = new Set([...'"\\/bfnrt'].map((letter) => letter.charCodeAt(0)));

export const isHex = (byte: number): boolean => isDigit(byte) || ((byte | 0x20) >= 0x61 && (byte | 0x20) <= 0x66);
export const hexOf = (byte: number): number => (byte <= 0x39 ? byte - 0x30 : (byte | 0x20) - 0x57);

/**
 * Decodes a name from the bytes between its quotes, one character per byte. Names beyond ASCII come out wrong, which
 * does no harm: no known name is like that.
 */
export function readName(raw: string | null): string | null {
  if (raw === null || !raw.includes("\\")) return raw;
  return JSON.parse(`"${raw}"`) as string;
}
