/** What an account object tells of its ledger in the archive. Crosses RPC as values. */
import type { PartRecord } from "./part.ts";

/** A part of the ledger with the entries that it has. */
export interface LedgerPart extends PartRecord {
  readonly firstId: number;
  readonly lastId: number;
  readonly more: boolean;
  /** After its last line. */
  readonly balanceNanoUsd: number;
}

/** Parts after a number, of hours between two times; or the folded part that has an entry. */
export type PartsAsked =
  | { readonly after: number; readonly fromMs: number; readonly toMs: number }
  | { readonly entry: number };

export interface ArchivedLedger {
  /** Kept parts, in order, some hundreds at a time. */
  ledgerParts(asked: PartsAsked): Promise<readonly LedgerPart[] | undefined>;
  /** Entries that may have been booked between two times: after one id and up to another. */
  entriesBetween(
    fromMs: number,
    toMs: number,
  ): Promise<{ readonly afterId: number; readonly throughId: number } | undefined>;
}
