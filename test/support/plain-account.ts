/**
 * An account in a few lines, with limits at one level: what the account object does with leases, by the rules of core,
 * without rows and without waits.
 */
import { decideAdmission } from "../../src/core/account/admission.ts";
import type { AdmitRequest, LeasedCall, Settlement } from "../../src/core/account/hold.ts";
import type {
  Lease,
  LeaseAsk,
  LeaseReport,
  LeasingAdmission,
  ReportAnswer,
  Slice,
} from "../../src/core/account/lease.ts";
import { splitCharge } from "../../src/core/account/ledger.ts";
import type { LevelUse } from "../../src/core/account/limits.ts";
import { type Limits, NO_LIMITS } from "../../src/core/account/tenant.ts";
import { MINUTE, TrailingCount } from "../../src/core/account/trailing-count.ts";
import { asId, type CallId, type KeyId } from "../../src/core/ids.ts";
import { countedAtMs, covers, givenBack, LEASE_MS, roomIn, sliceOf, without } from "../../src/core/leases/slice.ts";
import { costOf, NO_PLAN, tenantPrices } from "../../src/core/pricing/prices.ts";
import { countedTokens } from "../../src/core/pricing/usage.ts";
import type { LeasedAccount } from "./lease-fleet.ts";

interface Hold extends Pick<LeasedCall, "amountNanoUsd" | "countedTokens" | "prices"> {
  readonly atMs: number;
  open: boolean;
}
interface Out {
  slice: Slice;
  calls: number;
  readonly atMs: number;
}

const KEY = asId<KeyId>("key");

export class PlainAccount implements LeasedAccount {
  readonly charges = new Map<CallId, number>();
  readonly leases = new Map<CallId, Out>();
  readonly #holds = new Map<CallId, Hold>();
  readonly #requests = new TrailingCount(MINUTE);
  readonly #tokens = new TrailingCount(MINUTE);
  readonly #limits: Limits;
  readonly #balanceNanoUsd: number;
  readonly #now: () => number;
  granted = 0;

  constructor(balanceNanoUsd: number, limits: Partial<Limits>, now: () => number) {
    this.#balanceNanoUsd = balanceNanoUsd;
    this.#limits = { ...NO_LIMITS, ...limits };
    this.#now = now;
  }

  get #sums(): Slice {
    const all = [...this.leases.values()].map(({ slice }) => slice);
    const of = (sort: keyof Slice) => all.reduce((sum, slice) => sum + slice[sort], 0);
    return { requests: of("requests"), tokens: of("tokens"), slots: of("slots"), nanoUsd: of("nanoUsd") };
  }

  #facts(): { levels: LevelUse[]; money: { balanceNanoUsd: number; heldNanoUsd: number; floorNanoUsd: number } } {
    const leased = this.#sums;
    const open = [...this.#holds.values()].filter((hold) => hold.open);
    const counts = { requests: this.#requests, tokens: this.#tokens, dayRequests: null };
    const spent = [...this.charges.values()].reduce((sum, charge) => sum + charge, 0);
    const held = open.reduce((sum, hold) => sum + hold.amountNanoUsd, 0) + leased.nanoUsd;
    return {
      levels: [{ level: "account", limits: this.#limits, ...counts, slots: open.length + leased.slots, leased }],
      money: { balanceNanoUsd: this.#balanceNanoUsd - spent, heldNanoUsd: held, floorNanoUsd: 0 },
    };
  }

  /** What balance less holds and leases leaves. */
  get leftNanoUsd(): number {
    const { money } = this.#facts();
    return money.balanceNanoUsd - money.heldNanoUsd;
  }

  async admit(request: AdmitRequest, ask?: LeaseAsk): Promise<LeasingAdmission> {
    const nowMs = this.#now();
    const { callId, model, bound, row } = request;
    const { prices } = tenantPrices(row, NO_PLAN, model);
    const decision = decideAdmission({ model, bound, prices, free: false, ...this.#facts(), budgets: [], nowMs });
    if (!decision.ok) return decision;
    this.#take(callId, { ...decision.grant, prices, atMs: nowMs, open: true });
    const { amountNanoUsd, outputCap } = decision.grant;
    const lives = { livesMs: 120_000, longestCallMs: 3_600_000, onDisconnect: "cancel" as const };
    const hold = { callId, keyId: KEY, amountNanoUsd, outputCap, ...lives };
    return { ok: true, owned: [], rates: {}, hold, lease: ask ? this.#grant(ask, nowMs) : null };
  }

  #take(id: CallId, hold: Hold): void {
    this.#holds.set(id, hold);
    this.#requests.add(hold.atMs, 1);
    this.#tokens.add(hold.atMs, hold.countedTokens);
  }

  #grant(ask: LeaseAsk, nowMs: number): Lease | null {
    const { levels, money } = this.#facts();
    const slice = this.leases.get(ask.id)?.slice ?? sliceOf(ask, roomIn(levels, [], money, nowMs), 1_000_000_000);
    if (!slice) return null;
    if (!this.leases.has(ask.id)) {
      this.leases.set(ask.id, { slice, calls: 0, atMs: nowMs });
      this.granted += 1;
    }
    const key = { scopes: ["inference" as const], role: "member" as const, models: null };
    const holds = { livesMs: 120_000, longestCallMs: 3_600_000, onDisconnect: "cancel" as const };
    const its = { id: ask.id, keyId: KEY, keyDigest: ask.keyDigest, livesMs: LEASE_MS };
    return { ...its, slice, key, plan: NO_PLAN, holds, rates: {} };
  }

  async settle({ callId, reading }: Settlement): Promise<void> {
    const hold = this.#holds.get(callId);
    if (!hold?.open) return;
    hold.open = false;
    this.charges.set(callId, splitCharge(costOf(reading.usage, hold.prices), hold.amountNanoUsd).chargedNanoUsd);
    this.#tokens.add(hold.atMs, countedTokens(reading.usage) - hold.countedTokens);
  }

  async report({ calls, over, asks }: LeaseReport): Promise<ReportAnswer> {
    const nowMs = this.#now();
    for (const { call, end } of calls) {
      const lease = this.leases.get(call.lease);
      const carved = !this.#holds.has(call.callId);
      if (carved) {
        if (!lease || !covers(lease.slice, call)) continue;
        lease.slice = without(lease.slice, call);
        lease.calls += 1;
        this.#take(call.callId, { ...call, atMs: countedAtMs(lease.atMs, call.offsetMs, nowMs), open: true });
      }
      if (end?.kind !== "settle") continue;
      await this.settle(end.said);
      if (!carved || !lease) continue;
      const { usage } = end.said.reading;
      const { chargedNanoUsd } = splitCharge(costOf(usage, call.prices), call.amountNanoUsd);
      lease.slice = givenBack(lease.slice, call, { chargedNanoUsd, tokens: countedTokens(usage) });
    }
    for (const { id, admitted } of over) if (this.leases.get(id)?.calls === admitted) this.leases.delete(id);
    return { leases: asks.map((ask) => this.#grant(ask, nowMs)) };
  }
}
