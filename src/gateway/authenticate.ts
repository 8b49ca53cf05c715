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
  const sent = sentKeys(headers);
  const text = sent[0];
  if (text === undefined) return refused({ kind: "no_key" });
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

/** The keys sent, in the order in which headers are asked. A scheme other than Bearer is no key of ours. */
function sentKeys(headers: Headers): string[] {
  const authorization = headers.get("authorization");
  const bearer = authorization === null ? null : (/^bearer +(.+)$/i.exec(authorization.trim())?.[1] ?? "");
  return [bearer, headers.get("x-api-key"), headers.get("api-key")]
    .filter((key) => key !== null)
    .map((key) => key.trim());
}
