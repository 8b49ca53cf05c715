/** `/admin/aliases`: public model names and their targets; with `account`, that account's own. */

import * as z from "zod/mini";
import { READERS } from "../../core/account/operators.ts";
import { type AccountId, asId } from "../../core/ids.ts";
import { toUsd } from "../../core/pricing/money.ts";
import { NO_PLAN } from "../../core/pricing/prices.ts";
import { marginsOf, type UnitMargin } from "../../core/routing/alias-margin.ts";
import { type AliasRow, parseInstanceModel, type RoutingSnapshot, type Target } from "../../core/routing/routes.ts";
import { deleteAlias, findAlias, listAliases, putAlias, readAlias } from "../../platform/d1/aliases.ts";
import { findInstance } from "../../platform/d1/instances.ts";
import { readRouting } from "../../platform/d1/routing.ts";
import { type AdminContext, type AdminRoutes, known } from "../kit/context.ts";
import { Deleted, deleted, listOf, modelName, namedPage, pageRequest } from "../kit/fields.ts";
import { changeLatest } from "../kit/latest-change.ts";
import { conflict, invalid, notFound } from "../kit/problem.ts";
import { requireAccount, requireUpstreams } from "../kit/references.ts";
import { answers, ok, route } from "../kit/route.ts";
import { refuseAliasLoss } from "./alias-loss.ts";
import { AliasAnswer, AliasBody, AliasPatch } from "./alias-schema.ts";

type Prices = Pick<RoutingSnapshot, "models">;

const serializeAlias = (row: AliasRow, prices: Prices, nowMs: number) => ({
  alias: row.alias,
  account: row.account,
  targets: row.targets.map((target) => ({ ...target, drain: target.drain ?? false })),
  retry_on: [...row.retryOn],
  margins: row.targets.map((target) => serializeMargin(target, marginsOf(prices, row, target, NO_PLAN, nowMs))),
});

const serializeMargin = ({ upstream, model }: Target, margins: readonly UnitMargin[]) => ({
  upstream,
  model,
  units: Object.fromEntries(
    margins.map(({ unit, costNanoUsd, priceNanoUsd }) => [
      unit,
      {
        cost_usd: toUsd(costNanoUsd),
        price_usd: toUsd(priceNanoUsd),
        margin_usd: toUsd(priceNanoUsd - costNanoUsd),
      },
    ]),
  ),
  loss: margins.some(({ costNanoUsd, priceNanoUsd }) => costNanoUsd > priceNanoUsd),
});

async function shown(context: AdminContext, row: AliasRow) {
  const nowMs = context.now();
  return serializeAlias(row, await readRouting(context.books, nowMs), nowMs);
}

const owner = z.optional(z.string()).check(z.describe("The alias that this account has for itself"));

const put = route({
  id: "putAlias",
  method: "put",
  path: "/admin/aliases/{alias}",
  summary: "Make or replace an alias",
  body: AliasBody,
  answers: { 200: answers("The alias", AliasAnswer) },
});
const patch = route({
  id: "updateAlias",
  method: "patch",
  path: "/admin/aliases/{alias}",
  summary: "Change what is named of the common alias, leave the rest; with `account`, of that account's own",
  query: z.strictObject({ account: owner }),
  body: AliasPatch,
  answers: { 200: answers("The alias", AliasAnswer) },
});
const list = route({
  id: "listAliases",
  method: "get",
  path: "/admin/aliases",
  roles: READERS,
  summary: "List the aliases, common ones and accounts' own; with `account`, its own only",
  query: z.strictObject({ ...namedPage, account: owner }),
  answers: { 200: answers("Aliases by name", listOf(AliasAnswer)) },
});
const get = route({
  id: "getAlias",
  method: "get",
  path: "/admin/aliases/{alias}",
  roles: READERS,
  summary: "Read the common alias; with `account`, that account's own",
  query: z.strictObject({ account: owner }),
  answers: { 200: answers("The alias", AliasAnswer) },
});
const remove = route({
  id: "deleteAlias",
  method: "delete",
  path: "/admin/aliases/{alias}",
  summary: "Delete the common alias; with `account`, that account's own",
  query: z.strictObject({ account: owner }),
  answers: { 200: answers("Deleted", Deleted) },
});

export function addAliases(api: AdminRoutes): void {
  api.add(put, async ({ work: context, params, body }) => {
    const row = aliasFrom(params.alias, body);
    await check(context, row, body.allow_loss);
    await putAlias(context.books, row, context.now());
    await context.edge.routingChanged();
    return ok(await shown(context, row));
  });

  api.add(patch, async ({ work: context, params: { alias }, query, body }) => {
    return ok(await shown(context, await change(context, alias, query.account ?? null, body)));
  });

  api.add(list, async ({ work: context, query }) => {
    const page = await listAliases(context.books, pageRequest(query), query.account);
    const nowMs = context.now();
    const prices = await readRouting(context.books, nowMs);
    return ok({ data: page.data.map((row) => serializeAlias(row, prices, nowMs)), next_cursor: page.nextCursor });
  });

  api.add(get, async ({ work: context, params, query }) => {
    const { alias: called } = params;
    const { account } = query;
    const row = await findAlias(context.books, called, account ?? null);
    return ok(await shown(context, known(row, "alias", called)));
  });

  api.add(remove, async ({ work: context, params, query }) => {
    const { alias: called } = params;
    const { account } = query;
    if (!(await deleteAlias(context.books, called, account ?? null))) throw notFound("alias", called);
    await context.edge.routingChanged();
    return ok(deleted(called));
  });
}

function change(
  context: AdminContext,
  called: string,
  account: string | null,
  body: z.output<typeof AliasPatch>,
): Promise<AliasRow> {
  return changeLatest("alias", called, async () => {
    const { row, version } = known(await readAlias(context.books, called, account), "alias", called);
    const changed: AliasRow = {
      ...row,
      ...(body.targets && { targets: targetsFrom(body.targets) }),
      ...(body.retry_on && { retryOn: [...new Set(body.retry_on)] }),
    };
    await check(context, changed, body.allow_loss);
    if (!(await putAlias(context.books, changed, context.now(), version))) return undefined;
    await context.edge.routingChanged();
    return changed;
  });
}

async function check(context: AdminContext, row: AliasRow, allowLoss: boolean | undefined): Promise<void> {
  await requireAccount(context, row.account);
  await requireUpstreams(context, row.targets, (index) => `targets.${index}.upstream`);
  await refuseForeignInstances(context, row);
  if (!allowLoss) await refuseAliasLoss(context, row);
}

const targetsFrom = (targets: z.output<typeof AliasBody>["targets"]): Target[] =>
  targets.map(({ upstream, model, priority, weight, drain }) => ({
    upstream,
    model,
    priority: priority ?? 0,
    weight: weight ?? 1,
    ...(drain && { drain }),
  }));

function aliasFrom(called: string, body: z.output<typeof AliasBody>): AliasRow {
  if (called.includes(":") || !modelName.safeParse(called).success) {
    throw invalid("alias", "`alias` must be 1 to 200 characters without spaces and without `:`.");
  }
  return {
    alias: called,
    account: body.account ? asId<AccountId>(body.account) : null,
    targets: targetsFrom(body.targets),
    retryOn: [...new Set(body.retry_on ?? [])],
  };
}

/** An alias opens its targets to every caller of the alias, so it must not name another account's instance. */
async function refuseForeignInstances(context: AdminContext, row: AliasRow): Promise<void> {
  for (const [index, target] of row.targets.entries()) {
    const called = parseInstanceModel(target.model);
    const instance = called && (await findInstance(context.books, called.instanceId));
    if (instance && instance.account !== row.account) {
      throw conflict(
        "foreign_instance",
        `The target '${target.model}' is an instance of the account '${instance.account}'. Set \`account\` to it.`,
        `targets.${index}.model`,
      );
    }
  }
}
