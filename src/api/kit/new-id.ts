/** New ids of keys and teams: a prefix and 16 base62 characters at random. */
const ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const LENGTH = 16;

export function newId(prefix: string): string {
  let id = prefix;
  while (id.length < prefix.length + LENGTH) {
    // 248 is the greatest multiple of 62 in a byte: what is above would make some characters likelier.
    for (const byte of crypto.getRandomValues(new Uint8Array(LENGTH))) {
      if (byte < 248 && id.length < prefix.length + LENGTH) id += ALPHABET[byte % 62];
    }
  }
  return id;
}
