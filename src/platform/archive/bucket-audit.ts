/** Compares the bucket with the records of its parts. What was changed, removed or added by hand is a problem. */
import { folderOf, type PartRecord, partName, type Series } from "../../core/archive/part.ts";
import { matchPart } from "./bucket.ts";

/** Parts, the newest, that are read whole each time; all are compared by their ETag and size. */
const READ_WHOLE = 2;
/** The most problems listed of one series. */
const MOST = 20;

/** `partsAfter`: kept parts in order, behind a number. */
export async function auditSeries(
  bucket: R2Bucket,
  series: Series,
  account: number,
  partsAfter: (n: number) => Promise<readonly PartRecord[]>,
): Promise<readonly string[]> {
  const stored = await storedIn(bucket, folderOf(series, account));
  const problems: string[] = [];
  let newest: readonly PartRecord[] = [];
  for (let parts = await partsAfter(0); parts.length > 0; parts = await partsAfter(parts.at(-1)?.n ?? 0)) {
    for (const part of parts) {
      const name = partName(part);
      const found = stored.get(name);
      stored.delete(name);
      if (found !== `${part.etag} ${part.bytes}`) problems.push(`${name} ${found ? "was changed" : "is gone"}`);
    }
    newest = [...newest, ...parts].slice(-READ_WHOLE);
  }
  for (const part of problems.length > 0 ? [] : newest) {
    const there = await matchPart(bucket, part);
    if (there.kind !== "kept") problems.push(`${partName(part)} is damaged`);
  }
  // The next part may stand there and not be kept yet.
  const strangers = [...stored.keys()].filter((name) => numberIn(name) !== (newest.at(-1)?.n ?? 0) + 1);
  return [...problems, ...strangers.map((name) => `${name} is not ours`)].slice(0, MOST);
}

const numberIn = (name: string): number => Number(/-(\d+)\.jsonl\.gz$/.exec(name)?.[1]);

async function storedIn(bucket: R2Bucket, prefix: string): Promise<Map<string, string>> {
  const found = new Map<string, string>();
  for (let cursor: string | undefined; ; ) {
    const page = await bucket.list({ prefix, ...(cursor !== undefined && { cursor }) });
    for (const { key, etag, size } of page.objects) found.set(key, `${etag} ${size}`);
    if (!page.truncated) return found;
    cursor = page.cursor;
  }
}
