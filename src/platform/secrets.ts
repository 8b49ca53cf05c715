/**
 * Everything computed with the Worker's two secrets; no other file reads them.
 *
 * `KEY_PEPPER` (at least 32 characters) makes key tags and digests by HMAC-SHA-256. `MASTER_KEY` (base64 of 32 bytes)
 * seals the credentials of upstreams by AES-256-GCM with a random nonce. The upstream's id is authenticated too, so a
 * sealed credential cannot be moved to another row. session-seal.ts derives a key of its own from it. A missing or
 * short secret is a fault with its name; there is no weak default. Imported keys live as long as the isolate.
 */

import { equalInConstantTime, signedPart, tagOf } from "../core/account/api-key.ts";
import { shapeOperatorToken, signedOperatorPart } from "../core/account/operators.ts";
import { toHex } from "../core/formats/bytes.ts";
import { type AccountNumber, asId, type KeyDigest } from "../core/ids.ts";
import type { Secrets } from "../gateway/ports.ts";
import { type SessionSealing, sessionSealing } from "./session-seal.ts";

export interface SecretValues {
  readonly KEY_PEPPER?: string | undefined;
  readonly MASTER_KEY?: string | undefined;
}

/** The name of the secret that cannot be used, and the operator's remedy. */
interface SecretFault {
  readonly secret: "KEY_PEPPER" | "MASTER_KEY" | "ADMIN_TOKEN";
  readonly message: string;
}

/** A new key for its holder: the text is shown once and never stored. */
interface NewKey {
  readonly text: string;
  readonly digest: KeyDigest;
  readonly lastFour: string;
}
/** The same for an operator. */
interface NewToken {
  readonly text: string;
  readonly digest: string;
  readonly lastFour: string;
}

export interface PlatformSecrets extends Secrets, SessionSealing {
  /** The only form in which a key is stored. */
  digestOf(keyText: string): Promise<KeyDigest>;
  newKey(number: AccountNumber): Promise<NewKey>;
  newOperatorToken(): Promise<NewToken>;
  /** The only form in which an operator's token is stored; undefined if no token of ours is this text. */
  operatorDigest(text: string): Promise<string | undefined>;
  seal(upstream: string, credential: string): Promise<string>;
  /** Rejects if the credential was sealed with another `MASTER_KEY` or for another upstream. */
  unseal(upstream: string, sealed: string): Promise<string>;
}

/** What the key of service paths is bound to: it opens in no other place, the control key not in its own. */
export const serviceSeal = (upstream: string): string => `service ${upstream}`;

export type SecretsOutcome = { ok: true; secrets: PlatformSecrets } | { ok: false; fault: SecretFault };

const LEAST_PEPPER_CHARACTERS = 32;
const MASTER_KEY_BYTES = 32;
const NONCE_BYTES = 12;
const SEAL_VERSION = "v1";
/** Decrypted credentials kept in the isolate, so that a warm call decrypts nothing. */
const MOST_OPEN_CREDENTIALS = 256;

const encoder = new TextEncoder();

let cached: { pepper: string; master: string; secrets: PlatformSecrets } | undefined;

/** The secrets, imported once per isolate, or the first one that cannot be used. */
export async function readSecrets(env: SecretValues): Promise<SecretsOutcome> {
  const pepper = env.KEY_PEPPER ?? "";
  const master = env.MASTER_KEY ?? "";
  if (cached?.pepper === pepper && cached.master === master) return { ok: true, secrets: cached.secrets };
  if (pepper.length < LEAST_PEPPER_CHARACTERS) {
    return fault(
      "KEY_PEPPER",
      `is ${pepper ? "too short" : "not set"}: give it at least ${LEAST_PEPPER_CHARACTERS} characters`,
    );
  }
  const masterBytes = fromBase64(master);
  if (masterBytes?.length !== MASTER_KEY_BYTES) {
    return fault(
      "MASTER_KEY",
      `is ${master ? "unusable" : "not set"}: give it the base64 of ${MASTER_KEY_BYTES} bytes`,
    );
  }
  const hmacKey = await crypto.subtle.importKey(
    "raw",
    encoder.encode(pepper),
    { name: "HMAC", hash: "SHA-256" },
    false,
    ["sign"],
  );
  const sealKey = await crypto.subtle.importKey("raw", masterBytes, "AES-GCM", false, ["encrypt", "decrypt"]);
  const secrets = { ...keySecrets(hmacKey), ...sealing(sealKey), ...(await sessionSealing(masterBytes)) };
  cached = { pepper, master, secrets };
  return { ok: true, secrets };
}

function fault(secret: SecretFault["secret"], problem: string): SecretsOutcome {
  return { ok: false, fault: { secret, message: `The secret ${secret} ${problem} (wrangler secret put ${secret}).` } };
}

type KeySecrets = Pick<PlatformSecrets, "hmac" | "digestOf" | "newKey" | "newOperatorToken" | "operatorDigest">;

function keySecrets(hmacKey: CryptoKey): KeySecrets {
  const hmac = async (text: string) => new Uint8Array(await crypto.subtle.sign("HMAC", hmacKey, encoder.encode(text)));
  const digestOf = async (text: string) => asId<KeyDigest>(toHex(await hmac(text)));
  return {
    hmac,
    digestOf,
    async newKey(number) {
      const signed = signedPart(number, crypto.getRandomValues(new Uint8Array(64)));
      const text = signed + tagOf(await hmac(signed));
      return { text, digest: await digestOf(text), lastFour: text.slice(-4) };
    },
    async newOperatorToken() {
      const signed = signedOperatorPart(crypto.getRandomValues(new Uint8Array(96)));
      const text = signed + tagOf(await hmac(signed));
      return { text, digest: await digestOf(text), lastFour: text.slice(-4) };
    },
    async operatorDigest(text) {
      const shaped = shapeOperatorToken(text);
      if (!shaped || !equalInConstantTime(tagOf(await hmac(shaped.signed)), shaped.tag)) return undefined;
      return digestOf(text);
    },
  };
}

function sealing(sealKey: CryptoKey): Pick<PlatformSecrets, "seal" | "unseal"> {
  const open = new Map<string, string>();
  return {
    async seal(upstream, credential) {
      const iv = crypto.getRandomValues(new Uint8Array(NONCE_BYTES));
      const bound = { name: "AES-GCM", iv, additionalData: encoder.encode(upstream) };
      const sealed = await crypto.subtle.encrypt(bound, sealKey, encoder.encode(credential));
      return [SEAL_VERSION, toBase64(iv), toBase64(new Uint8Array(sealed))].join(".");
    },
    async unseal(upstream, sealed) {
      const cacheKey = `${upstream} ${sealed}`;
      const known = open.get(cacheKey);
      if (known !== undefined) return known;
      const [version, iv, bytes] = sealed.split(".");
      const nonce = fromBase64(iv ?? "");
      const content = fromBase64(bytes ?? "");
      if (version !== SEAL_VERSION || !nonce || !content) throw new Error("a sealed credential is not readable");
      const bound = { name: "AES-GCM", iv: nonce, additionalData: encoder.encode(upstream) };
      const opened = await crypto.subtle.decrypt(bound, sealKey, content);
      const credential = new TextDecoder().decode(new Uint8Array(opened));
      if (open.size >= MOST_OPEN_CREDENTIALS) open.clear();
      open.set(cacheKey, credential);
      return credential;
    },
  };
}

const toBase64 = (bytes: Uint8Array): string => btoa(String.fromCharCode(...bytes));

function fromBase64(text: string): Uint8Array<ArrayBuffer> | undefined {
  try {
    return Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  } catch {
    return undefined;
  }
}
