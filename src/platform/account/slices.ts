/**
 * Long reads of one account's rows, in slices. An object does one thing at a time, so reading millions of rows in one
 * go would block every call of the account.
 */

/** Ledger entries read in one go: about 10 ms. */
export const ENTRIES_PER_SLICE = 10_000;
/** Holds, jobs and operator's losses checked in one go; each may need further look-ups. */
export const ROWS_PER_SLICE = 4_000;

/** Lets waiting calls run. */
export const letOthersIn = (): Promise<void> => new Promise((resume) => setTimeout(resume, 0));
