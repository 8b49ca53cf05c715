/**
 * Isolates with leases on one account, driven step by step: what they admit, lose, repeat and report late. The judge
 * keeps a list of all calls that were admitted, and asks nobody.
 */
import fc from "fast-check";
import type { AdmitRequest, LeasedCall, Settlement } from "../../src/core/account/hold.ts";
import type { LeaseAsk, LeaseReport, LeasingAdmission, ReportAnswer } from "../../src/core/account/lease.ts";
import { asId, type CallId, type KeyDigest } from "../../src/core/ids.ts";
import { LeaseHolder, type SentReport } from "../../src/core/leases/lease-holder.ts";

/** The account object as its isolates see it. */
export interface LeasedAccount {
  admit(request: AdmitRequest, ask?: LeaseAsk): Promise<LeasingAdmission>;
  settle(settlement: Settlement): Promise<unknown>;
  report(said: LeaseReport): Promise<ReportAnswer>;
}

/** What may happen. Numbers choose among what there is. */
export type Step =
  | { readonly do: "call"; readonly isolate: number; readonly key: number; readonly tokens: number }
  | { readonly do: "end"; readonly which: number; readonly percent: number }
  | { readonly do: "wait"; readonly ms: number }
  /** `lost`: the object did it, and the answer got lost. `unsaid`: it never arrived. */
  | { readonly do: "report"; readonly isolate: number; readonly fate: "heard" | "lost" | "unsaid" }
  /** All at once, out of turn; it may cross a report that was not answered. */
  | { readonly do: "return"; readonly isolate: number; readonly fate: "heard" | "lost" }
  | { readonly do: "again"; readonly which: number }
  | { readonly do: "crash"; readonly isolate: number }
  | { readonly do: "restart" };

const ISOLATES = 4;
const number = fc.nat({ max: 1_000 });
const isolate = fc.nat({ max: ISOLATES - 1 });

export const steps = (keys: number, length: number): fc.Arbitrary<Step[]> => {
  const call = fc.record({
    do: fc.constant("call" as const),
    isolate,
    key: fc.nat({ max: keys - 1 }),
    tokens: fc.integer({ min: 1, max: 40 }),
  });
  const end = fc.record({
    do: fc.constant("end" as const),
    which: number,
    percent: fc.constantFrom(0, 10, 50, 100, 130),
  });
  const wait = fc.record({ do: fc.constant("wait" as const), ms: fc.constantFrom(1, 50, 250, 400, 1_200, 10_000) });
  const fate = fc.constantFrom("heard" as const, "heard" as const, "lost" as const, "unsaid" as const);
  const report = fc.record({ do: fc.constant("report" as const), isolate, fate });
  const rare = fc.oneof(
    fc.record({
      do: fc.constant("return" as const),
      isolate,
      fate: fc.constantFrom("heard" as const, "lost" as const),
    }),
    fc.record({ do: fc.constant("again" as const), which: number }),
    fc.record({ do: fc.constant("crash" as const), isolate }),
    fc.record({ do: fc.constant("restart" as const) }),
  );
  // Bursts of one isolate and one key, so that keys become hot.
  const burst = fc
    .array(call, { minLength: 4, maxLength: 24 })
    .map((calls) => calls.map((one) => ({ ...one, isolate: calls[0]?.isolate ?? 0, key: calls[0]?.key ?? 0 })));
  const one = fc.oneof(
    { weight: 4, arbitrary: burst },
    ...[call, end, end, wait, report, report].map((arbitrary) => ({
      weight: 3,
      arbitrary: arbitrary.map((step) => [step as Step]),
    })),
    { weight: 1, arbitrary: rare.map((step) => [step as Step]) },
  );
  return fc.array(one, { minLength: 5, maxLength: length }).map((groups) => groups.flat());
};

/** A call that was admitted, by its isolate or by the object. */
export interface Served {
  readonly id: CallId;
  readonly isolate: number;
  readonly key: number;
  readonly atMs: number;
  readonly tokens: number;
  /** Used, once it has ended. */
  used: number | null;
  readonly leased: LeasedCall | null;
  /** Its isolate died before it reported how the call ended. */
  lost: boolean;
  /** The object has said that it knows its end. */
  confirmed: boolean;
}

interface Isolate {
  holder: LeaseHolder;
  sent: SentReport | null;
}

export class Fleet {
  readonly served: Served[] = [];
  readonly reports: LeaseReport[] = [];
  readonly refusals: { readonly atMs: number; readonly kind: string }[] = [];
  readonly #account: LeasedAccount;
  readonly #request: (id: string, key: number, tokens: number) => AdmitRequest;
  readonly #settlement: (id: string, tokens: number) => Settlement;
  readonly #now: () => number;
  readonly #prefix: string;
  readonly #isolates: Isolate[];
  #ids = 0;

  constructor(
    account: LeasedAccount,
    call: {
      request(id: string, key: number, tokens: number): AdmitRequest;
      settlement(id: string, tokens: number): Settlement;
      now(): number;
      prefix: string;
    },
  ) {
    this.#account = account;
    this.#request = call.request;
    this.#settlement = call.settlement;
    this.#now = call.now;
    this.#prefix = call.prefix;
    this.#isolates = Array.from({ length: ISOLATES }, () => ({ holder: new LeaseHolder(), sent: null }));
  }

  get idle(): boolean {
    return this.#isolates.every(({ holder, sent }) => holder.idle && sent === null);
  }

  #newId = (): CallId => asId<CallId>(`${this.#prefix}${++this.#ids}`);

  #isolate(index: number): Isolate {
    return this.#isolates[index % ISOLATES] as Isolate;
  }

  /** Sends a call into an isolate. Gives it if it was admitted. */
  async call(isolate: number, key: number, tokens: number): Promise<Served | null> {
    const { holder } = this.#isolate(isolate);
    const id = this.#newId();
    const request = this.#request(id, key, tokens);
    const made = { id, isolate, key, tokens, used: null, lost: false, confirmed: false };
    const here = holder.admit(request.keyDigest, request, this.#now());
    if (here) return this.#serve({ ...made, atMs: this.#now(), leased: here.call });
    const ask = holder.ask(request.keyDigest, this.#newId, this.#now());
    const askedAtMs = this.#now();
    const admission = await this.#account.admit(request, ask);
    if (ask) holder.answered(ask, admission.lease ?? null, askedAtMs);
    if (!admission.ok) {
      this.refusals.push({ atMs: this.#now(), kind: admission.refusal.kind });
      return null;
    }
    holder.admitted(request.keyDigest, admission.hold.amountNanoUsd, tokens, this.#now());
    return this.#serve({ ...made, atMs: this.#now(), leased: null });
  }

  /** Whether an isolate would admit a call of this key by itself. */
  admitsByItself(isolate: number, keyDigest: KeyDigest, key: number): boolean {
    const request = this.#request(this.#newId(), key, 1);
    return this.#isolate(isolate).holder.admit(keyDigest, request, this.#now()) !== null;
  }

  #serve(served: Served): Served {
    this.served.push(served);
    return served;
  }

  get running(): Served[] {
    return this.served.filter(({ used, lost }) => used === null && !lost);
  }

  async end(served: Served, used: number): Promise<void> {
    served.used = used;
    const said = this.#settlement(served.id, used);
    if (!served.leased) {
      await this.#account.settle(said);
      served.confirmed = true;
      return;
    }
    this.#isolate(served.isolate).holder.ended(served.leased, { kind: "settle", said }, () => {
      served.confirmed = true;
    });
  }

  /** A report that was not answered is repeated, unchanged. */
  async report(index: number, fate: "heard" | "lost" | "unsaid"): Promise<void> {
    const isolate = this.#isolate(index);
    isolate.sent ??= isolate.holder.report(this.#newId, this.#now());
    const { sent } = isolate;
    if (!sent) return;
    if (fate !== "heard") isolate.holder.failed(sent, this.#now());
    if (fate === "unsaid") return;
    this.reports.push(sent.report);
    const answer = await this.#account.report(sent.report);
    if (fate === "lost") return;
    isolate.sent = null;
    isolate.holder.confirmed(sent, answer);
  }

  async returnAll(index: number, fate: "heard" | "lost"): Promise<void> {
    const { holder } = this.#isolate(index);
    const sent = holder.returnAll(this.#now());
    if (!sent) return;
    this.reports.push(sent.report);
    const answer = await this.#account.report(sent.report);
    if (fate === "heard") holder.confirmed(sent, answer);
  }

  crash(index: number): void {
    for (const one of this.served) {
      if (one.isolate === index % ISOLATES && (one.leased ? !one.confirmed : one.used === null)) one.lost = true;
    }
    this.#isolates[index % ISOLATES] = { holder: new LeaseHolder(), sent: null };
  }

  async take(step: Step, advance: (ms: number) => void, restart: () => Promise<void>): Promise<void> {
    switch (step.do) {
      case "call":
        await this.call(step.isolate, step.key, step.tokens);
        return;
      case "end": {
        const one = this.running[step.which % Math.max(1, this.running.length)];
        if (one) await this.end(one, Math.floor((one.tokens * step.percent) / 100));
        return;
      }
      case "wait":
        advance(step.ms);
        return;
      case "report":
        await this.report(step.isolate, step.fate);
        return;
      case "return":
        await this.returnAll(step.isolate, step.fate);
        return;
      case "again": {
        const old = this.reports[step.which % Math.max(1, this.reports.length)];
        if (old) await this.#account.report(old);
        return;
      }
      case "crash":
        this.crash(step.isolate);
        return;
      case "restart":
        await restart();
        return;
    }
  }

  /** Ends what runs, and lets every isolate report all that it has. */
  async finish(advance: (ms: number) => void): Promise<void> {
    for (const one of this.running) await this.end(one, one.tokens);
    for (let round = 0; round < 12 && !this.idle; round++) {
      for (let index = 0; index < ISOLATES; index++) await this.report(index, "heard");
      advance(250);
    }
  }
}
