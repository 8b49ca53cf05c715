/**
 * Moves the past of an account's ledger to the archive: closed hours are written, and old charges leave the object once
 * they are read there. Run by the alarm, a part at a time, in slices between which calls pass.
 *
 * A part is planned in a row before it is put, so that after a crash the same entries make the same part; a name that
 * is taken by other bytes stops the account's archive until the operator has looked. A part is matched again before the
 * first of its charges leaves. docs/decisions/0015 says why.
 */
import type { LedgerPart } from "../../core/archive/archived-ledger.ts";
import { closesAtMs, type DetailLimits, fitting, hourOfNext } from "../../core/archive/cut.ts";
import { ledgerPartLine } from "../../core/archive/ledger-line.ts";
import { BLOCK_LINES, hourOf, PART_BYTES, PART_LINES, partName } from "../../core/archive/part.ts";
import type { AccountId } from "../../core/ids.ts";
import { keepPart, matchPart } from "../archive/bucket.ts";
import { PartWriter } from "../archive/part-writer.ts";
import { log } from "../log.ts";
import { within } from "../wait.ts";
import { letOthersIn } from "./slices.ts";
import type { AccountState } from "./state.ts";
import type { Store } from "./store.ts";

/** The alarm waits this long for the archive, ms; then it goes on, and so does the archive. */
const ALARM_WAITS_MS = 3_000;
/** Transactions of folding in one run. */
const FOLDS_PER_RUN = 10;
/** First wait after a failure, ms: doubled each time, up to an hour. */
const FIRST_RETRY_MS = 30_000;
const LONGEST_RETRY_MS = 3_600_000;
/** Charges whose calls still have rows of holds are not folded yet, and looked at again after this, ms. */
const HOLDS_LEAVE_MS = 600_000;

interface Made {
  readonly part: LedgerPart;
  readonly bytes: Uint8Array<ArrayBuffer>;
}

export class Archiver {
  readonly #store: Store;
  readonly #bucket: () => R2Bucket | undefined;
  readonly #limits: () => DetailLimits | null;
  #running: Promise<void> | undefined;
  #failures = 0;

  constructor(store: Store, bucket: () => R2Bucket | undefined, limits: () => DetailLimits | null) {
    this.#store = store;
    this.#bucket = bucket;
    this.#limits = limits;
  }

  run(): Promise<unknown> {
    this.#running ??= this.#paced().finally(() => {
      this.#running = undefined;
    });
    return within(ALARM_WAITS_MS, this.#running, undefined);
  }

  async #paced(): Promise<void> {
    const [bucket, limits] = [this.#bucket(), this.#limits()];
    if (!bucket || !limits || !this.#isDue()) return;
    try {
      if (!(await this.#write(bucket)) || !(await this.#fold(bucket, limits))) this.#failed(LONGEST_RETRY_MS);
      else this.#failures = 0;
    } catch (error) {
      log({ event: "archive_failed", account: this.#account().id, error: String(error) });
      this.#failed(Math.min(FIRST_RETRY_MS * 2 ** this.#failures, LONGEST_RETRY_MS));
    }
  }

  #failed(waitMs: number): void {
    this.#failures += 1;
    this.#store.archiveAgainMs = Date.now() + waitMs;
  }

  #isDue(): boolean {
    const dueMs = this.#store.transact((state) => this.#store.archiveDueMs(state)) ?? null;
    return dueMs !== null && dueMs <= Date.now();
  }

  #account(): { readonly id: AccountId; readonly number: number } {
    return this.#read(({ tenants }) => tenants.account());
  }

  /** Throws for an account that was never opened: it has nothing to archive. */
  #read<Answer>(ask: (state: AccountState, nowMs: number) => Answer): Answer {
    const found = this.#store.transact((state, nowMs) => ({ answer: ask(state, nowMs) }));
    if (!found) throw new Error("the account was never opened");
    return found.answer;
  }

  /** False: other bytes stand where the part belongs. */
  async #write(bucket: R2Bucket): Promise<boolean> {
    const { number } = this.#account();
    const planned = this.#read(({ ledger }) => ledger.parts.planned(number));
    if (planned) {
      const there = await matchPart(bucket, planned);
      if (there.kind === "kept") return this.#keep(planned, there.etag);
      if (there.kind === "differs") return this.#differs(planned, there.why);
    }
    const made = await this.#make(number, planned);
    if (!made) return true;
    this.#read(({ ledger }) => ledger.parts.plan(made.part));
    const kept = await keepPart(bucket, made.part, made.bytes);
    if (kept.kind === "missing") throw new Error("a part that was put is not there");
    return kept.kind === "kept" ? this.#keep(made.part, kept.etag) : this.#differs(made.part, kept.why);
  }

  #keep({ n }: LedgerPart, etag: string): true {
    this.#read(({ ledger }) => ledger.parts.keep(n, etag));
    return true;
  }

  #differs(part: LedgerPart, why: string): false {
    const data = { part: partName(part), why };
    const { id } = this.#account();
    log({ event: "archive.differs", account: id, ...data });
    this.#read(({ alerts }, nowMs) => {
      if (alerts.firstToday("archive", nowMs)) alerts.tell(id, { type: "archive.differs", data }, nowMs);
    });
    return false;
  }

  /** The part that was planned, or the next one; undefined: no hour with lines has closed. */
  async #make(account: number, planned: LedgerPart | undefined): Promise<Made | undefined> {
    const next = planned ?? this.#read((state, nowMs) => nextPart(state, nowMs));
    if (!next) return undefined;
    const writer = new PartWriter({ series: "ledger", account, hourMs: next.hourMs, n: next.n });
    let lastId = next.firstId - 1;
    let balanceNanoUsd = 0;
    let more = false;
    while (writer.lines < PART_LINES && writer.bytes < PART_BYTES && lastId !== planned?.lastId) {
      // The line after a block shows whether the hour goes on.
      const lines = this.#read(({ ledger }) => ledger.lines(lastId, BLOCK_LINES + 1));
      const times = lines.slice(0, BLOCK_LINES).map(({ atMs }) => atMs);
      const count = planned
        ? Math.min(times.length, planned.lastId - lastId)
        : fitting(next.hourMs, writer.lines, times);
      const block = lines.slice(0, count);
      const last = block.at(-1);
      if (!last) break;
      if (last.id !== lastId + count) throw new Error(`an entry is missing after ${lastId}`);
      await writer.add(block.map(ledgerPartLine));
      [lastId, balanceNanoUsd] = [last.id, last.balanceNanoUsd];
      const following = lines[count];
      more = following !== undefined && hourOf(following.atMs) <= next.hourMs;
      if (count < BLOCK_LINES) break;
      await letOthersIn();
    }
    const { record, bytes } = await writer.finish();
    const ids = { firstId: next.firstId, lastId, more: planned?.more ?? more, balanceNanoUsd };
    return { part: { ...record, ...ids }, bytes };
  }

  /** False: the part with the oldest charges is gone from the archive, or was changed. */
  async #fold(bucket: R2Bucket, limits: DetailLimits): Promise<boolean> {
    for (let done = 0; done < FOLDS_PER_RUN; done++) {
      const { number } = this.#account();
      const part = this.#read((state, nowMs) => this.#foldable(state, limits, nowMs)?.toFold(number));
      if (!part) return true;
      if (part.begins) {
        const there = await matchPart(bucket, part);
        if (there.kind !== "kept") return this.#differs(part, there.why);
      }
      this.#read((state, nowMs) => {
        if (!this.#foldable(state, limits, nowMs)) return;
        state.spending.sumUp(state.ledger.lastId);
        state.ledger.parts.fold();
      });
      await letOthersIn();
    }
    return true;
  }

  #foldable({ ledger: { parts, lastId } }: AccountState, limits: DetailLimits, nowMs: number) {
    if (this.#store.audits > 0 || parts.foldsAtMs(limits, lastId) > nowMs) return undefined;
    if (!parts.foldAwaited()) return parts;
    this.#store.archiveAgainMs = nowMs + HOLDS_LEAVE_MS;
    return undefined;
  }
}

/** Where the next part begins, if the hour of its first line is over. */
function nextPart({ ledger: { parts } }: AccountState, nowMs: number) {
  const { n, lastId, last } = parts.before();
  const sinceMs = parts.unwrittenSinceMs;
  if (sinceMs === null || closesAtMs(last, sinceMs) > nowMs) return undefined;
  return { n: n + 1, firstId: lastId + 1, hourMs: hourOfNext(last, sinceMs) };
}
