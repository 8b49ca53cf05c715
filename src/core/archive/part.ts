/**
 * The form of the archive's parts. A part is one object: blocks of at most `BLOCK_LINES` lines, and a footer. Each is a
 * gzip member of its own, so a block is read by its range, and the whole is one gzip file of JSON Lines. The footer is
 * the last line; it says how long each block is and has a hash of each line's call id, so that a call is found without
 * reading the lines. docs/storage.md describes the form for readers outside.
 *
 * Who writes gives the lines in the order in which they were booked. This folder compresses, digests and stores nothing.
 */
import * as z from "zod/mini";
import { whole } from "../shapes.ts";

/** `ledger`: lines of one account's ledger. `calls`: its usage events. */
const SERIES = ["ledger", "calls"] as const;
export type Series = (typeof SERIES)[number];

export const HOUR_MS = 3_600_000;
export const hourOf = (ms: number): number => ms - (((ms % HOUR_MS) + HOUR_MS) % HOUR_MS);

export const PART_LINES = 50_000;
export const BLOCK_LINES = 1_000;
/** Compressed bytes after which a part is cut before it has its most lines. */
export const PART_BYTES = 12_000_000;
/** Bytes of a block's text, at most; what is longer is damaged. A line has a few hundred bytes. */
const BLOCK_TEXT_BYTES = 16_000_000;

export interface PartPlace {
  readonly series: Series;
  /** The account's number. */
  readonly account: number;
  /** The UTC hour in which its lines were booked, as the ms of its beginning. */
  readonly hourMs: number;
  /** Counts the parts of this series of the account, from 1. */
  readonly n: number;
}

/** `ledger/7/2026-11-22T14-12.jsonl.gz`. */
export const partName = ({ series, account, hourMs, n }: PartPlace): string =>
  `${folderOf(series, account)}${new Date(hourMs).toISOString().slice(0, 13)}-${n}.jsonl.gz`;

export const folderOf = (series: Series, account: number): string => `${series}/${account}/`;

/** What is known of a part outside of the bucket, and what it is held against. */
export interface PartRecord extends PartPlace {
  readonly lines: number;
  /** Sum of the lines' amounts: of a ledger as booked, of calls what was charged. */
  readonly nanoUsd: number;
  readonly bytes: number;
  readonly footerBytes: number;
  /** Bytes of each block, in order. */
  readonly blocks: readonly number[];
  /** Hex, of all bytes. */
  readonly sha256: string;
  /** The bucket's; empty until the part is there. A read that names it fails where the object was changed. */
  readonly etag: string;
}

export interface PartLine {
  /** JSON without a line end. */
  readonly text: string;
  readonly callId: string | null;
  readonly nanoUsd: number;
}

/** FNV-1a over the call that an id begins with: a later event's id has a point and its own name behind the call's. */
export function hashOf(callId: string | null): number {
  if (callId === null) return 0;
  let hash = 0x811c9dc5;
  for (let at = 0; at < callId.length && callId[at] !== "."; at++) {
    hash = Math.imul(hash ^ callId.charCodeAt(at), 0x01000193);
  }
  return hash >>> 0;
}

const Footer = z.object({
  footer: z.object({
    version: z.literal(1),
    series: z.enum(SERIES),
    account: whole(1, Number.MAX_SAFE_INTEGER),
    hour_ms: whole(0, Number.MAX_SAFE_INTEGER),
    n: whole(1, Number.MAX_SAFE_INTEGER),
    lines: whole(1, PART_LINES),
    nano_usd: z.int(),
    blocks: z.array(whole(1, BLOCK_TEXT_BYTES)).check(z.maxLength(PART_LINES)),
    calls: z.array(whole(0, 0xffffffff)).check(z.maxLength(PART_LINES)),
  }),
});
export type Footer = z.output<typeof Footer>["footer"];

export const footerText = (footer: Footer): string => `${JSON.stringify({ footer })}\n`;

/** Undefined for anything but the footer of a part whose parts agree with each other. */
export function readFooter(text: string): Footer | undefined {
  const outcome = Footer.safeParse(jsonOf(text));
  if (!outcome.success) return undefined;
  const { footer } = outcome.data;
  const blocks = Math.ceil(footer.lines / BLOCK_LINES);
  return footer.calls.length === footer.lines && footer.blocks.length === blocks ? footer : undefined;
}

/** The numbers (from 0) of the lines that may be a call's: a hash may stand for another call too. */
export function linesOf(footer: Pick<Footer, "calls">, callId: string): readonly number[] {
  const hash = hashOf(callId);
  return footer.calls.flatMap((each, line) => (each === hash ? [line] : []));
}

export interface ByteRange {
  readonly offset: number;
  readonly length: number;
}

/** Where the block of a line stands; undefined beyond the part's end. */
export function blockRange(blocks: readonly number[], block: number): ByteRange | undefined {
  const length = blocks[block];
  if (length === undefined) return undefined;
  return { offset: blocks.slice(0, block).reduce((sum, bytes) => sum + bytes, 0), length };
}
export const blockOf = (line: number): number => Math.floor(line / BLOCK_LINES);

/** The values of a block's lines; undefined where one is no JSON, or where the last has no end. */
export function valuesIn(text: string): readonly unknown[] | undefined {
  if (text === "") return [];
  if (!text.endsWith("\n")) return undefined;
  const values = text.slice(0, -1).split("\n").map(jsonOf);
  return values.includes(undefined) ? undefined : values;
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
