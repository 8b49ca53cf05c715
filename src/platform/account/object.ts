/**
 * The account object: one Durable Object per account, the only authority on its money, limits, keys and teams. The
 * files of this folder change its rows; tables/ has a class for each table.
 *
 * Algorithm. `admit` runs before a call is forwarded, in one synchronous SQLite transaction. It finds the key by digest
 * and checks that it is live. Requests, tokens, slots and budgets of key, team and account must have room, and the
 * balance less open holds must cover the most that the call can cost. One row, the hold, then sets all of that aside.
 * The hold ends once. `settle` charges min(actual, held) as one ledger entry; `release` charges nothing. A hold that is
 * never ended expires and is charged what its last renewal reported; a late end corrects that once. Every end writes
 * one usage event to the outbox, and the alarm ships it.
 *
 * Promises. The sum of the entries is the balance. Balance less open holds never goes below the floor. No limit or
 * budget is exceeded at any level. A hold is durable before it is answered (the output gate waits for the disk). Each
 * call has one end; a repeated end gets what was recorded. An event is kept until D1 has it. Few rows are written.
 *
 * Structure. This file takes the time, opens the transaction and arms the alarm. Decisions are pure functions in core.
 * Besides the queue only jobs are called out for, by the alarm (job-polls.ts). It must not know HTTP, routes or prompts.
 */
import { DurableObject } from "cloudflare:workers";
import type { AccountService, Closing, InFlight } from "../../core/account/account-service.ts";
import type { AccountViews, ViewName } from "../../core/account/account-views.ts";
import type { CallAccess } from "../../core/account/call-access.ts";
import type { FreeCall } from "../../core/account/free-calls.ts";
import type {
  Admission,
  AdmitRequest,
  HoldEnd,
  Permission,
  Progress,
  Release,
  Settlement,
} from "../../core/account/hold.ts";
import type { StandingAnswer } from "../../core/account/key-status.ts";
import type {
  Actor,
  KeyAction,
  ManageAction,
  ManagedKey,
  ManagedTeam,
  TeamAction,
} from "../../core/account/permissions.ts";
import type { Inquired, Inquiry } from "../../core/account/precheck.ts";
import type {
  AccountFields,
  Account as AccountRecord,
  Audit,
  Changes,
  Credit,
  CreditOutcome,
  Key,
  LedgerEntry,
  Page,
  PageRequest,
  Team,
} from "../../core/account/tenant.ts";
import type {
  ComputeAccount,
  ComputeAnswer,
  ComputeRequest,
  ComputeState,
  HourlyBegin,
  HourlyBegun,
  KnownTag,
  SeatMove,
  ServiceAnswer,
  ServiceRequest,
} from "../../core/compute/calls.ts";
import type { Observation, Observer } from "../../core/compute/control.ts";
import type { AccountId, AccountNumber, CallId, KeyDigest, KeyId, TeamId } from "../../core/ids.ts";
import { refused } from "../../core/outcome.ts";
import type { NewOwned, OwnedRef } from "../../core/owned.ts";
import type { JobView, NewJob } from "../../core/video/jobs.ts";
import type { AccountPort } from "../../gateway/ports.ts";
import { brokerOf } from "../broker/broker-stub.ts";
import { askUpstream } from "../upstream/job-poll.ts";
import { admit, authorize } from "./admission.ts";
import { audit } from "./audit.ts";
import { closeAccount } from "./closing.ts";
import { Compute } from "./compute/compute.ts";
import { entriesOf } from "./compute/entries.ts";
import { beginHourly, endHourly } from "./compute/inference.ts";
import { turnUnpaid } from "./compute/resource-rows.ts";
import { knownTags, moveSeat } from "./compute/seat.ts";
import { openService } from "./compute/service.ts";
import { bookCredit } from "./credits.ts";
import { expireDue } from "./expiry.ts";
import { release, renew, settle, UNKNOWN } from "./hold-lifecycle.ts";
import { inFlight } from "./in-flight.ts";
import { JobPolls } from "./job-polls.ts";
import { beginJob, findJob } from "./job-rules.ts";
import { standing } from "./key-status.ts";
import { manage } from "./manage.ts";
import { inquire } from "./precheck.ts";
import { capsOf, livesOf } from "./settings.ts";
import { runAlarm } from "./shipping.ts";
import { Store } from "./store.ts";
import { settleUnknown } from "./unknown-ends.ts";
import { viewOf } from "./views.ts";

const NEVER_OPENED = refused({ kind: "bad_key", why: "unknown" });

export class Account extends DurableObject<Env> implements AccountPort, AccountService, ComputeAccount, Observer {
  readonly #lives = livesOf(this.env);
  readonly #store = new Store(this.ctx.storage, this.#lives);
  readonly #caps = capsOf(this.env);
  readonly #compute = new Compute(this.#store, (upstream) => brokerOf(this.env, upstream));
  readonly #polls = new JobPolls(this.#store, (job) => askUpstream(this.env, this.ctx, job));

  async admit(request: AdmitRequest): Promise<Admission> {
    return this.#store.transact((books, nowMs) => admit(books, request, nowMs, this.#lives)) ?? NEVER_OPENED;
  }

  async settle(settlement: Settlement): Promise<HoldEnd> {
    const end = this.#store.transact((books, nowMs) => settle(books, settlement, nowMs));
    if (!end) return UNKNOWN;
    return end.state === "unknown" ? settleUnknown(this.#store, settlement) : end;
  }

  async release(released: Release): Promise<HoldEnd> {
    const end = this.#store.transact((books, nowMs) => release(books, released, nowMs));
    return end ?? UNKNOWN;
  }

  async renew(callId: CallId, progress: Progress | null): Promise<boolean> {
    return this.#store.transact((books, nowMs) => renew(books, callId, progress, nowMs, this.#lives)) ?? false;
  }

  async authorize(digest: KeyDigest, free?: FreeCall): Promise<Permission> {
    return this.#store.transact((books, nowMs) => authorize(books, digest, free, nowMs)) ?? NEVER_OPENED;
  }

  async recordOwnership(owned: NewOwned): Promise<void> {
    this.#store.transact((books, nowMs) => {
      const upToTokens = books.holds.find(owned.callId)?.countedTokens ?? 0;
      books.ownedIds.record(owned, upToTokens, nowMs);
    });
  }

  async forgetOwned(ref: OwnedRef): Promise<void> {
    this.#store.transact((books) => books.ownedIds.forget(ref));
  }

  async inquire(inquiry: Inquiry): Promise<Inquired> {
    return this.#store.transact((books, nowMs) => inquire(books, inquiry, nowMs)) ?? NEVER_OPENED;
  }

  // Jobs

  async begin(job: NewJob): Promise<void> {
    this.#store.transact((books, nowMs) => beginJob(books, job, nowMs, this.#lives.jobMs));
  }

  async job(digest: KeyDigest, id: string, access: CallAccess): Promise<JobView> {
    const found = this.#store.transact((books, nowMs) => {
      const reach = this.#polls.knows(id, nowMs) ? "local" : "upstream";
      return findJob(books, { digest, id, access, reach }, nowMs);
    });
    if (!found) return NEVER_OPENED;
    return found.ok ? this.#polls.viewSoon(found.job) : found;
  }

  // The account

  async open(id: AccountId, number: AccountNumber, fields: AccountFields): Promise<AccountRecord> {
    this.#store.open(id, number, fields);
    const account = await this.describe();
    if (account?.id !== id) throw new Error(`object ${number} is the account ${account?.id}`);
    return account;
  }

  async describe(): Promise<AccountRecord | undefined> {
    return this.#store.transact((books, nowMs) => {
      expireDue(books, nowMs);
      const { toleratedNanoUsd: _, ...account } = books.tenants.account();
      return { ...account, balanceNanoUsd: books.ledger.balanceNanoUsd, heldNanoUsd: books.heldNanoUsd };
    });
  }

  async amend(changes: Changes<AccountFields>): Promise<AccountRecord | undefined> {
    this.#store.transact((books, nowMs) => {
      books.tenants.amend(changes, books.money(), nowMs);
      turnUnpaid(books, nowMs);
    });
    return this.describe();
  }

  async inFlight(upstream: string): Promise<InFlight | undefined> {
    return this.#store.transact((books) => inFlight(books, upstream));
  }

  async close(): Promise<Closing | undefined> {
    return this.#store.transact((books, nowMs) => closeAccount(books, nowMs));
  }

  // The ledger

  async credit(credit: Credit): Promise<CreditOutcome | undefined> {
    return this.#store.transact((books, nowMs) => bookCredit(books, credit, nowMs));
  }

  async entries(page: PageRequest): Promise<Page<LedgerEntry> | undefined> {
    return this.#store.transact((books) => entriesOf(books, page));
  }

  async audit(): Promise<Audit | undefined> {
    return audit(this.#store);
  }

  async view<Name extends ViewName>(name: Name, ask: AccountViews[Name]["ask"]) {
    return this.#store.transact((books, nowMs) => viewOf(books, name, ask, nowMs));
  }

  // Keys and teams

  manage(actor: Actor, action: KeyAction): Promise<ManagedKey | undefined>;
  manage(actor: Actor, action: TeamAction): Promise<ManagedTeam | undefined>;
  async manage(actor: Actor, action: ManageAction): Promise<ManagedKey | ManagedTeam | undefined> {
    return this.#store.transact((books, nowMs) => manage(books, actor, action, nowMs, this.#caps));
  }

  async teams(page: PageRequest): Promise<Page<Team> | undefined> {
    return this.#store.transact(({ tenants }) => tenants.teams(page));
  }

  async team(id: TeamId): Promise<Team | undefined> {
    return this.#store.transact(({ tenants }) => tenants.team(id));
  }

  async keys(page: PageRequest, team?: TeamId): Promise<Page<Key> | undefined> {
    return this.#store.transact(({ keys }) => keys.keys(page, team));
  }

  async key(id: KeyId): Promise<Key | undefined> {
    return this.#store.transact(({ keys }) => keys.key(id));
  }

  async findKey(digest: KeyDigest): Promise<{ account: AccountId; keyId: KeyId } | undefined> {
    return this.#store.transact(({ keys, tenants }) => {
      const found = keys.find(digest);
      return found && { account: tenants.account().id, keyId: found.key.id };
    });
  }

  async standing(digest: KeyDigest, purpose: "read" | "change"): Promise<StandingAnswer | undefined> {
    return this.#store.transact((books, nowMs) => standing(books, digest, purpose, nowMs));
  }

  // Compute

  async compute(request: ComputeRequest): Promise<ComputeAnswer> {
    return this.#compute.call(request);
  }

  async openService(request: ServiceRequest): Promise<ServiceAnswer> {
    return this.#store.transact((books, nowMs) => openService(books, request, nowMs)) ?? NEVER_OPENED;
  }

  async observed(observation: Observation): Promise<readonly string[]> {
    return this.#compute.observed(observation);
  }

  async computeState(): Promise<ComputeState | undefined> {
    return this.#compute.state();
  }

  async stopCompute(id: number | null): Promise<readonly number[] | undefined> {
    return this.#compute.stop(id);
  }

  async moveSeat(from: string | null, to: string | null): Promise<SeatMove | undefined> {
    return this.#store.transact((books, nowMs) => moveSeat(books, from, to, nowMs));
  }

  async knownTags(tags: readonly string[]): Promise<readonly KnownTag[] | undefined> {
    return this.#store.transact((books) => knownTags(books, tags));
  }

  async beginHourly(asked: HourlyBegin): Promise<HourlyBegun | undefined> {
    return this.#store.transact((books, nowMs) => beginHourly(books, asked, nowMs));
  }

  async endHourly(rental: number, unused = false): Promise<void> {
    this.#store.transact((books, nowMs) => endHourly(books, rental, unused, nowMs));
  }

  // The outbox and the alarm

  async shipped(eventIds: readonly CallId[]): Promise<void> {
    this.#store.transact(({ outbox }) => outbox.confirm(eventIds));
  }

  override async alarm(): Promise<void> {
    await runAlarm(
      this.#store,
      (message) => this.env.USAGE.send(message),
      () => Promise.all([this.#polls.pollDue(), this.#compute.runDue()]),
    );
  }
}
