/**
 * A model of the account object: everything recomputed from a plain list of calls, with no index, window or mirror.
 * Slow and plain on purpose; the object must answer what it answers.
 */
import type { BudgetDuration, Limits } from "../../../src/core/account/tenant.ts";

export type Level = "key" | "team" | "account";
type Party = { readonly key: string; readonly team: string };

interface ModelCall extends Party {
  readonly id: string;
  readonly admittedAtMs: number;
  readonly amount: number;
  readonly price: number;
  /** The plan's, at admission. */
  readonly markup: number;
  expiresAtMs: number;
  tokens: number;
  charged: number;
  endedAtMs: number;
  /** Tokens that the last renewal reported. */
  reported: number | null;
  /** Charged at expiry, and how far a late end changed that. */
  corrected: boolean;
  late: { readonly atMs: number; readonly amount: number } | null;
  state: "open" | "settled" | "released" | "expired";
}

export interface Ask extends Party {
  readonly id: string;
  readonly input: number;
  /** Null: no output; else a cap that may be lowered. */
  readonly cap: number | null;
  /** Nano-USD per token. */
  readonly price: number;
}

export class AccountModel {
  readonly calls: ModelCall[] = [];
  readonly limits = new Map<string, Limits>();
  /** Keys, teams and the account. */
  readonly blocked = new Set<string>();
  /** Revoked keys and deleted teams: for good. */
  readonly gone = new Set<string>();
  balance = 0;
  /** How far down balance less holds may go. */
  floor = 0;
  /** Percent on top of the cost. */
  markup = 0;

  /** `ok <amount> <cap>`, or the refusal in words. */
  admit(ask: Ask, nowMs: number, ttlMs: number): string {
    this.expire(nowMs);
    if ([ask.key, ask.team, "account"].some((one) => this.blocked.has(one) || this.gone.has(one))) return "bad_key";
    const least = ask.cap === null ? null : Math.min(16, ask.cap);
    const refusal = this.#refusal(ask, least, nowMs);
    if (refusal) return refusal;
    let cap = least;
    while (cap !== null && ask.cap !== null && cap < ask.cap && !this.#refusal(ask, cap + 1, nowMs)) cap++;
    const tokens = ask.input + (cap ?? 0);
    const { id, key, team, price } = ask;
    const { markup } = this;
    const amount = costOf(tokens, { price, markup });
    const times = { admittedAtMs: nowMs, expiresAtMs: nowMs + ttlMs, endedAtMs: 0 };
    const untold = { reported: null, corrected: false, late: null };
    this.calls.push({ id, key, team, price, markup, amount, tokens, ...times, ...untold, charged: 0, state: "open" });
    return `ok ${amount} ${cap}`;
  }

  settle(id: string, used: number, nowMs: number): string {
    const call = this.calls.find((each) => each.id === id);
    if (!call) return "unknown 0";
    if (call.state === "open") {
      this.#end(call, "settled", nowMs);
      call.charged = Math.min(costOf(used, call), call.amount);
      call.tokens = used;
      this.balance -= call.charged;
    } else if (call.state === "expired" && !call.corrected) this.#settleLate(call, used, nowMs);
    return `${call.state} ${call.charged + (call.late?.amount ?? 0)}`;
  }

  /** `live`, or `ended` where it lives no longer. */
  renew(id: string, reported: number | null, nowMs: number, ttlMs: number, longestMs: number): string {
    const call = this.calls.find((each) => each.id === id);
    if (call?.state !== "open") return "ended";
    call.expiresAtMs = Math.max(call.expiresAtMs, Math.min(nowMs + ttlMs, call.admittedAtMs + longestMs));
    call.reported = reported ?? call.reported;
    return "live";
  }

  release(id: string, nowMs: number): string {
    const call = this.calls.find((each) => each.id === id);
    if (!call) return "unknown 0";
    if (call.state === "open") {
      this.#end(call, "released", nowMs);
      call.tokens = 0;
    } else if (call.state === "expired") call.corrected = true;
    return `${call.state} ${call.charged + (call.late?.amount ?? 0)}`;
  }

  expire(nowMs: number): void {
    for (const call of this.calls) {
      if (call.state !== "open" || call.expiresAtMs > nowMs) continue;
      this.#end(call, "expired", nowMs);
      call.charged = Math.min(costOf(call.reported ?? 0, call), call.amount);
      this.balance -= call.charged;
    }
  }

  /** What expired calls came to and nobody pays. */
  lost(): number {
    return sum(
      this.calls.map((call) =>
        call.state !== "expired" ? 0 : call.corrected ? this.#unpaid(call) : call.amount - call.charged,
      ),
    );
  }

  credit(amount: number): string {
    if (amount < 0 && this.balance - this.held() + amount < this.floor) return "out_of_range";
    this.balance += amount;
    return "booked";
  }

  held(of: (call: ModelCall) => boolean = () => true): number {
    return sum(this.calls.filter((call) => call.state === "open" && of(call)).map((call) => call.amount));
  }

  readonly #unpaidOf = new Map<string, number>();
  #unpaid(call: ModelCall): number {
    return this.#unpaidOf.get(call.id) ?? 0;
  }

  /**
   * To min(actual, held): upwards by what balance and budgets leave now, downwards in the window of the first charge.
   */
  #settleLate(call: ModelCall, used: number, nowMs: number): void {
    const due = Math.min(costOf(used, call), call.amount);
    const budgets = this.#levels(call).map(([, mine, limits]) => this.#budgetRoom(mine, limits, nowMs));
    const room = Math.max(0, Math.min(this.balance - this.held() - this.floor, ...budgets));
    const amount = Math.min(due - call.charged, room);
    this.balance -= amount;
    call.late = { atMs: amount < 0 ? call.endedAtMs : nowMs, amount };
    call.corrected = true;
    this.#unpaidOf.set(call.id, due - call.charged - amount);
  }

  #levels(party: Party): [Level, (call: Party) => boolean, Limits | undefined][] {
    return [
      ["key", (call) => call.key === party.key, this.limits.get(party.key)],
      ["team", (call) => call.team === party.team, this.limits.get(party.team)],
      ["account", () => true, this.limits.get("account")],
    ];
  }

  #budgetRoom(mine: (call: Party) => boolean, limits: Limits | undefined, nowMs: number): number {
    if (!limits || limits.maxBudgetNanoUsd === null) return Number.POSITIVE_INFINITY;
    const startMs = windowStart(limits.budgetDuration, nowMs);
    const own = this.calls.filter(mine);
    const first = sum(own.filter((call) => call.endedAtMs >= startMs).map((call) => call.charged));
    const late = sum(own.map(({ late }) => (late && late.atMs >= startMs ? late.amount : 0)));
    return limits.maxBudgetNanoUsd - first - late - this.held(mine);
  }

  #end(call: ModelCall, state: ModelCall["state"], nowMs: number): void {
    call.state = state;
    call.endedAtMs = nowMs;
  }

  /** The first rule that the call would break. */
  #refusal(ask: Ask, cap: number | null, nowMs: number): string | undefined {
    const tokens = ask.input + (cap ?? 0);
    const amount = costOf(tokens, { price: ask.price, markup: this.markup });
    const levels = this.#levels(ask);
    for (const [level, mine, limits] of levels) {
      if (!limits) continue;
      const own = this.calls.filter(mine);
      const minute = own.filter((call) => counts(call.admittedAtMs, nowMs, 1_000, 60_000));
      const day = own.filter((call) => counts(call.admittedAtMs, nowMs, 600_000, 86_400_000));
      const uses: [keyof Limits, number, number][] = [
        ["rpm_limit", minute.length, 1],
        ["tpm_limit", sum(minute.map((call) => call.tokens)), tokens],
        ["rpd_limit", day.length, 1],
        ["max_parallel_requests", own.filter((call) => call.state === "open").length, 1],
      ];
      for (const [name, used, more] of uses) {
        const limit = limits[name] as number | null;
        if (limit !== null && more > 0 && used + more > limit) return `${level} ${name}`;
      }
    }
    for (const [level, mine, limits] of levels) {
      if (amount > 0 && amount > this.#budgetRoom(mine, limits, nowMs)) return `${level} budget`;
    }
    if (amount > 0 && this.balance - this.held() - amount < this.floor) return "no_credit";
    return undefined;
  }
}

/** Whether a call still counts: its bucket leaves when all of it is older than the window. */
const counts = (atMs: number, nowMs: number, bucketMs: number, spanMs: number): boolean =>
  Math.floor(atMs / bucketMs) * bucketMs + bucketMs + spanMs > nowMs;

function windowStart(duration: BudgetDuration, nowMs: number): number {
  const date = new Date(nowMs);
  const [year, month, day] = [date.getUTCFullYear(), date.getUTCMonth(), date.getUTCDate()];
  if (duration === "day") return Date.UTC(year, month, day);
  if (duration === "week") return Date.UTC(year, month, day - ((date.getUTCDay() + 6) % 7));
  return duration === "month" ? Date.UTC(year, month, 1) : 0;
}

/** Rounded up to the nano-USD, once. */
const costOf = (tokens: number, at: { price: number; markup: number }): number =>
  Math.ceil((tokens * at.price * (100 + at.markup)) / 100);

const sum = (amounts: readonly number[]): number => amounts.reduce((total, amount) => total + amount, 0);
