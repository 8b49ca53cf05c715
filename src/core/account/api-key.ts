/**
 * Virtual keys: `sk-tg-` + 8 base62 (account number) + 24 base62 (random) + 6 base62 (tag).
 *
 * The tag is the beginning of HMAC-SHA-256(`KEY_PEPPER`, everything before it), so a mistyped or forged key is refused
 * without a look-up. The caller supplies the randomness and the HMAC.
 */
import { fromBase62, randomBase62, toBase62 } from "../formats/base62.ts";
import { type AccountNumber, asId } from "../ids.ts";

const KEY_PREFIX = "sk-tg-";
const NUMBER_LENGTH = 8;
const RANDOM_LENGTH = 24;
const TAG_LENGTH = 6;
const SHAPE = /^sk-tg-[0-9A-Za-z]{38}$/;

/** A key of the right shape. Its tag has not been checked yet. */
export interface ShapedKey {
  readonly text: string;
  readonly number: AccountNumber;
  /** The text that the tag authenticates. */
  readonly signed: string;
  readonly tag: string;
}

/** Splits a key into its fields; undefined if the text is not shaped like a key. */
export function shapeKey(text: string): ShapedKey | undefined {
  if (!SHAPE.test(text)) return undefined;
  const digits = text.slice(KEY_PREFIX.length, KEY_PREFIX.length + NUMBER_LENGTH);
  return {
    text,
    number: asId<AccountNumber>(fromBase62(digits)),
    signed: text.slice(0, -TAG_LENGTH),
    tag: text.slice(-TAG_LENGTH),
  };
}

/** The signed part of a new key. `random`: at least 48 bytes; bytes that would bias a digit are skipped. */
export function signedPart(number: AccountNumber, random: Uint8Array): string {
  const fair = randomBase62(random).slice(0, RANDOM_LENGTH);
  if (fair.length < RANDOM_LENGTH) throw new RangeError("signedPart needs more random bytes");
  return KEY_PREFIX + toBase62(BigInt(number), NUMBER_LENGTH) + fair;
}

/** The tag: six base62 digits of the HMAC. */
export function tagOf(hmac: Uint8Array): string {
  let value = 0n;
  for (const byte of hmac.subarray(0, 8)) value = (value << 8n) | BigInt(byte);
  return toBase62(value, TAG_LENGTH);
}

/** Compares tags or tokens in a time that does not depend on where they differ. */
export function equalInConstantTime(a: string, b: string): boolean {
  let difference = a.length ^ b.length;
  for (let index = 0; index < b.length; index++) difference |= a.charCodeAt(index) ^ b.charCodeAt(index);
  return difference === 0;
}
