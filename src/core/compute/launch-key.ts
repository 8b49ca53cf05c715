/**
 * SSH keys on an upstream account that several accounts share. Upstream saves the key of each launch in one list, and
 * may offer that list to any machine. So launches with a key go one at a time, only while the list is empty, and the
 * key is deleted again before the next. A key that no launch of ours brought stops all of them; it is never deleted.
 */
import { asObject } from "../formats/json-fields.ts";
import { CREATE_PROOF_MS } from "./observe.ts";

/** The key that a launch brings. */
export interface LaunchKey {
  /** `SHA256:...` */
  readonly fingerprint: string;
  readonly line: string;
}

/** The key that was sent last, until a list proves that it is gone. */
export interface KeyUnderWay extends LaunchKey {
  readonly sentAtMs: number;
  /** Without an answer the launch may still be executed. */
  readonly answered: boolean;
}

interface ListedKey {
  /** Null: it cannot be read. */
  readonly id: number | null;
  readonly fingerprint: string | null;
  readonly line: string | null;
}

export interface KeysLeft {
  /** Ids of the key under way: to be deleted. */
  readonly ours: readonly number[];
  /** Keys that no launch of ours brought. */
  readonly foreign: number;
  /** Nothing of the key under way is left, or can come any more. */
  readonly over: boolean;
}

/** What a list that was asked for at `askedAtMs` shows. */
export function keysLeft(underWay: KeyUnderWay | null, listed: readonly ListedKey[], askedAtMs: number): KeysLeft {
  const ours = listed.flatMap((one) => (underWay && one.id !== null && isSame(one, underWay) ? [one.id] : []));
  const proven = underWay === null || underWay.answered || askedAtMs >= underWay.sentAtMs + CREATE_PROOF_MS;
  return { ours, foreign: listed.length - ours.length, over: ours.length === 0 && proven };
}

/** Type and bytes; a comment says nothing. */
const bytesOf = (line: string): string => line.trim().split(/\s+/).slice(0, 2).join(" ");

const isSame = ({ fingerprint, line }: ListedKey, ours: LaunchKey): boolean =>
  fingerprint === ours.fingerprint || (line !== null && bytesOf(line) === bytesOf(ours.line));

const textOf = (value: unknown): string | null => (typeof value === "string" ? value : null);

/** Undefined for what is no list. What cannot be read in it is somebody's key all the same. */
export function readKeyList(body: string): ListedKey[] | undefined {
  let parsed: unknown;
  try {
    parsed = JSON.parse(body);
  } catch {
    return undefined;
  }
  if (!Array.isArray(parsed)) return undefined;
  return parsed.map((item: unknown) => {
    const { id, fingerprint, public_key } = asObject(item) ?? {};
    return {
      id: Number.isSafeInteger(id) ? (id as number) : null,
      fingerprint: textOf(fingerprint),
      line: textOf(public_key),
    };
  });
}

const FIRST_WAIT_MS = 5_000;
const LONGEST_WAIT_MS = 60_000;

/** When to look again after `tries` looks that found it not over: it doubles to a minute. */
export const nextLookMs = (tries: number): number => Math.min(LONGEST_WAIT_MS, FIRST_WAIT_MS * 2 ** Math.min(tries, 5));
