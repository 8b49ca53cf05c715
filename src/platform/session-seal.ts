/**
 * Seals what a console's cookie holds: AES-256-GCM under a key derived from `MASTER_KEY` for this use alone. The origin
 * is authenticated too, so a cookie of one deployment opens nothing at another, even where both have the same secrets.
 */

export interface SessionSealing {
  sealSession(origin: string, text: string): Promise<string>;
  /** Undefined where it was sealed elsewhere, for another origin, or never by us. */
  openSession(origin: string, sealed: string): Promise<string | undefined>;
}

const NONCE_BYTES = 12;
const encoder = new TextEncoder();
const PURPOSE = encoder.encode("tollgate console session v1");

export async function sessionSealing(masterKey: Uint8Array<ArrayBuffer>): Promise<SessionSealing> {
  const material = await crypto.subtle.importKey("raw", masterKey, "HKDF", false, ["deriveKey"]);
  const derivation = { name: "HKDF", hash: "SHA-256", salt: new Uint8Array(), info: PURPOSE };
  const aes = { name: "AES-GCM", length: 256 };
  const key = await crypto.subtle.deriveKey(derivation, material, aes, false, ["encrypt", "decrypt"]);
  const bound = (iv: Uint8Array<ArrayBuffer>, origin: string) => ({
    name: "AES-GCM",
    iv,
    additionalData: encoder.encode(origin),
  });
  return {
    async sealSession(origin, text) {
      const iv = crypto.getRandomValues(new Uint8Array(NONCE_BYTES));
      const sealed = await crypto.subtle.encrypt(bound(iv, origin), key, encoder.encode(text));
      return toText(iv) + toText(new Uint8Array(sealed));
    },
    async openSession(origin, sealed) {
      try {
        const bytes = toBytes(sealed);
        const [iv, content] = [bytes.slice(0, NONCE_BYTES), bytes.slice(NONCE_BYTES)];
        const opened = await crypto.subtle.decrypt(bound(iv, origin), key, content);
        return new TextDecoder().decode(new Uint8Array(opened));
      } catch {
        return undefined;
      }
    },
  };
}

/** Base64 for URLs and cookies; 12 bytes end without padding, so two of them may stand together. */
const toText = (bytes: Uint8Array): string =>
  btoa(String.fromCharCode(...bytes))
    .replaceAll("+", "-")
    .replaceAll("/", "_")
    .replace(/=+$/, "");

const toBytes = (text: string): Uint8Array<ArrayBuffer> =>
  Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (character) => character.charCodeAt(0));
