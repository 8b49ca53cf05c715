/** `/admin/aliases`: public model names and their targets; with `account`, that account's own. */

import * as z from "zod";
import { READERS } from "../../core/account/operators.ts";
import { type AccountId, asId } from "../../core/ids.ts";
import { type AliasRow, parseInstanceModel } from "../../core/routing/routes.ts";
import { deleteAlias, findAlias, listAliases, putAlias } from "../../platform/d1/aliases.ts";
import { findInstance } from "../../platform/d1/instances.ts";
import { type AdminContext, type AdminRoutes, known } from "../kit/context.ts";
import { Deleted, deleted, listOf, modelName, namedPage, pageRequest } from "../kit/fields.ts";
import { conflict, invalid, notFound } from "../kit/problem.ts";
import { requireAccount, requireUpstreams } from "../kit/references.ts";
import { answers, ok, route } from "../kit/route.ts";

import { AliasAnswer, AliasBody } from "./alias-schema.ts";

const serializeAlias = (row: AliasRow) => ({
  alias: row.alias,
  account: row.account,
  targets: row.targets.map((target) => ({ ...target })),
  retry_on: [...row.retryOn],
});

const owner = z.string().optional().meta({ description: "The alias that this account has for itself" });

const put = route({
  id: "putAlias",
  method: "put",
  path: "/admin/aliases/{alias}",
  summary: "Make or replace an alias",
  body: AliasBody,
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
    await requireAccount(context, row.account);
    await requireUpstreams(context, row.targets, (index) => `targets.${index}.upstream`);
    await refuseForeignInstances(context, row);
    await putAlias(context.books, row, context.now());
    await context.edge.routingChanged();
    return ok(serializeAlias(row));
  });

  api.add(list, async ({ work: context, query }) => {
    const page = await listAliases(context.books, pageRequest(query), query.account);
    return ok({ data: page.data.map(serializeAlias), next_cursor: page.nextCursor });
  });

  api.add(get, async ({ work: context, params, query }) => {
    const { alias: called } = params;
    const { account } = query;
    const row = await findAlias(context.books, called, account ?? null);
    return ok(serializeAlias(known(row, "alias", called)));
  });

  api.add(remove, async ({ work: context, params, query }) => {
    const { alias: called } = params;
    const { account } = query;
    if (!(await deleteAlias(context.books, called, account ?? null))) throw notFound("alias", called);
    await context.edge.routingChanged();
    return ok(deleted(called));
  });
}

function aliasFrom(called: string, body: z.output<typeof AliasBody>): AliasRow {
  if (called.includes(":") || !modelName.safeParse(called).success) {
    throw invalid("alias", "`alias` must be 1 to 200 characters without spaces and without `:`.");
  }
  return {
    alias: called,
    account: body.account ? asId<AccountId>(body.account) : null,
    targets: body.targets.map((target) => ({
      upstream: target.upstream,
      model: target.model,
      priority: target.priority ?? 0,
      weight: target.weight ?? 1,
    })),
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
