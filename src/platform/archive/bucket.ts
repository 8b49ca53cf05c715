/**
 * The archive's bucket: parts are put once, read back, and read by range. It is optional; only this folder calls it.
 * Nothing here deletes or overwrites.
 */
import { DamagedPart } from "../../core/archive/damaged-part.ts";
import {
  amountOf,
  type ByteRange,
  blockRange,
  type PartRecord,
  partName,
  readFooter,
  valuesIn,
} from "../../core/archive/part.ts";
import { toHex } from "../../core/formats/bytes.ts";
import { within } from "../wait.ts";

declare global {
  interface Env {
    /** Absent: nothing is archived, and nothing is folded. */
    readonly ARCHIVE?: R2Bucket;
  }
  namespace Cloudflare {
    interface Env {
      readonly ARCHIVE?: R2Bucket;
    }
  }
}

/** The longest that the bucket may take for one operation, ms. */
const LONGEST_MS = 30_000;
/** The longest text of one gzip member; we write no longer one. */
const MOST_TEXT = 24_000_000;

export async function gzip(text: string): Promise<Uint8Array> {
  const stream = new Response(text).body?.pipeThrough(new CompressionStream("gzip"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** The text of one gzip member; undefined where it is damaged or far too long. */
async function gunzip(bytes: Uint8Array<ArrayBuffer>): Promise<string | undefined> {
  const decoder = new TextDecoder("utf-8", { fatal: true });
  let text = "";
  try {
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    for await (const chunk of stream as ReadableStream<Uint8Array>) {
      text += decoder.decode(chunk, { stream: true });
      if (text.length > MOST_TEXT) return undefined;
    }
    return text + decoder.decode();
  } catch {
    return undefined;
  }
}

export async function sha256(bytes: Uint8Array<ArrayBuffer> | ArrayBuffer): Promise<string> {
  return toHex(new Uint8Array(await crypto.subtle.digest("SHA-256", bytes)));
}

async function inTime<Answer>(work: Promise<Answer>): Promise<Answer> {
  const late = Symbol();
  const answer = await within<Answer, typeof late>(LONGEST_MS, work, late);
  if (answer === late) throw new Error("the archive's bucket does not answer");
  return answer as Answer;
}

/** What stands under a part's name. */
export type Kept =
  | { readonly kind: "kept"; readonly etag: string }
  | { readonly kind: "differs"; readonly why: string }
  | { readonly kind: "missing"; readonly why: "it is gone" };

/** Puts a part where its name is free, reads back what stands there, and matches it. */
export async function keepPart(bucket: R2Bucket, part: PartRecord, bytes: Uint8Array): Promise<Kept> {
  await inTime(
    bucket.put(partName(part), bytes, {
      onlyIf: new Headers({ "if-none-match": "*" }),
      sha256: part.sha256,
      httpMetadata: { contentType: "application/gzip" },
      customMetadata: { "footer-bytes": String(part.footerBytes) },
    }),
  );
  return matchPart(bucket, part);
}

/** Reads a whole part and holds it against its record: bytes, lines and sum. */
export async function matchPart(bucket: R2Bucket, part: PartRecord): Promise<Kept> {
  const stored = await inTime(bucket.get(partName(part)));
  if (!stored) return { kind: "missing", why: "it is gone" };
  const bytes = new Uint8Array(await inTime(stored.arrayBuffer()));
  if (bytes.length !== part.bytes || (await sha256(bytes)) !== part.sha256)
    return { kind: "differs", why: "other bytes" };
  let [lines, nanoUsd] = [0, 0];
  for (const block of part.blocks.keys()) {
    const range = blockRange(part.blocks, block);
    const text = range && (await gunzip(bytes.subarray(range.offset, range.offset + range.length)));
    for (const line of (text !== undefined && valuesIn(text)) || []) {
      lines += 1;
      nanoUsd += amountOf(line);
    }
  }
  const footer = readFooter((await gunzip(bytes.subarray(part.bytes - part.footerBytes))) ?? "");
  const same = lines === part.lines && nanoUsd === part.nanoUsd && footer?.lines === lines;
  return same ? { kind: "kept", etag: stored.etag } : { kind: "differs", why: "other lines" };
}

/** The values of a block's lines. Throws where the object is not the one that was put. */
export async function readBlock(bucket: R2Bucket, part: PartRecord, block: number): Promise<readonly unknown[]> {
  const range = blockRange(part.blocks, block);
  const values = range && valuesIn(await readMember(bucket, part, range));
  if (!values) throw new DamagedPart(part, "a block is damaged");
  return values;
}

export async function readPartFooter(bucket: R2Bucket, part: PartRecord) {
  const range = { offset: part.bytes - part.footerBytes, length: part.footerBytes };
  const footer = readFooter(await readMember(bucket, part, range));
  if (!footer) throw new DamagedPart(part, "its footer is damaged");
  return footer;
}

async function readMember(bucket: R2Bucket, part: PartRecord, range: ByteRange): Promise<string> {
  const stored = await inTime(bucket.get(partName(part), { range, onlyIf: { etagMatches: part.etag } }));
  if (!stored || !("body" in stored)) throw new DamagedPart(part, stored ? "it was changed" : "it is gone");
  const text = await gunzip(new Uint8Array(await inTime(stored.arrayBuffer())));
  if (text === undefined) throw new DamagedPart(part, "it is damaged");
  return text;
}
