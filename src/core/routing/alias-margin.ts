/**
 * What an alias earns on each target. An alias has one price, and each of its targets a cost of its own: a dearer
 * fallback sells at a loss. Looks at the prices of now and at those to come.
 */
import { type Plan, tenantPrices, type UnitPrices } from "../pricing/prices.ts";
import { UNIT_NAMES, type Unit } from "../pricing/usage.ts";
import { type AliasRow, pricedAs, type RoutingSnapshot, rowOf, rowsOf, type Target } from "./routes.ts";

type PriceBook = Pick<RoutingSnapshot, "models">;

/** Nano-USD for one price's worth of a unit. */
export interface UnitMargin {
  readonly unit: Unit;
  readonly costNanoUsd: number;
  readonly priceNanoUsd: number;
}

/** Cached input without a price of its own is billed as input. */
const figure = (prices: UnitPrices, unit: Unit): number | undefined =>
  prices[unit] ?? (unit === "cached_input_tokens" ? prices.input_tokens : undefined);

/**
 * The units that the alias sells and the target has a cost for. Empty without a price for either: such a call is
 * refused, or its cost is not known.
 */
export function marginsOf(
  book: PriceBook,
  alias: AliasRow,
  target: Target,
  plan: Plan,
  atMs: number,
): readonly UnitMargin[] {
  const sold = pricedAs(book, alias, atMs);
  const bought = rowOf(book, target.model, atMs);
  if (!sold || !bought) return [];
  const { prices } = tenantPrices(sold, plan, alias.alias);
  return UNIT_NAMES.flatMap((unit) => {
    if (bought.costNanoUsd[unit] === undefined && prices[unit] === undefined) return [];
    const costNanoUsd = figure(bought.costNanoUsd, unit);
    const priceNanoUsd = figure(prices, unit);
    return costNanoUsd === undefined || priceNanoUsd === undefined ? [] : [{ unit, costNanoUsd, priceNanoUsd }];
  });
}

export interface AliasLoss extends UnitMargin {
  readonly alias: AliasRow;
  readonly target: Target;
  /** From when; null: now. */
  readonly fromMs: number | null;
}

/** Where an alias costs more than it brings. A free alias is meant to. */
export function lossesOf(
  book: PriceBook,
  aliases: readonly AliasRow[],
  planOf: (atMs: number) => Plan,
  nowMs: number,
  planFromMs?: number,
): readonly AliasLoss[] {
  return aliases.flatMap((alias) =>
    [null, ...changesOf(book, alias, nowMs, planFromMs)].flatMap((fromMs) => {
      const atMs = fromMs ?? nowMs;
      if (pricedAs(book, alias, atMs)?.free) return [];
      return alias.targets.flatMap((target) =>
        marginsOf(book, alias, target, planOf(atMs), atMs)
          .filter(({ costNanoUsd, priceNanoUsd }) => costNanoUsd > priceNanoUsd)
          .map((margin) => ({ ...margin, alias, target, fromMs })),
      );
    }),
  );
}

/** The times to come at which one of its prices changes, in order. */
function changesOf(book: PriceBook, alias: AliasRow, nowMs: number, planFromMs: number | undefined): readonly number[] {
  const named = [alias.alias, ...alias.targets.map(({ model }) => model)];
  const rows = named.flatMap((model) => rowsOf(book, model));
  const times = [...rows.map(({ fromMs }) => fromMs), ...(planFromMs === undefined ? [] : [planFromMs])];
  return [...new Set(times.filter((fromMs) => fromMs > nowMs))].sort((a, b) => a - b);
}

/** Those of `after` that were not there before, or were smaller: what a change does, not what was allowed once. */
export function newLosses(before: readonly AliasLoss[], after: readonly AliasLoss[]): readonly AliasLoss[] {
  const nameOf = ({ alias, target, unit }: AliasLoss) =>
    JSON.stringify([alias.account, alias.alias, target.model, unit]);
  const lossOf = ({ costNanoUsd, priceNanoUsd }: UnitMargin) => costNanoUsd - priceNanoUsd;
  const known = new Map<string, number>();
  for (const loss of before) known.set(nameOf(loss), Math.max(lossOf(loss), known.get(nameOf(loss)) ?? 0));
  const told = new Set<string>();
  return after.filter((loss) => {
    const name = nameOf(loss);
    if (told.has(name) || lossOf(loss) <= (known.get(name) ?? 0)) return false;
    told.add(name);
    return true;
  });
}

/** The aliases whose price or cost a model's row has a part in. */
export const aliasesOf = (routing: Pick<RoutingSnapshot, "aliases">, model: string): readonly AliasRow[] =>
  Object.values(routing.aliases).filter(
    ({ alias, targets }) => alias === model || targets.some((target) => target.model === model),
  );
