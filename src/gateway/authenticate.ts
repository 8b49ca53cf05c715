/**
 * Who calls: the virtual key from the headers, its tag, its digest, the caller behind it.
 *
 * A mistyped or forged key is refused by its tag alone, before any look-up. What is found here only speeds and routes:
 * whether the key may still be used is the account object's word.
 */

import { equalInConstantTime, shapeKey, tagOf, toHex } from "../core/account/api-key.ts";
import { asId, type KeyDigest } from "../core/ids.ts";
import { type Outcome, refused } from "../core/outcome.ts";
import type { Caller, Ports } from "./ports.ts";

/** Asks for nothing but headers; the body is not touched before this has succeeded. */
export async function authenticate(headers: Headers, ports: Ports): Promise<Outcome<{ caller: Caller }>> {
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
  const tag = tagOf(await ports.secrets.hmac(key.signed));
  if (!equalInConstantTime(key.tag, tag)) return refused({ kind: "bad_key", why: "unknown" });
  const digest = asId<KeyDigest>(toHex(await ports.secrets.hmac(key.text)));
  try {
    const caller = await ports.directory.findCaller(key.number, digest);
    return caller ? { ok: true, caller } : refused({ kind: "bad_key", why: "unknown" });
  } catch (error) {
    // Never 401 for a fault of ours: an SDK would give a good key up.
    ports.log({ event: "directory_failed", error: String(error) });
    return refused({ kind: "admission_unavailable" });
  }
}

/** A header's bytes come as Latin-1 or as UTF-8: a byte order mark is odd in both. */
const ODD = /[^!-~]|["'`<>]/;

/** The key in the Authorization header, which must name the scheme; null if there is no such header. */
function keyInHeader(authorization: string | null): Outcome<{ key: string | null }> {
  if (authorization === null) return { ok: true, key: null };
  const text = authorization.trim();
  const [, scheme = "", key = ""] = /^(\S*)\s*([\s\S]*)$/.exec(text) ?? [];
  if (scheme.toLowerCase() === "bearer") return { ok: true, key };
  if (text === "") return refused({ kind: "bad_key", why: "empty" });
  return refused({ kind: "bad_key", why: key === "" ? "no_scheme" : "other_scheme" });
}
