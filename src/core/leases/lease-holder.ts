/**
 * One account's leases in one isolate: admits calls out of them, and makes the reports.
 *
 * Promises. No call is admitted that its lease's slice does not cover, nor after the lease's end by this isolate's
 * clock, nor while that clock stands before the moment at which the lease was asked for. Each admitted call is reported
 * until the object has answered; a report that was not answered is repeated. It never refuses: what it does not admit
 * is asked of the object.
 */
import type { CallEnd, LeasedCall, Rate, Rates } from "../account/hold.ts";
import type { Lease, LeaseAsk, LeaseReport, ReportAnswer, ReportedCall, Slice } from "../account/lease.ts";
import { splitCharge } from "../account/ledger.ts";
import { TrailingCount } from "../account/trailing-count.ts";
import type { CallId, KeyDigest } from "../ids.ts";
import { costOf } from "../pricing/prices.ts";
import { countedTokens } from "../pricing/usage.ts";
import { type Candidate, givenBack, takeFrom, without } from "./slice.ts";

/** How often an isolate reports, ms; and how many reports a lease's life has. */
export const REPORT_MS = 250;
const TICKS_PER_LIFE = 4;
/** The most calls in one report. */
const MOST_REPORTED = 500;
/** A key is hot with so many calls within a second. */
const HOT = 3;
const SECOND = { spanMs: 750, bucketMs: 250 };
/** An ask that has no answer after this long is lost, ms: the call that made it is gone. */
const LOST_MS = 10_000;
/** A sender that was silent for this long is dead, ms. */
const SILENT_MS = 6_000;
/** A sender that has sent for this long hands over to the next one, ms. */
const LONGEST_SENDER_MS = 10_000;
/** Keys kept before cold ones are first removed. */
const MOST_KEYS = 1_000;

interface Held {
  readonly lease: Lease;
  readonly askedAtMs: number;
  left: Slice;
  admitted: number;
  /** Reports since it was asked for: ends a lease whose clock was set back. */
  ticks: number;
  over: boolean;
  /** Admitted, and neither ended nor named as holds of their own. */
  readonly running: Map<CallId, LeasedCall>;
}

interface KeyState {
  /** What its calls were admitted with within the last second, here and by the object. */
  readonly requests: TrailingCount;
  readonly tokens: TrailingCount;
  readonly nanoUsd: TrailingCount;
  /** Newest last. */
  leases: Held[];
  /** The lease that was asked for, and to which there is no answer yet. */
  asked: { readonly id: CallId; readonly atMs: number } | null;
}

/** Makes the id of a lease. */
type NewId = () => CallId;

/** An end that the object has not confirmed. */
interface Waiting extends ReportedCall {
  confirmed(): void;
}

/** `rates`: what the object last said, less what was taken out of the lease since. */
interface AdmittedHere {
  readonly call: LeasedCall;
  readonly lease: Lease;
  readonly rates: Rates;
}

/** A report that has no answer yet. */
export interface SentReport {
  readonly report: LeaseReport;
  readonly askedAtMs: number;
  /** It was sent and not answered: what it asked for may have been granted, though a later answer says none was. */
  unheard: boolean;
}

export class LeaseHolder {
  readonly #keys = new Map<KeyDigest, KeyState>();
  readonly #leases = new Map<CallId, Held>();
  /** Ended and not confirmed, in the order in which they ended. */
  readonly #ended = new Map<CallId, Waiting>();
  /** Leases that may have been granted though no answer came. They are returned unused. */
  readonly #unsure = new Set<CallId>();
  /** Who sends the reports: its number, when it began, and when it was last heard of. */
  #sender = { number: 0, sinceMs: Number.NEGATIVE_INFINITY, heardAtMs: Number.NEGATIVE_INFINITY };
  /** When the first report failed since the last one that was answered; null: the last one was answered. */
  #failingSinceMs: number | null = null;

  /** No lease is open, and nothing is left to report. */
  get idle(): boolean {
    return this.#leases.size + this.#ended.size + this.#unsure.size === 0;
  }

  /** Whether a sender is at work: it was heard of lately, and need not hand over yet. */
  isSent(nowMs: number): boolean {
    const fresh = (atMs: number, mostMs: number) => nowMs >= atMs && nowMs - atMs < mostMs;
    return fresh(this.#sender.heardAtMs, SILENT_MS) && fresh(this.#sender.sinceMs, LONGEST_SENDER_MS);
  }

  /** Takes over the sending. The one before stops: `sends` says so. */
  beginSending(nowMs: number): number {
    this.#sender = { number: this.#sender.number + 1, sinceMs: nowMs, heardAtMs: nowMs };
    return this.#sender.number;
  }

  /** Whether this sender goes on. Asking is its sign of life. */
  sends(number: number, nowMs: number): boolean {
    if (number !== this.#sender.number) return false;
    this.#sender.heardAtMs = this.idle ? Number.NEGATIVE_INFINITY : nowMs;
    return !this.idle;
  }

  /** Admits a call, or leaves it to the object. */
  admit(digest: KeyDigest, call: Candidate, nowMs: number): AdmittedHere | null {
    const key = this.#keys.get(digest);
    if (!key) return null;
    for (let index = key.leases.length - 1; index >= 0; index--) {
      const held = key.leases[index] as Held;
      const offsetMs = nowMs - held.askedAtMs;
      if (held.over || offsetMs < 0 || offsetMs >= held.lease.livesMs) continue;
      const taken = takeFrom(held.lease, held.left, call, offsetMs);
      if (!taken) continue;
      held.left = without(held.left, taken);
      held.admitted += 1;
      held.running.set(taken.callId, taken);
      this.admitted(digest, taken.amountNanoUsd, taken.countedTokens, nowMs);
      return { call: taken, lease: held.lease, rates: ratesLeft(held) };
    }
    return null;
  }

  /** Counts a call that was admitted, here or by the object. */
  admitted(digest: KeyDigest, nanoUsd: number, tokens: number, nowMs: number): void {
    const key = this.#keyOf(digest);
    key.requests.add(nowMs, 1);
    key.tokens.add(nowMs, tokens);
    key.nanoUsd.add(nowMs, nanoUsd);
  }

  /** Asks for a lease, if the key is hot. Goes with a call that is asked of the object, or with a report. */
  ask(digest: KeyDigest, newId: NewId, nowMs: number): LeaseAsk | undefined {
    const key = this.#keys.get(digest);
    const requests = key?.requests.used(nowMs) ?? 0;
    if (!key || requests < HOT) return undefined;
    const { asked } = key;
    if (asked && nowMs >= asked.atMs && nowMs - asked.atMs < LOST_MS) return undefined;
    if (asked) this.#unsure.add(asked.id);
    const id = newId();
    key.asked = { id, atMs: nowMs };
    const wanted = { requests, tokens: key.tokens.used(nowMs), nanoUsd: key.nanoUsd.used(nowMs) };
    return { id, keyDigest: digest, wanted };
  }

  /** The answer to an ask. Null: no lease. Undefined: no answer, so that there may be one. */
  answered(ask: LeaseAsk, lease: Lease | null | undefined, askedAtMs: number): void {
    const key = this.#keyOf(ask.keyDigest);
    if (key.asked?.id === ask.id) key.asked = null;
    if (lease === undefined) this.#unsure.add(ask.id);
    if (!lease || this.#leases.has(lease.id) || this.#unsure.has(lease.id)) return;
    const held: Held = { lease, askedAtMs, left: lease.slice, admitted: 0, ticks: 0, over: false, running: new Map() };
    key.leases.push(held);
    this.#leases.set(lease.id, held);
  }

  /**
   * A leased call has ended. What it did not use goes back into its slice. `confirmed`: called once the object knows.
   */
  ended(call: LeasedCall, end: CallEnd, confirmed: () => void): void {
    this.#ended.set(call.callId, { call, end, confirmed });
    const held = this.#leases.get(call.lease);
    if (!held?.running.delete(call.callId)) return;
    const usage = end.kind === "settle" ? end.said.reading.usage : {};
    const { chargedNanoUsd } = splitCharge(costOf(usage, call.prices), call.amountNanoUsd);
    held.left = givenBack(held.left, call, { chargedNanoUsd, tokens: countedTokens(usage) });
  }

  /** The next report; null: there is nothing to report. Call it every `REPORT_MS`, one at a time, until `idle`. */
  report(newId: NewId, nowMs: number): SentReport | null {
    for (const held of this.#leases.values()) {
      held.ticks += 1;
      const offsetMs = nowMs - held.askedAtMs;
      if (held.ticks > TICKS_PER_LIFE || offsetMs < 0 || offsetMs >= held.lease.livesMs) held.over = true;
    }
    return this.#reportWith(this.#renewals(newId, nowMs), nowMs);
  }

  /** A report out of turn that returns every lease; null: there is nothing to say. It may cross the one under way. */
  returnAll(nowMs: number): SentReport | null {
    for (const held of this.#leases.values()) held.over = true;
    return this.#reportWith([], nowMs);
  }

  #reportWith(asks: LeaseAsk[], nowMs: number): SentReport | null {
    const ended = [...this.#ended.values()].slice(0, MOST_REPORTED);
    const calls: ReportedCall[] = ended.map(({ call, end }) => ({ call, end }));
    const all = calls.length === this.#ended.size;
    const over: { id: CallId; admitted: number }[] = [];
    for (const held of this.#leases.values()) {
      if (!held.over || !all) continue;
      for (const call of held.running.values()) calls.push({ call, end: null });
      over.push({ id: held.lease.id, admitted: held.admitted });
    }
    for (const id of this.#unsure) over.push({ id, admitted: 0 });
    if (calls.length + over.length + asks.length === 0) return null;
    return { report: { calls, over, asks }, askedAtMs: nowMs, unheard: false };
  }

  /** A report was not answered. Gives how long none has been, ms. */
  failed(sent: SentReport, nowMs: number): number {
    sent.unheard = true;
    this.#failingSinceMs = Math.min(this.#failingSinceMs ?? nowMs, nowMs);
    return nowMs - this.#failingSinceMs;
  }

  /** The object has carried out the report. */
  confirmed({ report, askedAtMs, unheard }: SentReport, { leases }: ReportAnswer): void {
    this.#failingSinceMs = null;
    for (const { id } of report.over) this.#forget(id);
    const none = unheard ? undefined : null;
    for (const [index, ask] of report.asks.entries()) this.answered(ask, leases[index] ?? none, askedAtMs);
    this.#taken(report);
  }

  /** The report will have no answer: its ends were sent another way. */
  givenUp({ report }: SentReport): void {
    this.#failingSinceMs = null;
    for (const ask of report.asks) this.answered(ask, undefined, 0);
    for (const held of this.#leases.values()) held.over = true;
    this.#taken(report);
  }

  /** Forgets a lease that was returned. */
  #forget(id: CallId): void {
    this.#unsure.delete(id);
    const held = this.#leases.get(id);
    if (!held) return;
    this.#leases.delete(id);
    const key = this.#keyOf(held.lease.keyDigest);
    key.leases = key.leases.filter((one) => one !== held);
  }

  #taken(report: LeaseReport): void {
    for (const { call, end } of report.calls) {
      if (end === null) continue;
      this.#ended.get(call.callId)?.confirmed();
      this.#ended.delete(call.callId);
    }
  }

  /** One ask for each key that is hot and whose newest lease is half over or half used up. */
  #renewals(newId: NewId, nowMs: number): LeaseAsk[] {
    const asks: LeaseAsk[] = [];
    for (const [digest, key] of this.#keys) {
      const newest = key.leases.at(-1);
      if (!newest) continue;
      const { lease, left, over, askedAtMs } = newest;
      const fresh = nowMs - askedAtMs < lease.livesMs / 2;
      const plenty = left.requests > lease.slice.requests / 2 && left.nanoUsd >= lease.slice.nanoUsd / 2;
      if (!over && fresh && plenty) continue;
      const ask = this.ask(digest, newId, nowMs);
      if (ask) asks.push(ask);
    }
    return asks;
  }

  #keyOf(digest: KeyDigest): KeyState {
    const known = this.#keys.get(digest);
    if (known) return known;
    if (this.#keys.size >= MOST_KEYS) {
      for (const [other, { leases }] of this.#keys) if (leases.length === 0) this.#keys.delete(other);
    }
    const count = () => new TrailingCount(SECOND);
    const fresh: KeyState = { requests: count(), tokens: count(), nanoUsd: count(), leases: [], asked: null };
    this.#keys.set(digest, fresh);
    return fresh;
  }
}

function ratesLeft({ lease: { rates, slice }, left, admitted }: Held): Rates {
  const less = (rate: Rate, used: number): Rate => ({ ...rate, remaining: Math.max(0, rate.remaining - used) });
  return {
    ...(rates.requests && { requests: less(rates.requests, admitted) }),
    ...(rates.tokens && { tokens: less(rates.tokens, slice.tokens - left.tokens) }),
  };
}
