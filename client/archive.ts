/**
 * Reads a part of the archive (docs/storage.md) that was taken out of the bucket, in Node: its lines, checked against
 * its footer. If you have the record of the part, compare its SHA-256 with the file too.
 */
import { gunzipSync } from "node:zlib";
import { amountOf, type Footer, readFooter, valuesIn } from "../src/core/archive/part.ts";

export interface ReadPart {
  readonly footer: Footer;
  /** In the order of booking. */
  readonly lines: readonly Readonly<Record<string, unknown>>[];
}

/** No part of ours is larger, unpacked. */
const MOST_TEXT_BYTES = 512 * 1024 * 1024;

/** Throws where the bytes are no part, or one whose lines are not those of its footer. */
export function readPart(bytes: Uint8Array): ReadPart {
  const text = gunzipSync(bytes, { maxOutputLength: MOST_TEXT_BYTES }).toString("utf8");
  const end = text.lastIndexOf("\n", text.length - 2) + 1;
  const footer = readFooter(text.slice(end));
  const lines = valuesIn(text.slice(0, end)) as ReadPart["lines"] | undefined;
  if (!footer || !lines) throw new Error("This is no part of an archive.");
  const sum = lines.reduce((total, line) => total + amountOf(line), 0);
  if (lines.length !== footer.lines || sum !== footer.nano_usd)
    throw new Error("Its lines are not those of its footer.");
  return { footer, lines };
}
