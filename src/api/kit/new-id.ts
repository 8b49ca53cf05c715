/** New ids of keys and teams: a prefix and 16 random base62 characters. */
import { randomBase62 } from "../../core/formats/base62.ts";

const LENGTH = 16;

export function newId(prefix: string): string {
  let digits = "";
  while (digits.length < LENGTH) digits += randomBase62(crypto.getRandomValues(new Uint8Array(LENGTH)));
  return prefix + digits.slice(0, LENGTH);
}
