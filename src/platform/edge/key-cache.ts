/**
 * Edge records of keys, from digest to caller. They are looked up in the isolate, then KV, then the account object.
 *
 * They only find the account quickly; the object decides whether a key may call. So a stale record does no harm and a
 * missing one decides nothing: KV caches misses, but a new key must work at once, so only the object can say that a key
 * is unknown. That answer is cached briefly in the isolate, never in KV. If KV fails, calls are slower. If the object
 * fails, the look-up rejects, since an outage does not mean an unknown key.
 */
import { type AccountId, type AccountNumber, asId, type KeyDigest, type KeyId } from "../../core/ids.ts";
import type { Caller, LogLine } from "../../gateway/ports.ts";
import { RecentMap } from "./ttl-cache.ts";

/** In the isolate. */
const CALLER_LIFETIME_MS = 30_000;
const UNKNOWN_LIFETIME_MS = 1_500;
/** In KV: a key unused for this long is dropped. */
const EDGE_RECORD_SECONDS = 7 * 24 * 60 * 60;
const MOST_CALLERS = 20_000;

/** The value in KV under `key:<digest>`. */
export interface EdgeRecord {
  readonly account: AccountId;
  readonly number: AccountNumber;
  readonly keyId: KeyId;
}

const edgeKeyOf = (digest: KeyDigest): string => `key:${digest}`;

export interface EdgeKeyParts {
  readonly kv: KVNamespace;
  /** Asks the account object. */
  findKey(number: AccountNumber, digest: KeyDigest): Promise<{ account: AccountId; keyId: KeyId } | undefined>;
  now(): number;
  waitUntil(work: Promise<unknown>): void;
  log(line: LogLine): void;
}

/** Lives as long as the isolate. */
export type CallerCache = RecentMap<KeyDigest, Caller | "unknown">;
export const newCallerCache = (): CallerCache => new RecentMap(MOST_CALLERS);

export async function findCaller(
  parts: EdgeKeyParts,
  cache: CallerCache,
  number: AccountNumber,
  digest: KeyDigest,
): Promise<Caller | undefined> {
  const cached = cache.get(digest, parts.now());
  if (cached) return cached === "unknown" ? undefined : cached;
  const record = (await readRecord(parts, number, digest)) ?? (await askObject(parts, number, digest));
  if (!record) {
    cache.set(digest, "unknown", parts.now() + UNKNOWN_LIFETIME_MS);
    return undefined;
  }
  const caller: Caller = { ...record, digest };
  cache.set(digest, caller, parts.now() + CALLER_LIFETIME_MS);
  return caller;
}

/** Undefined for a key that is unknown, or was not looked up lately. */
export function recentCaller(
  parts: Pick<EdgeKeyParts, "now">,
  cache: CallerCache,
  digest: KeyDigest,
): Caller | undefined {
  const cached = cache.get(digest, parts.now());
  return cached === "unknown" ? undefined : cached;
}

/** Undefined for a miss, for another account's record, and if KV cannot be read. */
async function readRecord(
  parts: EdgeKeyParts,
  number: AccountNumber,
  digest: KeyDigest,
): Promise<EdgeRecord | undefined> {
  try {
    const stored = await parts.kv.get<Partial<EdgeRecord>>(edgeKeyOf(digest), "json");
    if (stored?.number !== number || typeof stored.account !== "string" || typeof stored.keyId !== "string") return;
    return { account: asId<AccountId>(stored.account), number, keyId: asId<KeyId>(stored.keyId) };
  } catch {
    parts.log({ event: "edge_key_unreadable" });
    return undefined;
  }
}

async function askObject(
  parts: EdgeKeyParts,
  number: AccountNumber,
  digest: KeyDigest,
): Promise<EdgeRecord | undefined> {
  const found = await parts.findKey(number, digest);
  if (!found) return undefined;
  const record: EdgeRecord = { account: found.account, number, keyId: found.keyId };
  parts.waitUntil(writeRecord(parts, digest, record));
  return record;
}

/** Speeds up a key's first call; the key works without it. */
export async function writeRecord(parts: EdgeKeyParts, digest: KeyDigest, record: EdgeRecord): Promise<void> {
  try {
    await parts.kv.put(edgeKeyOf(digest), JSON.stringify(record), { expirationTtl: EDGE_RECORD_SECONDS });
  } catch {
    parts.log({ event: "edge_key_not_written" });
  }
}

/** Cleans up after a revocation or rotation; the object refuses the key already. */
export async function dropRecords(
  parts: EdgeKeyParts,
  cache: CallerCache,
  digests: readonly KeyDigest[],
): Promise<void> {
  for (const digest of digests) cache.delete(digest);
  const dropped = await Promise.allSettled(digests.map((digest) => parts.kv.delete(edgeKeyOf(digest))));
  if (dropped.some((outcome) => outcome.status === "rejected")) parts.log({ event: "edge_key_not_dropped" });
}
