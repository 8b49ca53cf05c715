/**
 * What an account object asks of the broker of its upstream account, and what the broker tells it. The broker is the
 * only sender of control calls; it keeps the upstream's limits and knows no money of tenants.
 */
import type { AccountNumber, CallId } from "../ids.ts";
import type { CallClass } from "./call-budget.ts";
import type { LaunchKey } from "./launch-key.ts";
import { LIST_PATHS, type ListedKind, type Watch } from "./listing.ts";

export interface ControlCall {
  readonly account: AccountNumber;
  /** The upstream sees it as `x-request-id`. */
  readonly callId: CallId;
  readonly cls: Exclude<CallClass, "list">;
  readonly method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  /** Built from stored parts only, never from a tenant's path. */
  readonly path: string;
  /** JSON; null: no body. */
  readonly body: string | null;
  /** What the upstream account must still have for this call, nano-USD; null: it costs nothing. */
  readonly needsNanoUsd: number | null;
  /** What the decision relied on; if it is not so any more, nothing is sent. Null: it relied on nothing. */
  readonly terms: { readonly shared: boolean; readonly launchKey: LaunchKey | null } | null;
}

/** What holds on a seat because of its upstream account. `references`: of images that are registered there by hand. */
export type SeatTerms = { readonly shared: false } | { readonly shared: true; readonly references: readonly string[] };

/** Why a call was not sent: nothing was executed. */
type NotSent =
  /** No call of this class may be sent within 10 s, or the upstream asked us to wait. */
  | "budget"
  /** The upstream could not be reached at all. */
  | "out_of_reach"
  /** The upstream account has too little money of its own. */
  | "upstream_balance"
  /** There is no such upstream any more, or its credential cannot be read. */
  | "not_usable"
  /** The upstream itself is being changed: nothing new is made there meanwhile. */
  | "closed"
  /** It was changed since: it is shared now, or not any more. */
  | "changed"
  /** On a shared upstream account another launch's SSH key, or nobody's, is still listed. */
  | "keys_busy"
  | "foreign_key";

export type ControlAnswer =
  | {
      readonly kind: "answered";
      readonly status: number;
      readonly body: string;
      readonly sentAtMs: number;
      /** Of a 404: when the last list was asked for that still showed it as the account was told; null: not known. */
      readonly sameUntilMs?: number | null;
    }
  | { readonly kind: "not_sent"; readonly why: NotSent; readonly retryAfterMs: number }
  /** Sent, and no answer: it may have been executed. */
  | { readonly kind: "unknown"; readonly sentAtMs: number };

/** What the broker tells an account after a list. */
export interface Observation {
  readonly upstream: string;
  readonly kind: ListedKind;
  /**
   * The upstream's documents as JSON: those that are new, changed or in transition. `sameUntilMs`: when the last list
   * was asked for that still showed what the account was told before; null: not known.
   */
  readonly documents: readonly { readonly document: string; readonly sameUntilMs: number | null }[];
  /** Tags that the account waits for and that the list does not show. `sameUntilMs`: as above. */
  readonly absent: readonly { readonly tag: string; readonly sameUntilMs: number | null }[];
  /** When the list was asked for. */
  readonly askedAtMs: number;
}

/** The account object, as the broker knows it. */
export interface Observer {
  /** Resolves once it is durable, with the tags that no row has; what rejects is told again with the next list. */
  observed(observation: Observation): Promise<readonly string[]>;
}

/** What exists upstream, as last listed. `tag`: the name there. `account`: of our tag; null: not ours. */
export interface Seen {
  readonly kind: ListedKind;
  readonly upstreamId: number;
  readonly tag: string;
  readonly account: AccountNumber | null;
  readonly document: string;
}

export interface BrokerView {
  /** The upstream account's own balance; null: not known yet. */
  readonly balanceNanoUsd: number | null;
  readonly balanceAtMs: number | null;
  /** What all that runs there costs an hour, by the upstream's own documents. */
  readonly burnNanoUsdPerHour: number;
  /** Calls sent in the last 60 s. */
  readonly calls: Readonly<Record<CallClass, number>>;
  readonly pausedUntilMs: number | null;
  readonly listedAtMs: Readonly<Partial<Record<ListedKind, number>>>;
  readonly seen: readonly Seen[];
}

export type Market = "gpus" | "storage" | "prices";
export const MARKET_PATHS: Record<Market, string> = {
  gpus: "/gpu-instances/availability",
  storage: "/storage/availability",
  prices: "/platform/gpu-prices",
};

/** The call that ends what exists there under this id. */
export const endOf = (kind: ListedKind, upstreamId: number): Pick<ControlCall, "method" | "path"> => {
  const path = `${LIST_PATHS[kind]}/${upstreamId}`;
  return kind === "instance" ? { method: "POST", path: `${path}/terminate` } : { method: "DELETE", path };
};

/** Where an upstream is, with its sealed credential. */
export interface Address {
  readonly baseUrl: string;
  readonly sealedApiKey: string;
}

/** A list that was asked for now; not `ok`: it could not be had. */
export type FreshList = { readonly ok: true; readonly seen: readonly Seen[] } | { readonly ok: false };

export interface BrokerPort {
  /** Sends one control call, when the budget has room for it. */
  send(upstream: string, call: ControlCall): Promise<ControlAnswer>;
  /** Replaces all that this account has watched here; an empty list ends it. */
  watch(upstream: string, account: AccountNumber, watches: readonly Omit<Watch, "account">[]): Promise<void>;
  /** Availability and prices, at most 5 s old. */
  market(upstream: string, market: Market): Promise<ControlAnswer>;
  /** Read from the operator's books now; its images are at most 15 s old. Undefined: they cannot be read now. */
  terms(upstream: string, needs: "shared" | "references"): Promise<SeatTerms | undefined>;
  /** A cluster's pods, at most 5 s old; older ones if upstream cannot be asked now. */
  replicas(upstream: string, cluster: number): Promise<ControlAnswer>;
  /** Lists all kinds now, watched or not, and tells the accounts. */
  reconcile(upstream: string): Promise<BrokerView>;
  view(upstream: string): Promise<BrokerView>;
  /** Lists this kind now, at the address and with the credential that the operator's books have now, or `at` these. */
  fresh(upstream: string, kind: ListedKind, at?: Address): Promise<FreshList>;
  /** Refuses to make or change anything for so long; stops and reads go on. `token` names who closes; 0 opens again. */
  close(upstream: string, token: string, forMs: number): Promise<void>;
}
