/** Reads the operator's losses of each account, row by row, and its leases, from the file of the account's object. */
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";

export interface BookRow {
  readonly account: string;
  readonly call_id: string;
  readonly kind: "overrun" | "operator_loss";
  readonly amount_nano_usd: number;
  readonly reason: string | null;
}

/** Of all accounts, without rows of zero. */
export const readOperatorBooks = (stateDir: string): BookRow[] =>
  fromAccounts<BookRow>(
    stateDir,
    `SELECT (SELECT id FROM account) AS account, call_id, kind, amount_nano_usd, reason FROM operator_book
     WHERE amount_nano_usd <> 0`,
  );

/** How many leases were granted, to all accounts. */
export const readLeases = (stateDir: string): number =>
  fromAccounts<{ n: number }>(stateDir, "SELECT count(*) AS n FROM holds WHERE endpoint = 'lease'").reduce(
    (sum, { n }) => sum + n,
    0,
  );

function fromAccounts<Row>(stateDir: string, sql: string): Row[] {
  const files = readdirSync(join(stateDir, "gateway"), { recursive: true, encoding: "utf8" });
  return files
    .filter((file) => /\.sqlite$/i.test(file))
    .flatMap((file) => {
      const database = new DatabaseSync(join(stateDir, "gateway", file), { readOnly: true });
      try {
        return isAccount(database) ? (database.prepare(sql).all() as unknown as Row[]) : [];
      } finally {
        database.close();
      }
    });
}

const isAccount = (database: DatabaseSync): boolean =>
  database.prepare("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'operator_book'").get() !== undefined;
