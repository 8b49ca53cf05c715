/**
 * Refuses a change that would sell an alias below the cost of one of its targets, unless it says that it means to. Two
 * changes at once may slip past this; what then sells at a loss is told at its settlement (`margin.negative`).
 */
import { clipped } from "../../core/issue-words.ts";
import { formatUsd } from "../../core/pricing/money.ts";
import {
  type DatedPlan,
  type DatedPrices,
  type ModelSettings,
  NO_PLAN,
  type Plan,
  planAt,
} from "../../core/pricing/prices.ts";
import { type AliasLoss, aliasesOf, lossesOf, newLosses } from "../../core/routing/alias-margin.ts";
import { type AliasRow, aliasKey, rowsOf } from "../../core/routing/routes.ts";
import { readRouting } from "../../platform/d1/routing.ts";
import type { AdminContext } from "../kit/context.ts";
import { conflict, type Problem } from "../kit/problem.ts";
import { toIso } from "../kit/serializers.ts";

/** Losses that an answer names. */
const MOST_TOLD = 5;
/** Aliases and models are checked without any account's markup: at cost, or the book's own price. */
const byTheBook = () => NO_PLAN;

export async function refuseAliasLoss(context: AdminContext, row: AliasRow): Promise<void> {
  const nowMs = context.now();
  const routing = await readRouting(context.books, nowMs);
  const former = routing.aliases[aliasKey(row.account, row.alias)];
  const before = lossesOf(routing, former ? [former] : [], byTheBook, nowMs);
  refuse(newLosses(before, lossesOf(routing, [row], byTheBook, nowMs)));
}

/** `prices` are to hold from their time on, over those of the same time. */
export async function refusePriceLoss(
  context: AdminContext,
  model: Pick<ModelSettings, "model" | "kind">,
  prices: DatedPrices,
): Promise<void> {
  const nowMs = context.now();
  const routing = await readRouting(context.books, nowMs);
  const aliases = aliasesOf(routing, model.model);
  const others = rowsOf(routing, model.model).filter(({ fromMs }) => fromMs !== prices.fromMs);
  const rows = [...others, { ...model, ...prices }].sort((a, b) => b.fromMs - a.fromMs);
  const changed = { models: { ...routing.models, [model.model]: rows } };
  const before = lossesOf(routing, aliases, byTheBook, nowMs);
  refuse(newLosses(before, lossesOf(changed, aliases, byTheBook, nowMs)));
}

interface Plans {
  readonly plan: Plan;
  readonly nextPlan?: DatedPlan | null;
}

/** The aliases that the account may call, at the prices that it would pay. `account` null: it is yet to be made. */
export async function refusePlanLoss(
  context: AdminContext,
  account: string | null,
  before: Plans,
  after: Plans,
): Promise<void> {
  const nowMs = context.now();
  const routing = await readRouting(context.books, nowMs);
  const aliases = Object.values(routing.aliases).filter((alias) => alias.account === null || alias.account === account);
  const losses = (plans: Plans) =>
    lossesOf(routing, aliases, (atMs) => planAt(plans, atMs), nowMs, plans.nextPlan?.fromMs);
  refuse(newLosses(losses(before), losses(after)));
}

function refuse(losses: readonly AliasLoss[]): void {
  if (losses.length > 0) throw lossProblem(losses);
}

function lossProblem(losses: readonly AliasLoss[]): Problem {
  const told = losses.slice(0, MOST_TOLD).map(({ alias, target, unit, costNanoUsd, priceNanoUsd, fromMs }) => {
    const when = fromMs === null ? "" : ` from ${toIso(fromMs)} on`;
    return (
      `the alias '${clipped(alias.alias)}' sells ${unit} for ${formatUsd(priceNanoUsd)} USD${when}, ` +
      `and its target '${clipped(target.model)}' costs ${formatUsd(costNanoUsd)} USD`
    );
  });
  const more = losses.length > MOST_TOLD ? `; and ${losses.length - MOST_TOLD} more` : "";
  return conflict(
    "alias_at_a_loss",
    `This would sell at a loss: ${told.join("; ")}${more}. Change the prices, or send \`allow_loss: true\`.`,
    "allow_loss",
  );
}
