/** Lines as ssh-keygen writes them, and every way to lie about them. */
import { createHash } from "node:crypto";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { fingerprintOf, MOST_KEY_LINE, readSshKey } from "../../../src/core/compute/ssh.ts";
import { ED25519, MADE_KEYS } from "../../support/compute/ssh-keys.ts";

const sha256 = (bytes: Uint8Array) => createHash("sha256").update(bytes).digest();
const wire = (...parts: (string | Uint8Array)[]): Buffer =>
  Buffer.concat(
    parts.flatMap((part) => {
      const bytes = Buffer.from(part);
      const length = Buffer.alloc(4);
      length.writeUInt32BE(bytes.length);
      return [length, bytes];
    }),
  );
const lineOf = (type: string, bytes: Uint8Array) => `${type} ${Buffer.from(bytes).toString("base64")} name`;
const bytesOf = (line: string) => Buffer.from(line.split(" ")[1] ?? "", "base64");
const numbers = (bits: number) => Buffer.concat([Buffer.from([0]), Buffer.alloc(bits / 8, 0xff)]);
const E = Buffer.from([1, 0, 1]);

function mustOf(line: string): string {
  const read = readSshKey(line);
  return read.ok ? "accepted" : read.must;
}

describe("a line", () => {
  it.each(MADE_KEYS)("of a %s key is read, with the fingerprint that ssh-keygen shows", (_, line, fingerprint) => {
    const read = readSshKey(line);
    expect(read).toMatchObject({ ok: true, key: { line, comment: "a b" } });
    if (read.ok) expect(fingerprintOf(sha256(read.key.bytes))).toBe(fingerprint);
  });

  it("of a key on a device is read", () => {
    const ed = wire("sk-ssh-ed25519@openssh.com", Buffer.alloc(32, 7), "ssh:");
    const point = Buffer.concat([Buffer.from([4]), Buffer.alloc(64, 9)]);
    const ec = wire("sk-ecdsa-sha2-nistp256@openssh.com", "nistp256", point, "ssh:");
    expect(mustOf(lineOf("sk-ssh-ed25519@openssh.com", ed))).toBe("accepted");
    expect(mustOf(lineOf("sk-ecdsa-sha2-nistp256@openssh.com", ec))).toBe("accepted");
    expect(mustOf(lineOf("sk-ssh-ed25519@openssh.com", wire("sk-ssh-ed25519@openssh.com", Buffer.alloc(32))))).toMatch(
      /no key of this type/,
    );
  });

  it("may end as files end, and have no comment", () => {
    const [type, encoded] = ED25519.split(" ");
    const plain = { ok: true, key: { line: `${type} ${encoded}`, comment: null } };
    for (const text of [`${type} ${encoded}\n`, `  ${type}\t ${encoded}  \r\n`, `${type} ${encoded} \t`]) {
      expect(readSshKey(text)).toMatchObject(plain);
    }
  });

  it("with the same bytes is the same key, whatever its comment", () => {
    const [one, other] = [readSshKey(ED25519), readSshKey(`${ED25519.split(" ").slice(0, 2).join(" ")} other`)];
    if (!one.ok || !other.ok) throw new Error("both are keys");
    expect(one.key.bytes).toEqual(other.key.bytes);
  });
});

describe("it refuses", () => {
  const [type = "", encoded = ""] = ED25519.split(" ");
  const bytes = bytesOf(ED25519);

  it.each([
    ["options", `command="rm -rf /",no-pty ${ED25519}`, /without options/],
    ["an option that looks like a type", `ssh-ed25519 ${ED25519}`, /no key of this type/],
    ["two lines", `${ED25519}\n${ED25519}`, /one line/],
    ["a line break in the comment", `${ED25519}\rssh-rsa`, /one line/],
    ["a control character", `${ED25519}\u0000`, /control/],
    ["a line separator of Unicode", `${ED25519}\u2028x`, /control/],
    ["a next-line character", `${ED25519}\u0085x`, /control/],
    ["a type alone", type, /one OpenSSH public key line/],
    ["nothing", "", /one OpenSSH public key line/],
    ["a type in capitals", ED25519.replace("ssh-", "SSH-"), /begin with one of the types/],
    ["a name of every object", ED25519.replace(type, "constructor"), /begin with one of the types/],
    ["DSA", lineOf("ssh-dss", wire("ssh-dss")), /begin with one of the types/],
    ["a certificate", lineOf("ssh-ed25519-cert-v01@openssh.com", bytes), /begin with one of the types/],
    ["bytes of another type", `ecdsa-sha2-nistp256 ${encoded}`, /no key of this type/],
    ["a longer type in the bytes", lineOf(type, wire("ssh-ed25519x", bytes.subarray(-32))), /no key/],
    ["a point on another curve", lineOf("ecdsa-sha2-nistp256", wire("ecdsa-sha2-nistp256", "nistp384", E)), /no key/],
    ["bytes after the end", lineOf(type, Buffer.concat([bytes, E])), /no key/],
    ["bytes that end early", lineOf(type, bytes.subarray(0, -1)), /no key/],
    ["a length beyond the end", lineOf(type, Buffer.from("ffffffff00", "hex")), /no key/],
    ["base64 without padding", (MADE_KEYS[2]?.[1] ?? "").replace("= ", " "), /no key/],
    ["base64 that is not canonical", `${type} ${encoded.slice(0, -1)}!`, /no key/],
    ["base64 for URLs", ED25519.replaceAll("/", "_"), /no key/],
    ["a long line", `${ED25519} ${"x".repeat(MOST_KEY_LINE)}`, /at most/],
    ["a megabyte", `${type} ${"A".repeat(1_048_576)}`, /at most/],
  ])("%s", (_, line, must) => {
    expect(mustOf(line)).toMatch(must);
  });

  it("a private key, and never repeats it", () => {
    const must = mustOf("-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXk\n-----END OPENSSH PRIVATE KEY-----\n");
    expect(must).toMatch(/never a private key/);
    expect(must).not.toContain("b3Blbn");
  });

  it("RSA numbers that are even, negative, padded, or of a wrong size", () => {
    const key = (exponent: Uint8Array, modulus: Uint8Array) =>
      mustOf(lineOf("ssh-rsa", wire("ssh-rsa", exponent, modulus)));
    expect([1_024, 16_384].map((bits) => key(E, numbers(bits)))).toEqual(["accepted", "accepted"]);
    const even = Buffer.from(numbers(2_048));
    even[256] = 0xfe;
    const faults = [
      key(E, numbers(1_016)),
      key(E, numbers(16_392)),
      key(E, numbers(2_048).subarray(1)),
      key(E, Buffer.concat([Buffer.from([0]), numbers(2_048)])),
      key(E, even),
      key(E, Buffer.alloc(0)),
      key(Buffer.from([1]), numbers(2_048)),
      key(Buffer.from([0, 3]), numbers(2_048)),
    ];
    for (const fault of faults) expect(fault).toMatch(/no key of this type/);
  });
});

describe("for any", () => {
  it("text, it answers and never shows the text", () => {
    fc.assert(
      fc.property(fc.string({ minLength: 24, maxLength: 200, unit: "binary" }), (text) => {
        const read = readSshKey(text);
        expect(read.ok).toBe(false);
        if (!read.ok) expect(read.must).not.toContain(text.trim());
      }),
    );
  });

  it("key, one changed byte of its head, or one more or less, makes it no key", () => {
    fc.assert(
      fc.property(fc.constantFrom(...MADE_KEYS), fc.nat(), fc.integer({ min: 1, max: 255 }), (made, at, by) => {
        const [, line] = made;
        const type = line.split(" ")[0] ?? "";
        const bytes = bytesOf(line);
        const head = at % (4 + type.length);
        const changed = Buffer.from(bytes);
        changed[head] = ((changed[head] ?? 0) + by) % 256;
        expect(mustOf(lineOf(type, changed))).toMatch(/no key/);
        expect(mustOf(lineOf(type, bytes.subarray(0, at % bytes.length)))).toMatch(/no key|one OpenSSH/);
      }),
    );
  });

  it("32 bytes, the ed25519 key of them is read, and read again the same", () => {
    fc.assert(
      fc.property(fc.uint8Array({ minLength: 32, maxLength: 32 }), (point) => {
        const read = readSshKey(lineOf("ssh-ed25519", wire("ssh-ed25519", point)));
        if (!read.ok) throw new Error(read.must);
        expect(readSshKey(read.key.line)).toEqual(read);
        expect(fingerprintOf(sha256(read.key.bytes))).toMatch(/^SHA256:[A-Za-z0-9+/]{43}$/);
      }),
    );
  });
});
