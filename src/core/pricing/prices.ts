/**
 * The price book: computes what a call may cost at most and what it did cost. All rounding happens here, upwards.
 */
import { UNIT_NAMES, UNITS, type Unit, type Usage } from "./usage.ts";

/** What a model is for. Each endpoint lists the kinds that it serves. */
export const MODEL_KINDS = [
  "chat",
  "image",
  "speech",
  "voice",
  "transcription",
  "embedding",
  "rerank",
  "video",
  "custom",
  "gpu",
  "storage",
] as const;
export type ModelKind = (typeof MODEL_KINDS)[number];
/** Those that are called by name; the others are rented. */
export const CALLED_KINDS = MODEL_KINDS.filter((kind) => kind !== "gpu" && kind !== "storage");

/** Fields in which engines take the output cap of a chat. Some know only one of them. */
export const CAP_FIELDS = ["max_tokens", "max_completion_tokens"] as const;
export type CapField = (typeof CAP_FIELDS)[number];

/** Nano-USD per `perPrice` of a unit (a million tokens, a second, an image, a request). */
export type UnitPrices = { readonly [U in Unit]?: number };

/** What a model is and where it runs. Holds at once, whatever prices are to come. */
export interface ModelSettings {
  readonly model: string;
  readonly kind: ModelKind;
  /** If set, tenants may call the model at this upstream by its own id. */
  readonly upstream?: string | undefined;
  readonly maxOutputTokens?: number | undefined;
  readonly contextTokens?: number | undefined;
  readonly promptOverheadTokens?: number | undefined;
  /** The most tokens that one part other than text can come to. */
  readonly maxPartTokens?: number | undefined;
  /** Tokens that own count assumes for such a part. */
  readonly partTokens?: number | undefined;
  /** Of a GPU: what tenants are shown beside its price. */
  readonly displayName?: string | undefined;
  readonly vramGb?: number | undefined;
  /** The field in which its engine takes the output cap of a chat (the contract's, `max_tokens`). */
  readonly capField?: CapField | undefined;
}

/** Prices of a model, valid from `fromMs` until later ones of the same model. */
export interface DatedPrices {
  readonly fromMs: number;
  readonly costNanoUsd: UnitPrices;
  /** Only units with a price of their own; for the others the tenant pays cost plus the plan's markup. */
  readonly priceNanoUsd: UnitPrices;
  /** Costs the tenant nothing. If false, every price must be above zero. */
  readonly free: boolean;
}

/** One row of the price book. */
export interface ModelRow extends ModelSettings, DatedPrices {}

/** How an account's prices differ from the price book's. */
export interface Plan {
  /** Added to cost where a row has no price of its own. At most 6 decimals. */
  readonly markupPercent: number;
  readonly overrides: { readonly [model: string]: PlanOverride };
}
export type PlanOverride =
  | { readonly kind: "prices"; readonly priceNanoUsd: UnitPrices }
  | { readonly kind: "markup"; readonly markupPercent: number };

export const NO_PLAN: Plan = { markupPercent: 0, overrides: {} };

/** A plan that holds from `fromMs` on. */
export interface DatedPlan {
  readonly fromMs: number;
  readonly plan: Plan;
}

/** The plan that holds: the next one once its time has come. Accounts of before have no next one. */
export const planAt = (
  { plan, nextPlan }: { readonly plan: Plan; readonly nextPlan?: DatedPlan | null },
  nowMs: number,
): Plan => (nextPlan && nextPlan.fromMs <= nowMs ? nextPlan.plan : plan);

/** The prices of one call, fixed at admission, and the name of the rule that set them (kept in the usage event). */
export interface FixedPrices {
  readonly rule: string;
  readonly prices: UnitPrices;
}

/** Cost plus markup, rounded up to a nano-USD. */
function markUp(cost: number, percent: number): number {
  const millionths = BigInt(Math.round((100 + percent) * 1_000_000));
  const scale = 100_000_000n;
  return Number((BigInt(cost) * millionths + scale - 1n) / scale);
}

function markUpAll(costs: UnitPrices, percent: number): UnitPrices {
  return mapPrices(costs, (cost) => markUp(cost, percent));
}

function mapPrices(prices: UnitPrices, change: (price: number, unit: Unit) => number): UnitPrices {
  const changed: { [U in Unit]?: number } = {};
  for (const unit of UNIT_NAMES) {
    const price = prices[unit];
    if (price !== undefined) changed[unit] = change(price, unit);
  }
  return changed;
}

/**
 * The tenant's prices for a call. The plan's override for the called name comes first, then its override for the row's
 * model, then the row's own prices, with marked-up cost for units without one. A free row costs nothing whatever the
 * plan says. Any other row always has a price: a markup on a cost of zero would give zero, so the row's own price is
 * used.
 */
export function tenantPrices(row: ModelRow, plan: Plan, calledAs: string): FixedPrices {
  if (row.free) return { rule: "free", prices: mapPrices(row.costNanoUsd, () => 0) };
  const named = Object.hasOwn(plan.overrides, calledAs) ? calledAs : row.model;
  const override = Object.hasOwn(plan.overrides, named) ? plan.overrides[named] : undefined;
  if (override?.kind === "markup") {
    return {
      rule: `plan:${named}:markup=${override.markupPercent}`,
      prices: mapPrices(row.costNanoUsd, (cost, unit) =>
        cost === 0 ? (row.priceNanoUsd[unit] ?? 0) : markUp(cost, override.markupPercent),
      ),
    };
  }
  const book = { ...markUpAll(row.costNanoUsd, plan.markupPercent), ...row.priceNanoUsd };
  if (override) return { rule: `plan:${named}:prices`, prices: { ...book, ...override.priceNanoUsd } };
  const marked = UNIT_NAMES.some((unit) => row.costNanoUsd[unit] !== undefined && row.priceNanoUsd[unit] === undefined);
  return { rule: marked ? `book:${row.model}:markup=${plan.markupPercent}` : `book:${row.model}`, prices: book };
}

/** A multiple of every unit's `perPrice`. */
const COMMON = 18_000_000n;

function line(quantity: number, priceNanoUsd: number, unit: Unit): bigint {
  return BigInt(quantity) * BigInt(priceNanoUsd) * (COMMON / BigInt(UNITS[unit].perPrice));
}

function total(lines: bigint): number {
  return Number((lines + COMMON - 1n) / COMMON);
}

/** Nano-USD for a usage at fixed prices: the exact sum over the units, rounded up once. Monotone in every quantity. */
export function costOf(usage: Usage, prices: UnitPrices): number {
  const cached = Math.min(usage.cached_input_tokens ?? 0, usage.input_tokens ?? 0);
  const quantities: Usage = { ...usage, input_tokens: (usage.input_tokens ?? 0) - cached, cached_input_tokens: cached };
  let lines = 0n;
  for (const unit of UNIT_NAMES) {
    const quantity = quantities[unit];
    if (!quantity) continue;
    const price = prices[unit] ?? (unit === "cached_input_tokens" ? prices.input_tokens : undefined) ?? 0;
    lines += line(quantity, price, unit);
  }
  return total(lines);
}

/** The most that any usage within `bound` can cost: all input at the higher of its two prices. */
export function dearestOf(bound: Usage, prices: UnitPrices): number {
  const input = Math.max(prices.input_tokens ?? 0, prices.cached_input_tokens ?? 0);
  return costOf({ ...bound, cached_input_tokens: 0 }, { ...prices, input_tokens: input });
}

/**
 * Whether every unit that a call can use has a price above zero. If not, the call is refused (402), never given away.
 */
export function pricesCover(usage: Usage, prices: UnitPrices): boolean {
  return UNIT_NAMES.every((unit) => !usage[unit] || unit === "cached_input_tokens" || (prices[unit] ?? 0) > 0);
}
