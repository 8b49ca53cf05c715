/**
 * Finds the caller: reads the virtual key from the headers, checks its tag, and looks its digest up.
 *
 * The tag alone refuses a mistyped or forged key, before anything outside this isolate is asked. A key that was found
 * here within the last 30 s is recognised by its digest, without its tag: the digest comes first, so that a key in use
 * costs one HMAC. A forged one then costs two, as much as a key's first call. What the edge finds only speeds and
 * routes the call: the account object decides whether the key may still be used.
 */

import { equalInConstantTime, shapeKey, tagOf } from "../core/account/api-key.ts";
import { toHex } from "../core/formats/bytes.ts";
import { asId, type KeyDigest } from "../core/ids.ts";
import { type Outcome, refused } from "../core/outcome.ts";
import type { Caller, Ports, SignedIn } from "./ports.ts";

/** Needs only headers; the body is not touched before this succeeds. */
export async function authenticate(headers: Headers, ports: Ports): Promise<Outcome<{ caller: Caller }>> {
  if (ports.signedIn) return find(ports.signedIn, ports);
  const header = keyInHeader(headers.get("authorization"));
  if (!header.ok) return header;
  const sent = [header.key, headers.get("x-api-key"), headers.get("api-key")]
    .filter((key) => key !== null)
    .map((key) => key.trim());
  const text = sent[0];
  if (text === undefined) return refused({ kind: "no_key" });
  if (sent.includes("")) return refused({ kind: "bad_key", why: "empty" });
  if (sent.some((key) => ODD.test(key))) return refused({ kind: "bad_key", why: "odd_characters" });
  if (sent.some((other) => other !== text)) return refused({ kind: "bad_key", why: "conflicting" });
  const key = shapeKey(text);
  if (!key) return refused({ kind: "bad_key", why: "malformed" });
  const digest = asId<KeyDigest>(toHex(await ports.secrets.hmac(key.text)));
  // Only a key whose tag was right is remembered.
  const remembered = ports.directory.recentCaller(digest);
  if (remembered) return { ok: true, caller: remembered };
  const tag = tagOf(await ports.secrets.hmac(key.signed));
  if (!equalInConstantTime(key.tag, tag)) return refused({ kind: "bad_key", why: "unknown" });
  return find({ number: key.number, digest }, ports);
}

async function find({ number, digest }: SignedIn, ports: Ports): Promise<Outcome<{ caller: Caller }>> {
  try {
    const caller = await ports.directory.findCaller(number, digest);
    return caller ? { ok: true, caller } : refused({ kind: "bad_key", why: "unknown" });
  } catch (error) {
    // Never 401 for our own fault: an SDK would discard a good key.
    ports.log({ event: "directory_failed", error: String(error) });
    return refused({ kind: "admission_unavailable" });
  }
}

/** Header bytes arrive as Latin-1 or as UTF-8; a byte order mark is invalid in both. */
const ODD = /[^!-~]|["'`<>]/;

/** The key in the Authorization header, which must name the scheme. Null without such a header. */
function keyInHeader(authorization: string | null): Outcome<{ key: string | null }> {
  if (authorization === null) return { ok: true, key: null };
  const text = authorization.trim();
  const [, scheme = "", key = ""] = /^(\S*)\s*([\s\S]*)$/.exec(text) ?? [];
  if (scheme.toLowerCase() === "bearer") return { ok: true, key };
  if (text === "") return refused({ kind: "bad_key", why: "empty" });
  return refused({ kind: "bad_key", why: key === "" ? "no_scheme" : "other_scheme" });
}
