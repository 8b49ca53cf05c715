/**
 * SSH public keys: reads one OpenSSH public key line, and checks that its bytes are a key of the type that it names.
 *
 * Only types that OpenSSH itself accepts by default are taken; no certificates, no DSA. The bytes decide: an encoding
 * that is not canonical, a type that differs from the line's, a point or number of a wrong size and bytes after the
 * end are all refused. So two lines with the same bytes are the same key, whatever their comments. The fingerprint is
 * made from a SHA-256 of these bytes, which the caller computes.
 */
import { decodeBase64, encodeBase64 } from "../formats/base64.ts";

interface SshKey {
  /** Type, bytes and comment, separated by one space. */
  readonly line: string;
  readonly bytes: Uint8Array<ArrayBuffer>;
  /** Null: the line has none. */
  readonly comment: string | null;
}

/**
 * `must` completes a sentence that begins with the field's name. It never shows the line, which may be a private key.
 */
export type ReadSshKey = { readonly ok: true; readonly key: SshKey } | { readonly ok: false; readonly must: string };

/** An RSA key of 16,384 bits with a long comment fits. */
export const MOST_KEY_LINE = 8_192;

const EXAMPLE = "one OpenSSH public key line, such as `ssh-ed25519 AAAA... name`";

const fault = (must: string): ReadSshKey => ({ ok: false, must });

/** Control characters and line separators, once tabs between the fields are spaces. */
const CONTROL = /[\p{Cc}\p{Zl}\p{Zp}]/u;
const LINE = /^([^ ]+) +([^ ]+)(?: +(.*))?$/;

/** Whitespace around the line is dropped: a file ends with a line break. */
export function readSshKey(text: string): ReadSshKey {
  const trimmed = text.trim().replaceAll("\t", " ");
  if (trimmed.length > MOST_KEY_LINE) return fault(`must have at most ${MOST_KEY_LINE} characters`);
  if (/^-{4,5} ?BEGIN/.test(trimmed)) {
    return fault(`must be ${EXAMPLE}: send the file that ends in .pub, never a private key`);
  }
  if (/[\r\n]/.test(trimmed)) return fault("must be one line with one key");
  if (CONTROL.test(trimmed)) return fault("must not contain control characters");
  const [, type, encoded, comment] = LINE.exec(trimmed) ?? [];
  if (type === undefined || encoded === undefined) return fault(`must be ${EXAMPLE}`);
  const check = Object.hasOwn(TYPES, type) ? TYPES[type] : undefined;
  if (!check) return fault(`must begin with one of the types ${Object.keys(TYPES).join(", ")}, without options`);
  const bytes = decodeBase64(encoded);
  const reader = bytes && new WireReader(bytes);
  if (!reader || reader.text() !== type || !check(reader) || !reader.atEnd) {
    return fault(`must be ${EXAMPLE}: what follows the type is no key of this type`);
  }
  const line = comment ? `${type} ${encoded} ${comment}` : `${type} ${encoded}`;
  return { ok: true, key: { line, bytes, comment: comment || null } };
}

/** `SHA256:...` as OpenSSH shows it. */
export const fingerprintOf = (sha256: Uint8Array): string => `SHA256:${encodeBase64(sha256).replace(/=+$/, "")}`;

/** Reads length-prefixed strings (RFC 4251). After a fault every string is undefined. */
class WireReader {
  readonly #bytes: Uint8Array;
  #at = 0;

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
  }

  get atEnd(): boolean {
    return this.#at === this.#bytes.length;
  }

  string(): Uint8Array | undefined {
    const from = this.#at + 4;
    if (from > this.#bytes.length) return this.#fail();
    const [a = 0, b = 0, c = 0, d = 0] = this.#bytes.subarray(this.#at, from);
    const end = from + a * 2 ** 24 + b * 2 ** 16 + c * 2 ** 8 + d;
    if (end > this.#bytes.length) return this.#fail();
    this.#at = end;
    return this.#bytes.subarray(from, end);
  }

  /** A string of ASCII characters. */
  text(): string | undefined {
    const bytes = this.string();
    return bytes?.every((byte) => byte > 0x20 && byte < 0x7f) ? String.fromCharCode(...bytes) : undefined;
  }

  #fail(): undefined {
    this.#at = Number.POSITIVE_INFINITY;
  }
}

type Check = (reader: WireReader) => boolean;

const ED25519_BYTES = 32;
const ed25519: Check = (reader) => reader.string()?.length === ED25519_BYTES;

/** An uncompressed point on the named curve. */
const ecdsa =
  (curve: string, coordinateBytes: number): Check =>
  (reader) => {
    if (reader.text() !== curve) return false;
    const point = reader.string();
    return point !== undefined && point.length === 1 + 2 * coordinateBytes && point[0] === 4;
  };

/** Keys of security devices name the application that they were made for. */
const onDevice =
  (check: Check): Check =>
  (reader) =>
    check(reader) && (reader.text()?.length ?? 0) > 0;

/** OpenSSH's limits, bits. */
const LEAST_RSA_BITS = 1_024;
const MOST_RSA_BITS = 16_384;

const rsa: Check = (reader) => {
  const exponent = bitsOf(reader.string());
  const modulus = bitsOf(reader.string());
  return (
    exponent !== null && exponent >= 2 && modulus !== null && modulus >= LEAST_RSA_BITS && modulus <= MOST_RSA_BITS
  );
};

/** Bits of an odd positive number without needless zeros; null: it is not one. */
function bitsOf(bytes: Uint8Array | undefined): number | null {
  const [first, second = 0] = bytes ?? [];
  if (!bytes || first === undefined || first >= 0x80 || ((bytes.at(-1) ?? 0) & 1) === 0) return null;
  if (first === 0) return second < 0x80 ? null : (bytes.length - 1) * 8;
  return (bytes.length - 1) * 8 + (32 - Math.clz32(first));
}

const TYPES: Readonly<Record<string, Check>> = {
  "ssh-ed25519": ed25519,
  "ssh-rsa": rsa,
  "ecdsa-sha2-nistp256": ecdsa("nistp256", 32),
  "ecdsa-sha2-nistp384": ecdsa("nistp384", 48),
  "ecdsa-sha2-nistp521": ecdsa("nistp521", 66),
  "sk-ssh-ed25519@openssh.com": onDevice(ed25519),
  "sk-ecdsa-sha2-nistp256@openssh.com": onDevice(ecdsa("nistp256", 32)),
};
