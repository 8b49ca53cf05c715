/**
 * Converts between the core's types and JSON: snake_case, USD as numbers, times as ISO 8601. No other file knows both.
 */

import type { Used } from "../../core/account/account-views.ts";
import type { Limits } from "../../core/account/tenant.ts";
import { toUsd } from "../../core/pricing/money.ts";
import type { Plan, PlanOverride, UnitPrices } from "../../core/pricing/prices.ts";
import { UNIT_NAMES, type Unit } from "../../core/pricing/usage.ts";

export const toIso = (ms: number): string => new Date(ms).toISOString();
export const toIsoOrNull = (ms: number | null): string | null => (ms === null ? null : toIso(ms));

/** Limits in a validated body: flat, money already in nano-USD. */
export interface LimitBody {
  rpm_limit?: number | null | undefined;
  tpm_limit?: number | null | undefined;
  rpd_limit?: number | null | undefined;
  max_parallel_requests?: number | null | undefined;
  free_rpm_limit?: number | null | undefined;
  max_gpus?: number | null | undefined;
  max_budget?: number | null | undefined;
  budget_duration?: Limits["budgetDuration"] | undefined;
}

/** The limits after a change: those that the body omits stay as in `base`. */
export const limitsFrom = (body: LimitBody, base: Limits): Limits => ({ ...base, ...limitsIn(body) });

/** Only the limits that a body names; undefined if it names none. */
export function limitsIn(body: LimitBody): Partial<Limits> | undefined {
  const named: Partial<Limits> = {
    ...(body.rpm_limit !== undefined && { rpm_limit: body.rpm_limit }),
    ...(body.tpm_limit !== undefined && { tpm_limit: body.tpm_limit }),
    ...(body.rpd_limit !== undefined && { rpd_limit: body.rpd_limit }),
    ...(body.max_parallel_requests !== undefined && { max_parallel_requests: body.max_parallel_requests }),
    ...(body.free_rpm_limit !== undefined && { free_rpm_limit: body.free_rpm_limit }),
    ...(body.max_gpus !== undefined && { maxGpus: body.max_gpus }),
    ...(body.max_budget !== undefined && { maxBudgetNanoUsd: body.max_budget }),
    ...(body.budget_duration !== undefined && { budgetDuration: body.budget_duration }),
  };
  return Object.keys(named).length > 0 ? named : undefined;
}

export const serializeLimits = (limits: Limits) => ({
  rpm_limit: limits.rpm_limit,
  tpm_limit: limits.tpm_limit,
  rpd_limit: limits.rpd_limit,
  max_parallel_requests: limits.max_parallel_requests,
  free_rpm_limit: limits.free_rpm_limit,
  max_gpus: limits.maxGpus,
  max_budget: limits.maxBudgetNanoUsd === null ? null : toUsd(limits.maxBudgetNanoUsd),
  budget_duration: limits.budgetDuration,
});

export const serializeUsed = ({ spentNanoUsd, lastUsedAtMs }: Used = { spentNanoUsd: 0, lastUsedAtMs: null }) => ({
  spent_usd: toUsd(spentNanoUsd),
  last_used_at: toIsoOrNull(lastUsedAtMs),
});

/** A plan's override in a validated body: a markup or prices per unit (nano-USD), never both. */
type OverrideBody = { markup_percent?: number | undefined } & { [U in Unit]?: number | undefined };
export interface PlanBody {
  markup_percent?: number | undefined;
  overrides?: Record<string, OverrideBody> | undefined;
}

export function planFrom(body: PlanBody): Plan {
  const overrides = Object.entries(body.overrides ?? {}).map(([model, override]): [string, PlanOverride] => {
    const { markup_percent: markupPercent, ...prices } = override;
    return [
      model,
      markupPercent === undefined
        ? { kind: "prices", priceNanoUsd: present(prices) }
        : { kind: "markup", markupPercent },
    ];
  });
  return { markupPercent: body.markup_percent ?? 0, overrides: Object.fromEntries(overrides) };
}

export const serializePlan = (plan: Plan) => ({
  markup_percent: plan.markupPercent,
  overrides: Object.fromEntries(
    Object.entries(plan.overrides).map(([model, override]) => [model, serializeOverride(override)]),
  ),
});

const serializeOverride = (override: PlanOverride): Record<string, number> =>
  override.kind === "markup"
    ? { markup_percent: override.markupPercent }
    : (mapUnits(override.priceNanoUsd, toUsd) as Record<Unit, number>);

/** A price book row's prices in a validated body, in nano-USD. */
export type PricesBody = { [U in Unit]?: { cost_usd: number; price_usd?: number | null | undefined } | undefined };

export function pricesFrom(body: PricesBody): { costNanoUsd: UnitPrices; priceNanoUsd: UnitPrices } {
  return {
    costNanoUsd: present(mapUnits(body, (unit) => unit.cost_usd)),
    priceNanoUsd: present(mapUnits(body, (unit) => unit.price_usd ?? undefined)),
  };
}

export const serializePrices = (costs: UnitPrices, prices: UnitPrices) =>
  mapUnits(costs, (cost, unit) => {
    const price = prices[unit];
    return { cost_usd: toUsd(cost), price_usd: price === undefined ? null : toUsd(price) };
  });

/** Converts each unit that is present. */
export function mapUnits<T, R>(
  values: { readonly [U in Unit]?: T | undefined },
  convert: (value: T, unit: Unit) => R,
): { [U in Unit]?: R } {
  const converted: { [U in Unit]?: R } = {};
  for (const unit of UNIT_NAMES) {
    const value = values[unit];
    if (value !== undefined) converted[unit] = convert(value, unit);
  }
  return converted;
}

const present = (values: { [U in Unit]?: number | undefined }): UnitPrices =>
  mapUnits(values, (value) => value) as UnitPrices;
