/** Pages of a ledger: from the account's object, and where its charges were folded, from the archive. */
import type { AccountService } from "../../core/account/account-service.ts";
import type { LedgerEntry, PageRequest } from "../../core/account/tenant.ts";
import type { ArchivedLedger, LedgerPart } from "../../core/archive/archived-ledger.ts";
import { DamagedPart } from "../../core/archive/damaged-part.ts";
import { readLedgerLine } from "../../core/archive/ledger-line.ts";
import { BLOCK_LINES, blockOf } from "../../core/archive/part.ts";
import { asId, type CallId, type KeyId } from "../../core/ids.ts";
import { readBlock } from "../../platform/archive/bucket.ts";
import { Problem } from "./problem.ts";

export type LedgerObject = Pick<AccountService, "entries"> & Pick<ArchivedLedger, "ledgerParts">;

export interface LedgerPage {
  readonly data: readonly LedgerEntry[];
  readonly nextCursor: string | null;
  /** `archive`: all of it comes from there. */
  readonly source: "object" | "archive";
}

/** Newest first. A page ends where the archive begins. Undefined: there is no such account. */
export async function ledgerPage(
  bucket: R2Bucket | undefined,
  object: LedgerObject,
  page: PageRequest,
): Promise<LedgerPage | undefined> {
  const found = await object.entries(page);
  if (!found) return undefined;
  const { data, nextCursor } = found;
  if (data.length > 0 || nextCursor === null) return { data, nextCursor, source: "object" };
  const last = Number(nextCursor) - 1;
  const [part] = (await object.ledgerParts({ entry: last })) ?? [];
  if (!part || !bucket)
    throw new Problem(503, "archive_unavailable", "The archive has these entries, and is not there.");
  const first = Math.max(part.firstId, last - page.limit + 1);
  const entries = await archivedEntries(bucket, part, first, last);
  return { data: entries.reverse(), nextCursor: first > 1 ? String(first) : null, source: "archive" };
}

async function archivedEntries(
  bucket: R2Bucket,
  part: LedgerPart,
  first: number,
  last: number,
): Promise<LedgerEntry[]> {
  const entries: LedgerEntry[] = [];
  const end = blockOf(last - part.firstId);
  for (let block = blockOf(first - part.firstId); block <= end; block++) {
    for (const [index, value] of (await readBlock(bucket, part, block)).entries()) {
      const line = readLedgerLine(value);
      if (line?.id !== part.firstId + block * BLOCK_LINES + index) throw new DamagedPart(part, "a line is damaged");
      if (line.id < first || line.id > last) continue;
      const { teamId: _, countsAtMs: __, callId, keyId, ...rest } = line;
      entries.push({
        ...rest,
        callId: callId === null ? null : asId<CallId>(callId),
        keyId: keyId === null ? null : asId<KeyId>(keyId),
        note: null,
      });
    }
  }
  return entries;
}
