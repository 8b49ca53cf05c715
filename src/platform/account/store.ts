/**
 * One account's storage: the transaction around every change, the books in memory, the alarm behind them.
 *
 * A change sees books that equal the rows. Should it throw, the transaction is undone and the books are dropped, to be
 * read again by the next change. After it, the alarm is set for what has become due.
 */

import type { AccountId, AccountNumber } from "../../core/ids.ts";
import type { AccountFields } from "../../core/tenant.ts";
import { Alarm } from "./alarm.ts";
import { Books } from "./books.ts";
import { isOpened, migrate, type Sql } from "./schema.ts";

export class Store {
  readonly alarm: Alarm;
  readonly #storage: DurableObjectStorage;
  #books: Books | undefined;

  constructor(storage: DurableObjectStorage) {
    this.#storage = storage;
    this.alarm = new Alarm(storage);
  }

  get sql(): Sql {
    return this.#storage.sql;
  }

  /** Makes the account, once. */
  open(id: AccountId, number: AccountNumber, fields: AccountFields): void {
    if (isOpened(this.#storage)) return;
    this.#storage.transactionSync(() => {
      migrate(this.#storage);
      new Books(this.sql, Date.now()).tenants.open(id, number, fields, Date.now());
    });
  }

  /** One transaction over the books. Undefined where this account was never opened: nothing is written then. */
  write<T>(change: (books: Books, nowMs: number) => T): T | undefined {
    const nowMs = Date.now();
    try {
      const books = this.#load(nowMs);
      if (!books) return undefined;
      const result = this.#storage.transactionSync(() => change(books, nowMs));
      this.alarm.arm(books.nextDueMs(), nowMs);
      return result;
    } catch (error) {
      this.#books = undefined;
      throw error;
    }
  }

  #load(nowMs: number): Books | undefined {
    if (this.#books || !isOpened(this.#storage)) return this.#books;
    this.#storage.transactionSync(() => migrate(this.#storage));
    this.#books = new Books(this.sql, nowMs);
    return this.#books;
  }
}
