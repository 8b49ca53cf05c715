/** Reads the operator's losses of each account, row by row, from the file of the account's object. */
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
export function readOperatorBooks(stateDir: string): BookRow[] {
  const files = readdirSync(join(stateDir, "gateway"), { recursive: true, encoding: "utf8" });
  return files
    .filter((file) => /\.sqlite$/i.test(file))
    .flatMap((file) => {
      const database = new DatabaseSync(join(stateDir, "gateway", file), { readOnly: true });
      try {
        if (!isAccount(database)) return [];
        const rows = database.prepare(
          `SELECT (SELECT id FROM account) AS account, call_id, kind, amount_nano_usd, reason FROM operator_book
           WHERE amount_nano_usd <> 0`,
        );
        return rows.all() as unknown as BookRow[];
      } finally {
        database.close();
      }
    });
}

const isAccount = (database: DatabaseSync): boolean =>
  database.prepare("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'operator_book'").get() !== undefined;
