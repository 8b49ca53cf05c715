/**
 * Long reads of one account's rows, in slices: an object does one thing at a time, so a read of millions of rows in one
 * go would keep every call of the account waiting.
 */

/** Ledger entries read in one go: about 10 ms. */
export const ENTRIES_PER_SLICE = 10_000;
/** Holds, jobs and lines of the operator's book checked in one go; each may look up others. */
export const ROWS_PER_SLICE = 4_000;

/** Lets the calls that wait have their turn. */
export const letOthersIn = (): Promise<void> => new Promise((resume) => setTimeout(resume, 0));
