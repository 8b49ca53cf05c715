/**
 * The form of the archive's parts. A part is one object: blocks of at most `BLOCK_LINES` lines, and a footer. Each is a
 * gzip member of its own, so a block is read by its range, and the whole is one gzip file of JSON Lines. The footer is
 * the last line; it says how long each block is and has a hash of each line's call id, so that a call is found without
 * reading the lines. docs/storage.md describes the form for readers outside.
 *
 * The writer passes lines in the order of booking. This folder compresses, digests and stores nothing.
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
/** A part with this many compressed bytes gets no further block, however few lines it has. */
export const PART_BYTES = 12_000_000;
/** The most compressed bytes of a block. A footer that names more is damaged: a line has a few hundred bytes. */
const BLOCK_BYTES = 16_000_000;

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

/** What is known of a part outside the bucket. Whatever the bucket has is compared with it. */
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
  /** Set by the bucket; empty until the part is there. Every read names it, and fails if the object was changed. */
  readonly etag: string;
}

export interface PartLine {
  /** JSON without a line end. */
  readonly text: string;
  readonly callId: string | null;
  readonly nanoUsd: number;
}

/** FNV-1a over a call's id. A later event of the call has that id, a dot and a suffix, so it gets the same hash. */
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
    blocks: z.array(whole(1, BLOCK_BYTES)).check(z.maxLength(PART_LINES)),
    calls: z.array(whole(0, 0xffffffff)).check(z.maxLength(PART_LINES)),
  }),
});
export type Footer = z.output<typeof Footer>["footer"];

export const footerText = (footer: Footer): string => `${JSON.stringify({ footer })}\n`;

/** Undefined for anything but a footer whose figures agree with each other. */
export function readFooter(text: string): Footer | undefined {
  const outcome = Footer.safeParse(jsonOf(text));
  if (!outcome.success) return undefined;
  const { footer } = outcome.data;
  const blocks = Math.ceil(footer.lines / BLOCK_LINES);
  return footer.calls.length === footer.lines && footer.blocks.length === blocks ? footer : undefined;
}

/** The numbers (from 0) of the lines that may be a call's: another call may have the same hash. */
export function linesOf(footer: Pick<Footer, "calls">, callId: string): readonly number[] {
  const hash = hashOf(callId);
  return footer.calls.flatMap((each, line) => (each === hash ? [line] : []));
}

/** A line's amount, in nano-USD: of a ledger as booked, of a call what was charged. */
export function amountOf(line: unknown): number {
  const { nano_usd, price_nano_usd } = (line ?? {}) as Record<string, unknown>;
  return Number(nano_usd ?? price_nano_usd ?? 0);
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
