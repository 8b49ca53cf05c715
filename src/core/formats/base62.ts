/** Numbers and random text in base62: digits, then capital letters, then small ones. */
const DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
/** The greatest multiple of 62 in a byte: those above would make some digits likelier. */
const FAIR_BYTES = 248;

/** The last `length` digits of a value. */
export function toBase62(value: bigint, length: number): string {
  let digits = "";
  for (let rest = value; digits.length < length; rest /= 62n) digits = DIGITS[Number(rest % 62n)] + digits;
  return digits;
}

/** The number that these digits stand for. */
export function fromBase62(digits: string): number {
  let number = 0;
  for (const digit of digits) number = number * 62 + DIGITS.indexOf(digit);
  return number;
}

/** A digit for each random byte; those that would make it unfair are skipped. */
export const randomBase62 = (random: Uint8Array): string =>
  Array.from(
    random.filter((byte) => byte < FAIR_BYTES),
    (byte) => DIGITS[byte % 62],
  ).join("");
