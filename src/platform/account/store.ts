/**
 * One account's storage: a transaction around every change, the state in memory, and the alarm.
 *
 * A change sees a state that equals the rows. If it throws, the transaction is undone and the state is dropped; the
 * next change loads it again. After a change the alarm is set for the next due work.
 *
 * Time never runs backwards for the state. A small step back of the clock is waited out; after a large one the rows are
 * repaired and the state is loaded again (clock.ts).
 */

import type { AccountFields } from "../../core/account/tenant.ts";
import type { AccountId, AccountNumber } from "../../core/ids.ts";
import { log } from "../log.ts";
import { SizeWatch } from "../store-sizes.ts";
import { Alarm } from "./alarm.ts";
import { purseOf, tellChanges } from "./alerting.ts";
import { setBack } from "./clock.ts";
import { setRentalsBack } from "./compute/resource-rows.ts";
import { earliest } from "./earliest.ts";
import { RefusedBuffer } from "./refused-buffer.ts";
import { isOpened, migrate, type Sql } from "./schema.ts";
import type { Lives } from "./settings.ts";
import { AccountState } from "./state.ts";

/** A step back of the clock up to this is waited out, ms: machines differ, and are corrected, by less. */
const STEP_MS = 5_000;

export class Store {
  readonly alarm: Alarm;
  readonly sizeWatch = new SizeWatch();
  /** Audits that run: they walk the ledger, so nothing of it is folded meanwhile. */
  audits = 0;
  /** After a failure of the archive: not before. */
  archiveAgainMs = 0;
  readonly #storage: DurableObjectStorage;
  readonly #lives: Lives;
  /** Outlives the state: a change that fails loses no refusal. */
  readonly #refused = new RefusedBuffer();
  #state: AccountState | undefined;
  /** The latest time that the state has seen, ms. */
  #latestMs = 0;

  constructor(storage: DurableObjectStorage, lives: Lives) {
    this.#storage = storage;
    this.#lives = lives;
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
      new AccountState(this.sql, Date.now(), this.#lives.lengths, this.#refused).tenants.open(
        id,
        number,
        fields,
        Date.now(),
      );
    });
  }

  /** Runs `change` in one transaction. Undefined if this account was never opened: nothing is written then. */
  transact<T>(change: (state: AccountState, nowMs: number) => T): T | undefined {
    const clockMs = Date.now();
    try {
      const state = this.#load(clockMs);
      if (!state) return undefined;
      const nowMs = Math.max(clockMs, this.#latestMs);
      this.#latestMs = nowMs;
      const purse = purseOf(state);
      const result = this.#storage.transactionSync(() => {
        const result = change(state, nowMs);
        tellChanges(state, purse, nowMs);
        return result;
      });
      this.alarm.arm(this.nextDueMs(state), nowMs);
      return result;
    } catch (error) {
      this.#state = undefined;
      throw error;
    }
  }

  /** When the alarm has work to do; null: never, as things are. */
  nextDueMs(state: AccountState): number | null {
    return earliest([state.nextDueMs(), this.archiveDueMs(state)]);
  }

  archiveDueMs({ ledger }: AccountState): number | null {
    const { archive } = this.#lives;
    const dueMs = archive ? ledger.parts.nextDueMs(archive, ledger.lastId) : Number.POSITIVE_INFINITY;
    return dueMs === Number.POSITIVE_INFINITY ? null : Math.max(dueMs, this.archiveAgainMs);
  }

  #load(clockMs: number): AccountState | undefined {
    if (this.#state && clockMs >= this.#latestMs - STEP_MS) return this.#state;
    if (!isOpened(this.#storage)) return undefined;
    this.#storage.transactionSync(() => migrate(this.#storage));
    this.#state = new AccountState(this.sql, clockMs, this.#lives.lengths, this.#refused);
    const latestMs = Math.max(this.#latestMs, this.#state.latestMs);
    this.#latestMs = latestMs;
    if (clockMs < latestMs - STEP_MS) {
      this.#state = undefined;
      log({ event: "clock_set_back", by_ms: latestMs - clockMs });
      this.#storage.transactionSync(() => {
        setBack(this.sql, clockMs, this.#lives);
        setRentalsBack(new AccountState(this.sql, clockMs, this.#lives.lengths, this.#refused), clockMs);
      });
      this.#latestMs = clockMs;
      this.#state = new AccountState(this.sql, clockMs, this.#lives.lengths, this.#refused);
    }
    return this.#state;
  }
}
