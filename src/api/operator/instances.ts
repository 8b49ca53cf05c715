/** `/admin/instances`: user-deployed models `<name>:<instance_id>` and the accounts that own them. */

import * as z from "zod";
import { READERS } from "../../core/account/operators.ts";
import { type AccountId, asId } from "../../core/ids.ts";
import type { InstanceRow } from "../../core/routing/routes.ts";
import { foreignAliasesOf } from "../../platform/d1/aliases.ts";
import { deleteInstance, findInstance, listInstances, putInstance } from "../../platform/d1/instances.ts";
import { type AdminRoutes, known } from "../kit/context.ts";
import { Deleted, deleted, listOf, numberedPage, pageRequest } from "../kit/fields.ts";
import { conflict, invalid, notFound } from "../kit/problem.ts";
import { requireAccount, requireUpstreams } from "../kit/references.ts";
import { answers, ok, route } from "../kit/route.ts";

import { InstanceAnswer, InstanceBody } from "./instance-schema.ts";

const serializeInstance = (row: InstanceRow) => ({
  instance_id: row.instanceId,
  model: `${row.name}:${row.instanceId}`,
  account: row.account,
  name: row.name,
  upstreams: [...row.upstreams],
  kind: row.kind,
  custom_api_path: row.customApiPath,
});

const put = route({
  id: "putInstance",
  method: "put",
  path: "/admin/instances/{instance_id}",
  summary: "Register or replace an instance",
  body: InstanceBody,
  answers: { 200: answers("The instance", InstanceAnswer) },
});
const list = route({
  id: "listInstances",
  method: "get",
  path: "/admin/instances",
  roles: READERS,
  summary: "List the instances",
  query: z.strictObject({
    ...numberedPage,
    account: z.string().optional().meta({ description: "Those of this account" }),
  }),
  answers: { 200: answers("Instances by id", listOf(InstanceAnswer)) },
});
const get = route({
  id: "getInstance",
  method: "get",
  path: "/admin/instances/{instance_id}",
  roles: READERS,
  summary: "Read an instance",
  answers: { 200: answers("The instance", InstanceAnswer) },
});
const remove = route({
  id: "deleteInstance",
  method: "delete",
  path: "/admin/instances/{instance_id}",
  summary: "Forget an instance",
  answers: { 200: answers("Deleted", Deleted) },
});

export function addInstances(api: AdminRoutes): void {
  api.add(put, async ({ work: context, params, body }) => {
    const row = instanceFrom(params.instance_id, body);
    await requireAccount(context, row.account);
    await requireUpstreams(
      context,
      row.upstreams.map((upstream) => ({ upstream })),
      (index) => `upstreams.${index}`,
    );
    const foreign = await foreignAliasesOf(context.books, row.instanceId, row.account);
    if (foreign.length > 0) {
      throw conflict(
        "foreign_instance",
        `Others than '${row.account}' may call this instance by the alias ${foreign.join(", ")}. Change that first.`,
        "account",
      );
    }
    await putInstance(context.books, row, context.now());
    await context.edge.routingChanged();
    return ok(serializeInstance(row));
  });

  api.add(list, async ({ work: context, query }) => {
    const page = await listInstances(context.books, pageRequest(query), query.account);
    return ok({ data: page.data.map(serializeInstance), next_cursor: page.nextCursor });
  });

  api.add(get, async ({ work: context, params }) => {
    const { instance_id: id } = params;
    const row = await findInstance(context.books, instanceIdFrom(id));
    return ok(serializeInstance(known(row, "instance", id)));
  });

  api.add(remove, async ({ work: context, params }) => {
    const { instance_id: id } = params;
    if (!(await deleteInstance(context.books, instanceIdFrom(id)))) throw notFound("instance", id);
    await context.edge.routingChanged();
    return ok(deleted(id));
  });
}

function instanceIdFrom(text: string): number {
  if (!/^[1-9]\d{0,14}$/.test(text)) throw invalid("instance_id", "`instance_id` must be a positive integer.");
  return Number(text);
}

function instanceFrom(id: string, body: z.output<typeof InstanceBody>): InstanceRow {
  const kind = body.kind ?? "chat";
  if (kind === "custom" && !body.custom_api_path) {
    throw invalid("custom_api_path", "`custom_api_path` is required for a custom instance.");
  }
  if (kind !== "custom" && body.custom_api_path) {
    throw invalid("custom_api_path", "`custom_api_path` is for custom instances alone.");
  }
  return {
    instanceId: instanceIdFrom(id),
    account: asId<AccountId>(body.account),
    name: body.name,
    upstreams: body.upstreams,
    kind,
    customApiPath: body.custom_api_path?.replace(/^\//, "") ?? null,
  };
}
