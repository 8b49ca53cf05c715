/** New ids of keys and teams: a prefix and 16 base62 characters at random. */
import { randomBase62 } from "../../core/formats/base62.ts";

const LENGTH = 16;

export function newId(prefix: string): string {
  let digits = "";
  while (digits.length < LENGTH) digits += randomBase62(crypto.getRandomValues(new Uint8Array(LENGTH)));
  return prefix + digits.slice(0, LENGTH);
}
