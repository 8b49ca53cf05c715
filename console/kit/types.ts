/** Answers of the API. The operator's are made from its document; a tenant sees the same records with fewer fields. */
import type { Schemas } from "../../client/operations.ts";

export type { Schemas };
export type Call = Schemas["Call"];
export type ProvedCall = Schemas["ProvedCall"];
export type Account = Schemas["Account"];
export type Key = Schemas["Key"];
export type NewKey = Schemas["NewKey"];
export type Team = Schemas["Team"];
export type Model = Schemas["Model"];
export type PriceRow = Schemas["PriceBookRow"];
export type Alias = Schemas["Alias"];
export type Upstream = Schemas["Upstream"];
export type Statement = Schemas["Statement"];

export type TenantCall = Omit<
  Call,
  "account" | "upstream" | "target_model" | "price_rule" | "cost_usd" | "costs" | "overrun_usd" | "loss_usd" | "tries"
>;
export type UsageRow = Schemas["UsageRow"];
export type TenantUsageRow = Omit<
  UsageRow,
  "account" | "upstream" | "cost_usd" | "margin_usd" | "overrun_usd" | "loss_usd" | "low_input_calls"
>;
export type Limits = Pick<
  Key,
  | "rpm_limit"
  | "tpm_limit"
  | "rpd_limit"
  | "max_parallel_requests"
  | "free_rpm_limit"
  | "max_gpus"
  | "max_budget"
  | "budget_duration"
>;

/** `GET /account`. */
export interface AccountState {
  readonly id: string;
  readonly name: string;
  readonly balance_usd: number;
  readonly held_usd: number;
  readonly available_usd: number;
  readonly bills_monthly: boolean;
  readonly compute_enabled: boolean;
  readonly key: Omit<Key, "spent_usd" | "last_used_at">;
  readonly limits: { readonly key: LevelLimits; readonly team: LevelLimits | null; readonly account: LevelLimits };
  readonly models: readonly {
    readonly id: string;
    readonly kind: string;
    readonly prices: Readonly<Record<string, number>>;
  }[];
}
export interface LevelLimits extends Limits {
  readonly rpm_remaining: number | null;
  readonly tpm_remaining: number | null;
  readonly rpd_remaining: number | null;
  readonly parallel_remaining: number | null;
  readonly budget_spent: number | null;
  readonly budget_remaining: number | null;
  readonly budget_resets_at: string | null;
}
