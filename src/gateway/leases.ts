/**
 * Local admission: a call of a hot key is admitted out of a lease, in this isolate, without asking its account object.
 * What a lease does not cover is asked of the object as ever, by `admit.ts`; every refusal is the object's.
 *
 * The ends of leased calls go to the object together, in reports. One call of an account sends them, in the time that
 * the platform gives its background work; when it is gone, the next one does. `core/leases/` has the rules.
 */
import { type Admission, type AdmitRequest, boundUsage, type CallEnd, type LeasedCall } from "../core/account/hold.ts";
import type { LeaseAsk, LeasingAdmission } from "../core/account/lease.ts";
import type { AccountNumber } from "../core/ids.ts";
import { type LeaseHolder, REPORT_MS, type SentReport } from "../core/leases/lease-holder.ts";
import { countedTokens } from "../core/pricing/usage.ts";
import { askOnce, queue, tell } from "./account-client.ts";
import type { AdmittedCall, RoutedCall } from "./call.ts";
import type { Ports } from "./ports.ts";
import { retry, settledWithin } from "./wait.ts";

/** Larger bodies are asked of the object. */
const MOST_BYTES = 65_536;
/**
 * How long reports are repeated, ms, whoever sends them: a sender that takes over does not begin anew. The platform
 * stops background work 30 s after the response ends.
 */
const REPEATED_FOR_MS = 15_000;
const PAUSE_MS = 250;
/** How long a reader waits for what is not reported yet, ms. */
const RETURNED_WITHIN_MS = 1_000;
/** How often a call that waits for its confirmation checks that a sender is at work, ms. */
const LOOK_EVERY_MS = 6_500;

/** What a lease may admit: calls without an id, a job, an hour of an instance, a limit of their row or a repeat key. */
const mayBeLeased = ({ endpoint, call, route, idempotency }: RoutedCall, request: AdmitRequest): boolean =>
  endpoint.flow.kind === "forwarded" &&
  endpoint.retry === "safe" &&
  endpoint.creates === null &&
  request.limits.length === 0 &&
  request.owned.length === 0 &&
  !request.job &&
  !route.hourly &&
  !idempotency &&
  call.payload.countedBytes <= MOST_BYTES;

/** A call's way to its account's leases; null: it has none, and is asked of the object. */
export function leasesFor(routed: RoutedCall, request: AdmitRequest, ports: Ports): CallLeases | null {
  const holder = mayBeLeased(routed, request) && ports.leases?.of(routed.caller.number);
  return holder ? new CallLeases(holder, routed.caller.number, request, ports) : null;
}

class CallLeases {
  readonly #holder: LeaseHolder;
  readonly #account: AccountNumber;
  readonly #request: AdmitRequest;
  readonly #ports: Ports;

  constructor(holder: LeaseHolder, account: AccountNumber, request: AdmitRequest, ports: Ports) {
    this.#holder = holder;
    this.#account = account;
    this.#request = request;
    this.#ports = ports;
  }

  /** Null: the object is asked. */
  admit(): (Admission & { ok: true; leased: LeasedCall }) | null {
    const found = this.#holder.admit(this.#request.keyDigest, this.#request, this.#ports.now());
    if (!found) return null;
    keepSending(this.#holder, this.#account, this.#ports);
    const { call: leased, lease, rates } = found;
    const { callId, amountNanoUsd, outputCap } = leased;
    const hold = { ...lease.holds, callId, keyId: lease.keyId, amountNanoUsd, outputCap };
    return { ok: true, hold, rates, owned: [], leased };
  }

  ask(): LeaseAsk | undefined {
    return this.#holder.ask(this.#request.keyDigest, this.#ports.newCallId, this.#ports.now());
  }

  /** The object has answered; `admission` is undefined where it has not. */
  answered(ask: LeaseAsk | undefined, admission: LeasingAdmission | undefined, askedAtMs: number): void {
    if (ask) this.#holder.answered(ask, admission ? (admission.lease ?? null) : undefined, askedAtMs);
    if (ask && !this.#holder.idle) keepSending(this.#holder, this.#account, this.#ports);
    if (!admission?.ok) return;
    const { bound, keyDigest } = this.#request;
    const tokens = countedTokens(boundUsage(bound, admission.hold.outputCap));
    this.#holder.admitted(keyDigest, admission.hold.amountNanoUsd, tokens, this.#ports.now());
  }
}

/** Tells the object how an admitted call ended. Resolves when the object knows, or the queue does. Never rejects. */
export async function tellEnd(admitted: AdmittedCall, end: CallEnd, sinceMs: number, ports: Ports): Promise<void> {
  const { leased, caller } = admitted;
  const holder = leased && ports.leases?.of(caller.number);
  if (!holder) return tell(caller.number, end, sinceMs, ports);
  const { promise: confirmed, resolve } = Promise.withResolvers<void>();
  holder.ended(leased, end, resolve);
  do keepSending(holder, caller.number, ports);
  while (!(await settledWithin(confirmed, LOOK_EVERY_MS, ports.after)));
}

/**
 * For whoever reads or changes an account: tells its object at once what was admitted here, and returns what this
 * isolate has of it. Then the calls that this isolate has answered are in the books. Never rejects: what could not be
 * told is in the next report.
 */
export async function returnLeases(
  account: AccountNumber,
  ports: Pick<Ports, "account" | "leases" | "now">,
): Promise<void> {
  const holder = ports.leases?.known(account);
  const sent = holder?.returnAll(ports.now());
  if (!holder || !sent) return;
  const answered = askOnce(ports, account, (object) => object.report(sent.report), RETURNED_WITHIN_MS);
  await answered.then((answer) => holder.confirmed(sent, answer)).catch(() => undefined);
}

/** Sends reports in the background of this call, unless another call does. */
function keepSending(holder: LeaseHolder, account: AccountNumber, ports: Ports): void {
  if (!holder.isSent(ports.now())) ports.waitUntil(send(holder, account, ports));
}

async function send(holder: LeaseHolder, account: AccountNumber, ports: Ports): Promise<void> {
  const number = holder.beginSending(ports.now());
  do {
    await new Promise((resume) => setTimeout(resume, REPORT_MS));
    const sent = holder.sends(number, ports.now()) ? holder.report(ports.newCallId, ports.now()) : null;
    if (sent) await sendReport(sent, holder, account, number, ports);
  } while (holder.sends(number, ports.now()));
}

/** Sends a report, unchanged, until it is answered. If it never is, its ends go to the queue one by one. */
async function sendReport(
  sent: SentReport,
  holder: LeaseHolder,
  account: AccountNumber,
  number: number,
  ports: Ports,
): Promise<void> {
  const { calls } = sent.report;
  const again = (error: unknown) => {
    const last = holder.failed(sent, ports.now()) > REPEATED_FOR_MS || !holder.sends(number, ports.now());
    ports.log({ event: "report_failed", account, calls: calls.length, error: String(error), last });
    return last ? null : PAUSE_MS;
  };
  try {
    const answer = await retry(() => askOnce(ports, account, (object) => object.report(sent.report)), again);
    holder.confirmed(sent, answer);
  } catch {
    // The sender that took over reports these calls too.
    if (!holder.sends(number, ports.now())) return;
    const endedAtMs = ports.now();
    for (const { call, end } of calls) if (end) await queue({ account, endedAtMs, end, leased: call }, ports);
    holder.givenUp(sent);
  }
}
