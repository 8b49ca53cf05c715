/** The account's public keys: one row for each fingerprint. */
import { z } from "zod";
import { sshKeyDocument } from "./documents.ts";
import type { SshKey } from "./records.ts";
import { answer, type Call, type Route, refuse, route } from "./route.ts";

const TYPE = /^(ssh-(ed25519|rsa)|ecdsa-sha2-nistp(256|384|521)|sk-(ssh-ed25519|ecdsa-sha2-nistp256)@openssh\.com)$/;

export const NOT_A_KEY = "The public key must be one OpenSSH public key line, such as `ssh-ed25519 AAAA... name`.";

/** `SHA256:...` as OpenSSH shows it; null if the text is not one line with a public key. */
export async function fingerprintOf(line: string): Promise<string | null> {
  const [type = "", encoded = ""] = line.trim().split(/ +/);
  if (/[\r\n]/.test(line.trim()) || !TYPE.test(type)) return null;
  const blob = decode(encoded);
  if (!blob || !startsWith(blob, type)) return null;
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", blob));
  return `SHA256:${btoa(String.fromCharCode(...digest)).replace(/=+$/, "")}`;
}

function decode(encoded: string): Uint8Array<ArrayBuffer> | null {
  try {
    return Uint8Array.from(atob(encoded), (char) => char.charCodeAt(0));
  } catch {
    return null;
  }
}

/** The blob repeats the type, with its length before it. */
function startsWith(blob: Uint8Array, type: string): boolean {
  const size = new DataView(blob.buffer).byteLength < 4 ? 0 : new DataView(blob.buffer).getUint32(0);
  return (
    size === type.length && blob.length > 4 + size && new TextDecoder().decode(blob.subarray(4, 4 + size)) === type
  );
}

/** The account's row of this key, made if there is none. */
export function saveKey(call: Call, name: string, line: string, fingerprint: string): SshKey {
  const { world, account, nowMs } = call;
  const known = world.list(account, "ssh_key").find((one) => !one.removed && one.fingerprint === fingerprint);
  if (known) return known;
  const made: SshKey = {
    kind: "ssh_key",
    id: world.newId(),
    account: account.account,
    createdMs: nowMs,
    name,
    publicKey: line.trim(),
    fingerprint,
    removed: false,
  };
  world.add(made);
  return made;
}

export const SSH_KEYS: readonly Route[] = [
  route("GET /ssh-keys", {
    lists: true,
    serve: ({ world, account }) =>
      answer(
        200,
        world
          .list(account, "ssh_key")
          .filter(({ removed }) => !removed)
          .map(sshKeyDocument),
      ),
  }),
  route("POST /ssh-keys", {
    body: z.object({ name: z.string().min(1), public_key: z.string() }),
    serve: (call, body) => {
      if (call.fingerprint === null) return refuse(400, NOT_A_KEY);
      const saved = saveKey(call, body.name, body.public_key, call.fingerprint);
      return answer(201, sshKeyDocument(saved), saved.id);
    },
  }),
  route("DELETE /ssh-keys/:id", {
    on: "ssh_key",
    serve: ({ world }, _, key) => {
      key.removed = true;
      world.touch(key);
      return answer(204, null, key.id);
    },
  }),
];
