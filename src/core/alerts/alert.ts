/**
 * Alerts: what an operator, or a tenant's owner, is told without asking. An alert is decided where its figure is exact,
 * once per threshold and window, and stored in the transaction that made it true. Its `data` is thin: names, ids and
 * figures, no content. What a tenant may get has no cost, no upstream and no other account in it.
 *
 * Pure. This folder must not know accounts, tables or HTTP.
 */
import type { AccountId, CallId, KeyId, TeamId } from "../ids.ts";
import type { LimitLevel } from "../refusal.ts";

interface KeyNamed {
  readonly key: KeyId;
  readonly name: string;
  readonly team: TeamId | null;
}
interface ResourceNamed {
  readonly kind: string;
  readonly id: number;
  readonly name: string;
}
interface OperatorsResource {
  readonly resource: number;
  readonly upstream: string;
}

/** The events of an account, which its owners may subscribe to. */
interface TenantData {
  /** The balance is at or below what is set for the account. */
  "balance.low": { readonly balance_usd: number; readonly threshold_usd: number };
  /** Nothing is left to spend, credit included. */
  "balance.empty": { readonly balance_usd: number; readonly credit_limit_usd: number };
  "budget.threshold": {
    readonly level: LimitLevel;
    /** The key, team or account that the budget is of. */
    readonly of: string;
    readonly percent: BudgetPercent;
    readonly spent_usd: number;
    readonly budget_usd: number;
    readonly budget_duration: string;
    readonly resets_at: string | null;
  };
  "credit.booked": {
    readonly kind: string;
    readonly amount_usd: number;
    readonly balance_usd: number;
    readonly reference: string;
  };
  "key.created": KeyNamed;
  "key.revoked": KeyNamed;
  "key.expiring": KeyNamed & { readonly expires_at: string };
  "job.completed": { readonly job: string; readonly model: string; readonly charged_usd: number };
  "job.failed": { readonly job: string; readonly model: string };
  "instance.running": ResourceNamed;
  "instance.ended": ResourceNamed & { readonly reason: string };
  "instance.preempted": ResourceNamed;
  "storage.suspended": ResourceNamed & { readonly since: string };
  "storage.deleting": ResourceNamed & { readonly deletes_at: string };
}

/** The operator's alone. */
interface OperatorData {
  "upstream.down": { readonly upstream: string; readonly tries: number; readonly failed: number };
  "upstream.recovered": { readonly upstream: string; readonly down_since: string };
  "upstream.refuses_operator": { readonly upstream: string; readonly result: string };
  "margin.negative": {
    readonly call: CallId;
    readonly model: string;
    readonly upstream: string;
    readonly target_model: string;
    readonly price_usd: number;
    readonly cost_usd: number;
  };
  "overrun.high": { readonly overrun_usd: number; readonly charged_usd: number };
  "audit.failed": { readonly problems: readonly string[] };
  "store.filling": { readonly store: string; readonly bytes: number; readonly limit_bytes: number };
  /** Other bytes stand where this part of the account's archive belongs, or it is gone. */
  "archive.differs": { readonly part: string; readonly why: string };
  "compute.stop_overdue": OperatorsResource & { readonly since: string };
  "compute.instance_unpaid": OperatorsResource & { readonly since: string };
  "compute.late_orphan": OperatorsResource;
  "compute.cost_differs": OperatorsResource & { readonly expected_usd: number; readonly shown_usd: number };
  "compute.upstream_balance_low": {
    readonly upstream: string;
    readonly balance_usd: number;
    readonly burn_usd_per_hour: number;
  };
  "webhook.disabled": { readonly webhook: string; readonly why: "gone" | "failing" };
}

type Data = TenantData & OperatorData;
export type AlertType = keyof Data;

/** `id`: the `webhook-id` of every delivery. `account`: null where it is about none. */
export type Alert = {
  readonly [T in AlertType]: {
    readonly id: string;
    readonly type: T;
    readonly account: AccountId | null;
    readonly atMs: number;
    readonly data: Data[T];
  };
}[AlertType];

/** An alert before its store adds id, account and time. */
export type News = { readonly [T in AlertType]: { readonly type: T; readonly data: Data[T] } }[AlertType];

const TENANTS: { readonly [T in keyof TenantData]: true } = {
  "balance.low": true,
  "balance.empty": true,
  "budget.threshold": true,
  "credit.booked": true,
  "key.created": true,
  "key.revoked": true,
  "key.expiring": true,
  "job.completed": true,
  "job.failed": true,
  "instance.running": true,
  "instance.ended": true,
  "instance.preempted": true,
  "storage.suspended": true,
  "storage.deleting": true,
};
const OPERATORS: { readonly [T in keyof OperatorData]: true } = {
  "upstream.down": true,
  "upstream.recovered": true,
  "upstream.refuses_operator": true,
  "margin.negative": true,
  "overrun.high": true,
  "audit.failed": true,
  "store.filling": true,
  "archive.differs": true,
  "compute.stop_overdue": true,
  "compute.instance_unpaid": true,
  "compute.late_orphan": true,
  "compute.cost_differs": true,
  "compute.upstream_balance_low": true,
  "webhook.disabled": true,
};

/** What a tenant's owners may subscribe to. */
export const TENANT_ALERTS = Object.keys(TENANTS) as (keyof TenantData)[];
/** What the operator's owners may subscribe to. */
export const ALERTS: readonly AlertType[] = [...TENANT_ALERTS, ...(Object.keys(OPERATORS) as (keyof OperatorData)[])];

export const BUDGET_PERCENTS = [50, 80, 100] as const;
export type BudgetPercent = (typeof BUDGET_PERCENTS)[number];
