/** The account object's calls about the tenant: the account itself, its ledger, keys and teams. */
import type { Closing, InFlight } from "../../core/account/account-service.ts";
import type { AccountViews, ViewName } from "../../core/account/account-views.ts";
import type { StandingAnswer } from "../../core/account/key-status.ts";
import type {
  Actor,
  KeyAction,
  ManageAction,
  ManagedKey,
  ManagedTeam,
  TeamAction,
} from "../../core/account/permissions.ts";
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
import type { LedgerPart, PartsAsked } from "../../core/archive/archived-ledger.ts";
import type { AccountId, AccountNumber, KeyDigest, KeyId, TeamId } from "../../core/ids.ts";
import { tellBudget } from "./alerting.ts";
import { audit } from "./audit.ts";
import { closeAccount } from "./closing.ts";
import { entriesOf } from "./compute/entries.ts";
import { turnUnpaid } from "./compute/resource-rows.ts";
import { bookCredit } from "./credits.ts";
import { expireDue } from "./expiry.ts";
import { inFlight } from "./in-flight.ts";
import { standing } from "./key-status.ts";
import { leasesOf } from "./leases.ts";
import { manage } from "./manage.ts";
import { AccountStore } from "./object-store.ts";
import { viewOf } from "./views.ts";

export abstract class TenantCalls extends AccountStore {
  async open(id: AccountId, number: AccountNumber, fields: AccountFields): Promise<AccountRecord> {
    this.store.open(id, number, fields);
    const account = await this.describe();
    if (account?.id !== id) throw new Error(`object ${number} is the account ${account?.id}`);
    return account;
  }

  async describe(): Promise<AccountRecord | undefined> {
    return this.store.transact((state, nowMs) => {
      expireDue(state, nowMs);
      const { toleratedNanoUsd: _, ...account } = state.tenants.account();
      return { ...account, balanceNanoUsd: state.ledger.balanceNanoUsd, heldNanoUsd: state.heldNanoUsd };
    });
  }

  async amend(changes: Changes<AccountFields>): Promise<AccountRecord | undefined> {
    const before = this.store.transact((state, nowMs) => {
      state.tenants.amend(changes, state.money(), nowMs);
      tellBudget(state, "account", state.tenants.account().id, nowMs);
      turnUnpaid(state, nowMs);
      return state.leases.all();
    });
    await this.leaseWaits.over(before ?? []);
    return this.describe();
  }

  async inFlight(upstream: string): Promise<InFlight | undefined> {
    return this.store.transact((state) => inFlight(state, upstream));
  }

  async close(): Promise<Closing | undefined> {
    await this.leaseWaits.closed();
    return this.store.transact((state, nowMs) => closeAccount(state, nowMs));
  }

  // The ledger

  async credit(credit: Credit): Promise<CreditOutcome | undefined> {
    // What is leased out may be what is taken back.
    if (credit.amountNanoUsd < 0) await this.leaseWaits.closed();
    return this.store.transact((state, nowMs) => bookCredit(state, credit, nowMs));
  }

  async entries(page: PageRequest): Promise<Page<LedgerEntry> | undefined> {
    return this.store.transact((state) => entriesOf(state, page));
  }

  async ledgerParts(asked: PartsAsked): Promise<readonly LedgerPart[] | undefined> {
    return this.store.transact(({ ledger: { parts }, tenants }) => {
      const { number } = tenants.account();
      if ("after" in asked) return parts.list(number, asked);
      const part = parts.folded(asked.entry, number);
      return part ? [part] : [];
    });
  }

  async entriesBetween(fromMs: number, toMs: number) {
    return this.store.transact(({ ledger }) => ledger.between(fromMs, toMs));
  }

  async audit(): Promise<Audit | undefined> {
    return audit(this.store);
  }

  async view<Name extends ViewName>(name: Name, ask: AccountViews[Name]["ask"]) {
    return this.store.transact((state, nowMs) => viewOf(state, name, ask, nowMs));
  }

  // Keys and teams

  manage(actor: Actor, action: KeyAction): Promise<ManagedKey | undefined>;
  manage(actor: Actor, action: TeamAction): Promise<ManagedTeam | undefined>;
  async manage(actor: Actor, action: ManageAction): Promise<ManagedKey | ManagedTeam | undefined> {
    const done = this.store.transact((state, nowMs) => {
      const result = manage(state, actor, action, nowMs, this.caps);
      return { result, leases: leasesOf(state, action) };
    });
    // What was revoked, blocked or lowered holds from the answer on.
    await this.leaseWaits.over(done?.leases ?? []);
    return done?.result;
  }

  async teams(page: PageRequest): Promise<Page<Team> | undefined> {
    return this.store.transact(({ tenants }) => tenants.teams(page));
  }

  async team(id: TeamId): Promise<Team | undefined> {
    return this.store.transact(({ tenants }) => tenants.team(id));
  }

  async keys(page: PageRequest, team?: TeamId): Promise<Page<Key> | undefined> {
    return this.store.transact(({ keys }) => keys.keys(page, team));
  }

  async key(id: KeyId): Promise<Key | undefined> {
    return this.store.transact(({ keys }) => keys.key(id));
  }

  async findKey(digest: KeyDigest): Promise<{ account: AccountId; keyId: KeyId } | undefined> {
    return this.store.transact(({ keys, tenants }) => {
      const found = keys.find(digest);
      return found && { account: tenants.account().id, keyId: found.key.id };
    });
  }

  async standing(digest: KeyDigest, purpose: "read" | "change"): Promise<StandingAnswer | undefined> {
    return this.store.transact((state, nowMs) => standing(state, digest, purpose, nowMs));
  }
}
