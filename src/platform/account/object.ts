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
 * Structure. Each call takes the time and opens the transaction. This file has the calls of the pipeline and the alarm;
 * object-tenant.ts and object-compute.ts have those of the API and of compute. Decisions are pure functions in core.
 * Besides the queue only jobs and the archive are called out for, by the alarm (job-polls.ts, archiver.ts). It must not
 * know HTTP, routes or prompts.
 */
import type { AccountService } from "../../core/account/account-service.ts";
import type { CallAccess } from "../../core/account/call-access.ts";
import type { FreeCall } from "../../core/account/free-calls.ts";
import type { AdmitRequest, HoldEnd, Permission, Progress, Release, Settlement } from "../../core/account/hold.ts";
import type { LeaseAsk, LeaseReport, LeasingAdmission, ReportAnswer } from "../../core/account/lease.ts";
import type { Inquired, Inquiry } from "../../core/account/precheck.ts";
import type { AskedAbout } from "../../core/account/refused-call.ts";
import type { CallId, KeyDigest } from "../../core/ids.ts";
import { LEASE_MS } from "../../core/leases/slice.ts";
import { refused } from "../../core/outcome.ts";
import type { NewOwned, OwnedRef } from "../../core/owned.ts";
import type { JobView, NewJob } from "../../core/video/jobs.ts";
import type { AccountPort } from "../../gateway/ports.ts";
import { askUpstream } from "../upstream/job-poll.ts";
import { waitsForLeases } from "./admission.ts";
import { Archiver } from "./archiver.ts";
import { release, renew, settle, UNKNOWN } from "./hold-lifecycle.ts";
import { JobPolls } from "./job-polls.ts";
import { beginJob, findJob } from "./job-rules.ts";
import { grant, takeIn } from "./leases.ts";
import { ComputeCalls } from "./object-compute.ts";
import { NEVER_OPENED } from "./object-store.ts";
import { admitNoting, authorizeNoting, inquireNoting } from "./refusals.ts";
import { runAlarm } from "./shipping.ts";
import { settleUnknown } from "./unknown-ends.ts";

export class Account extends ComputeCalls implements AccountPort, AccountService {
  readonly #polls = new JobPolls(this.store, (job) => askUpstream(this.env, this.ctx, job));

  readonly #archiver = new Archiver(
    this.store,
    () => this.env.ARCHIVE,
    () => this.lives.archive,
  );

  async admit(request: AdmitRequest, ask?: LeaseAsk): Promise<LeasingAdmission> {
    const decide = (waited: boolean) =>
      this.store.transact((state, nowMs): LeasingAdmission | null => {
        if (!waited && waitsForLeases(state, request, nowMs)) return null;
        const admission = admitNoting(state, request, nowMs, this.lives);
        const grants = admission.ok && ask && this.leaseWaits.grants;
        return grants ? { ...admission, lease: grant(state, ask, nowMs, this.lives) } : admission;
      });
    const admission = decide(false);
    if (admission !== null) return admission ?? NEVER_OPENED;
    if (!(await this.leaseWaits.closed())) return refused({ kind: "busy", retryAfterMs: LEASE_MS });
    return decide(true) ?? NEVER_OPENED;
  }

  async report(report: LeaseReport): Promise<ReportAnswer> {
    const { grants } = this.leaseWaits;
    const taken = this.store.transact((state, nowMs) => takeIn(state, report, nowMs, this.lives, grants));
    for (const settlement of taken?.unknown ?? []) await settleUnknown(this.store, settlement);
    return { leases: taken?.leases ?? [] };
  }

  async settle(settlement: Settlement): Promise<HoldEnd> {
    const end = this.store.transact((state, nowMs) => settle(state, settlement, nowMs));
    if (!end) return UNKNOWN;
    return end.state === "unknown" ? settleUnknown(this.store, settlement) : end;
  }

  async release(released: Release): Promise<HoldEnd> {
    const end = this.store.transact((state, nowMs) => release(state, released, nowMs));
    return end ?? UNKNOWN;
  }

  async renew(callId: CallId, progress: Progress | null): Promise<boolean> {
    return this.store.transact((state, nowMs) => renew(state, callId, progress, nowMs, this.lives)) ?? false;
  }

  async authorize(digest: KeyDigest, free?: FreeCall, about?: AskedAbout): Promise<Permission> {
    return this.store.transact((state, nowMs) => authorizeNoting(state, digest, free, about, nowMs)) ?? NEVER_OPENED;
  }

  async recordOwnership(owned: NewOwned): Promise<void> {
    this.store.transact((state, nowMs) => {
      const upToTokens = state.holds.find(owned.callId)?.countedTokens ?? 0;
      state.ownedIds.record(owned, upToTokens, nowMs);
    });
  }

  async forgetOwned(ref: OwnedRef): Promise<void> {
    this.store.transact((state) => state.ownedIds.forget(ref));
  }

  async inquire(inquiry: Inquiry): Promise<Inquired> {
    return this.store.transact((state, nowMs) => inquireNoting(state, inquiry, nowMs)) ?? NEVER_OPENED;
  }

  // Jobs

  async begin(job: NewJob): Promise<void> {
    this.store.transact((state, nowMs) => beginJob(state, job, nowMs, this.lives.jobMs));
  }

  async job(digest: KeyDigest, id: string, access: CallAccess): Promise<JobView> {
    const found = this.store.transact((state, nowMs) => {
      const reach = this.#polls.knows(id, nowMs) ? "local" : "upstream";
      return findJob(state, { digest, id, access, reach }, nowMs);
    });
    if (!found) return NEVER_OPENED;
    return found.ok ? this.#polls.viewSoon(found.job) : found;
  }

  // The outbox and the alarm

  async shipped(eventIds: readonly CallId[]): Promise<void> {
    this.store.transact(({ outbox }) => outbox.confirm(eventIds));
  }

  override async alarm(): Promise<void> {
    await runAlarm(
      this.store,
      (message) => this.env.USAGE.send(message),
      () => Promise.all([this.#polls.pollDue(), this.rented.runDue()]),
      () => this.#archiver.run(),
    );
  }
}
