/**
 * Compute of one account: its machines, storage, images and SSH keys, their money and what is asked of upstream for
 * them.
 *
 * Algorithm. A call is decided and stored in one transaction (decide.ts); what is to be sent goes to the broker with no
 * transaction open; the answer is applied in another. What a row still wants is sent again by the alarm until upstream
 * shows it. Lists that the broker reads come in by `observed`.
 *
 * Promises. A row and its hold are durable before anything is sent. A create is sent once. Turns of money run before
 * whatever reads money. Decisions are pure functions of core/compute; this folder stores them and carries them out.
 */
import type { ComputeAnswer, ComputeRequest, ComputeState } from "../../../core/compute/calls.ts";
import { stopMachine } from "../../../core/compute/changes.ts";
import type { BrokerPort, ControlAnswer, Observation } from "../../../core/compute/control.ts";
import { controlOf, launchKeyOf } from "../../../core/compute/control-calls.ts";
import { type AnyCall, isShortOfMoney, refuse } from "../../../core/compute/facts.ts";
import type { ComputeRefusal } from "../../../core/compute/refusals.ts";
import { isMachine, isStorage, type ResourceKind, type ResourceRow } from "../../../core/compute/resource.ts";
import { nextOf, rowAnswered, rowSent } from "../../../core/compute/rows.ts";
import { takeBackStorage } from "../../../core/compute/storage-life.ts";
import { endStorage } from "../../../core/compute/storage-rules.ts";
import { readName } from "../../../core/compute/upstream-documents.ts";
import { COMPUTE_ROWS } from "../../../core/endpoints/compute/compute-table.ts";
import { asId, type CallId } from "../../../core/ids.ts";
import { LEASE_MS } from "../../../core/leases/slice.ts";
import { refused } from "../../../core/outcome.ts";
import { log } from "../../log.ts";
import { within } from "../../wait.ts";
import type { LeaseWaits } from "../lease-waits.ts";
import type { AccountState } from "../state.ts";
import type { Store } from "../store.ts";
import type { Placed } from "../tables/resources.ts";
import { admitCompute, decideCompute, type Repeatable } from "./decide.ts";
import { inOwnWords, standing } from "./image-calls.ts";
import { saveLaunchKey } from "./launch-keys.ts";
import { offeredFor } from "./offers.ts";
import { store, storeListed, turnDue, withPaidHours } from "./resource-rows.ts";
import { Watching } from "./watching.ts";

/** How long a caller waits for upstream; then it gets what is known, ms. The gateway gives up a little later. */
const ANSWER_WITHIN_MS = 25_000;
/** How much of it a call may wait for what upstream offers, before anything is decided, ms. */
const OFFERED_WITHIN_MS = 15_000;
/** What is left for upstream's answer at least, ms. */
const LEAST_WAIT_MS = 5_000;
/** Rows that one alarm sends something for. */
const SENT_PER_ALARM = 32;
/** How long an alarm waits for its calls, ms. Then they go on without it: others' turns are due. */
const ALARM_WAITS_MS = 1_000;

const NEVER_OPENED = refused({ kind: "bad_key", why: "unknown" });

export class Compute {
  readonly #store: Store;
  readonly #leaseWaits: LeaseWaits;
  readonly #broker: (upstream: string) => BrokerPort;
  readonly #watching: Watching;
  /** Rows with a call under way: one at a time each. */
  readonly #busy = new Set<number>();

  constructor(store: Store, leaseWaits: LeaseWaits, broker: (upstream: string) => BrokerPort) {
    this.#store = store;
    this.#leaseWaits = leaseWaits;
    this.#broker = broker;
    this.#watching = new Watching(store, broker);
  }

  async call(request: ComputeRequest): Promise<ComputeAnswer> {
    const untilMs = Date.now() + ANSWER_WITHIN_MS;
    const endpoint = COMPUTE_ROWS.find(({ id }) => id === request.endpoint);
    if (!endpoint) throw new Error(`no row of the compute table is ${request.endpoint}`);
    const admission = this.#store.transact((state, nowMs) => admitCompute(state, request, endpoint, nowMs));
    if (!admission) return NEVER_OPENED;
    if (!admission.ok) return admission;
    const { admitted } = admission;
    const { upstream } = admitted;
    const copied = request.sharedUpstreams.includes(upstream);
    const asked = offeredFor(this.#broker(upstream), upstream, endpoint, copied);
    const offered = await within(OFFERED_WITHIN_MS, asked, undefined);
    if (!offered) return refuse({ kind: "unavailable", retryAfterMs: null });
    const decision = await this.#leaseWaits.decided(
      () => this.#store.transact((state, nowMs) => decideCompute(state, request, endpoint, admitted, offered, nowMs)),
      (decided) => decided?.ok === false && isShortOfMoney(decided.refusal),
    );
    if (decision === null) return refused({ kind: "busy", retryAfterMs: LEASE_MS });
    if (!decision) return NEVER_OPENED;
    if (!decision.ok) return decision;
    const { answer, send } = decision.decided;
    if (!send) {
      void this.#watching.nudge(answer.rows);
      return answer;
    }
    const tenants = { shared: endpoint.seat === null ? null : offered.shared, repeat: send.repeat };
    const sending = this.#send(send.placed, send.call, tenants);
    // The waiting is given up, not the call: the row answers as it stands.
    const leftMs = Math.min(Math.max(untilMs - Date.now(), LEAST_WAIT_MS), ANSWER_WITHIN_MS);
    const refusal = await within(leftMs, sending, null);
    void this.#watching.update();
    if (refusal) return refuse(refusal);
    const row = this.#store.transact((state, nowMs) => standing(state, send, nowMs)) ?? send.placed.row;
    if (row === "unanswered") return refuse({ kind: "unanswered" });
    return { ...answer, rows: [row, ...answer.rows.slice(1)] };
  }

  /** A list that the broker read. Gives the tags that no row has: a backup was restored, or another state. */
  async observed({ upstream, kind, documents, absent, askedAtMs }: Observation): Promise<readonly string[]> {
    const tags = documents.flatMap(({ document }) => readName(document) ?? []);
    const unknown = this.#store.transact((state, nowMs) => {
      turnDue(state, nowMs);
      for (const { document, sameUntilMs } of documents) {
        const tag = readName(document);
        const placed = tag && ownRow(state, tag, upstream, kind);
        if (!placed) continue;
        const row = storeListed(state, placed, { document, sameUntilMs }, askedAtMs, nowMs);
        if (row.create === "done") saveLaunchKey(state, placed.row, { ...placed, row }, nowMs);
      }
      for (const { tag, sameUntilMs } of absent) {
        const placed = ownRow(state, tag, upstream, kind);
        if (placed) storeListed(state, placed, { document: null, sameUntilMs }, askedAtMs, nowMs);
      }
      return tags.filter((tag) => state.resources.byTag(tag)?.upstream !== upstream);
    });
    await this.#watching.update();
    return unknown ?? tags;
  }

  /** The alarm's part: turns that are due, then what rows want of upstream. */
  async runDue(): Promise<void> {
    const due = this.#store.transact((state, nowMs) => {
      turnDue(state, nowMs);
      return state.resources.due(nowMs, SENT_PER_ALARM + this.#busy.size);
    });
    const free = (due ?? []).filter(({ row }) => !this.#busy.has(row.id)).slice(0, SENT_PER_ALARM);
    const sent = Promise.all(free.map(({ row }) => this.#sendNext(row.id)));
    const logged = sent.catch((error) => log({ event: "compute_alarm_failed", error: String(error) }));
    await within(ALARM_WAITS_MS, logged, undefined);
    await this.#watching.update();
  }

  async #sendNext(id: number): Promise<void> {
    const wanted = this.#store.transact((state, nowMs) => {
      const placed = state.resources.find(id);
      const call = placed && nextOf(placed.row, nowMs);
      if (!placed || call?.do !== "send") return undefined;
      const row = store(state, { ...placed, row: rowSent(placed.row, call.call, nowMs) }, [], nowMs);
      return { placed: { ...placed, row }, call: call.call };
    });
    if (wanted) await this.#send(wanted.placed, wanted.call);
  }

  async state(): Promise<ComputeState | undefined> {
    return this.#store.transact((state, nowMs) => {
      turnDue(state, nowMs);
      const upstream = state.tenants.account().computeUpstream;
      const inference = state.inference.live();
      return {
        upstream,
        inference,
        rows: state.resources.live().map(({ upstream: at, row }) => ({ upstream: at, row })),
      };
    });
  }

  /** The operator's stop of one or of all that live. */
  async stop(id: number | null): Promise<readonly number[] | undefined> {
    const stopped = this.#store.transact((state, nowMs) => {
      turnDue(state, nowMs);
      const live = state.resources.live().filter(({ row }) => id === null || row.id === id);
      return live.flatMap((placed) => {
        const end = stopOf(placed.row, id, nowMs);
        if (!end) return [];
        const { row, call } = end;
        if (row === placed.row) return [];
        const stored = store(state, { ...placed, row }, [], nowMs);
        return [{ placed: { ...placed, row: stored }, call }];
      });
    });
    if (!stopped) return undefined;
    // Sent in the background: what is not taken now is repeated by the alarm.
    for (const { placed, call } of stopped) if (call) void this.#send(placed, call);
    void this.#watching.update();
    return stopped.map(({ placed }) => placed.row.id);
  }

  /** Sends a call and applies its answer. Never rejects: what is lost is found again by lists and repeats. */
  async #send({ upstream, row }: Placed, call: AnyCall, of: Tenants = ITS_OWN): Promise<ComputeRefusal | null> {
    this.#busy.add(row.id);
    try {
      const answer = await this.#ask(upstream, row, call, of.shared);
      const { refusal, follow } = this.#apply(row.id, call, answer, of.repeat);
      if (!follow) return refusal;
      return this.#apply(row.id, follow, await this.#ask(upstream, row, follow), of.repeat).refusal;
    } catch (error) {
      log({ event: "compute_answer_failed", resource: row.id, verb: call.verb, error: String(error) });
      return null;
    } finally {
      this.#busy.delete(row.id);
    }
  }

  async #ask(upstream: string, row: ResourceRow, call: AnyCall, shared: Shared = null): Promise<ControlAnswer> {
    const account = this.#store.transact((state) => state.tenants.account().number);
    if (account === undefined) throw new Error("the account was never opened");
    const sentAtMs = Date.now();
    try {
      const callId = asId<CallId>(crypto.randomUUID());
      const terms = shared === null ? null : { shared, launchKey: shared ? launchKeyOf(row, call) : null };
      return await this.#broker(upstream).send(upstream, { account, callId, ...controlOf(row, call), terms });
    } catch (error) {
      // The broker may have sent it before it was lost.
      log({ event: "broker_lost", upstream, resource: row.id, verb: call.verb, error: String(error) });
      return { kind: "unknown", sentAtMs };
    }
  }

  #apply(id: number, call: AnyCall, answer: ControlAnswer, repeat: Repeatable | null): Applied {
    return (
      this.#store.transact((state, nowMs) => {
        turnDue(state, nowMs);
        const found = state.resources.find(id);
        if (!found) return NOTHING_APPLIED;
        const shown = answer.kind === "answered" && answer.status < 300 ? answer : null;
        const placed = shown ? withPaidHours(state, found, shown.body, shown.sentAtMs, nowMs) : found;
        const { row, acts, refusal, follow = null } = rowAnswered(placed.row, call, answer, nowMs, state.lengths);
        store(state, { ...placed, row }, acts, nowMs);
        if (call.verb === "create") saveLaunchKey(state, placed.row, { ...placed, row }, nowMs);
        if (row.create === "refused") takeBackNew(state, id, nowMs);
        if (refusal && repeat) state.resources.forgetRepeatable(repeat.keyId, repeat.ref);
        return { refusal: refusal && inOwnWords(state, row, refusal), follow };
      }) ?? NOTHING_APPLIED
    );
  }
}

/** What the decision took the upstream for; null: it does not depend on it. */
type Shared = boolean | null;
/** A call that a tenant waits for; what a row wants by itself is nobody's. */
interface Tenants {
  readonly shared: Shared;
  readonly repeat: Repeatable | null;
}
const ITS_OWN: Tenants = { shared: null, repeat: null };

/** The operator's end of a row. Storage is deleted only by its id, never with all that runs: its data would be lost. */
function stopOf(row: ResourceRow, id: number | null, nowMs: number) {
  if (isMachine(row)) return stopMachine(row, nowMs);
  return isStorage(row) && id !== null ? endStorage(row, nowMs) : undefined;
}

/** A launch that upstream refused made no storage either. */
function takeBackNew(state: AccountState, launch: number, nowMs: number): void {
  for (const placed of state.resources.live()) {
    if (!isStorage(placed.row) || placed.row.launch !== launch) continue;
    const { row, acts } = takeBackStorage(placed.row, nowMs, state.lengths);
    if (row !== placed.row) store(state, { ...placed, row }, acts, nowMs);
  }
}

interface Applied {
  readonly refusal: ComputeRefusal | null;
  readonly follow: AnyCall | null;
}
const NOTHING_APPLIED: Applied = { refusal: null, follow: null };

/** A row of this account, of this kind, on this upstream; what was restored or moved adopts nothing of another's. */
function ownRow(state: AccountState, tag: string, upstream: string, kind: ResourceKind): Placed | undefined {
  const placed = state.resources.byTag(tag);
  return placed?.upstream === upstream && placed.row.kind === kind ? placed : undefined;
}
