/** `/admin/instances`: user-deployed models `<name>:<instance_id>` and the accounts that own them. */

import * as z from "zod/mini";
import { READERS } from "../../core/account/operators.ts";
import { sameHourly } from "../../core/compute/inference.ts";
import { gpuModel } from "../../core/compute/market.ts";
import { toHttp } from "../../core/http-refusal.ts";
import { type AccountId, asId } from "../../core/ids.ts";
import type { HourlyPlan, InstanceRow } from "../../core/routing/routes.ts";
import { foreignAliasesOf } from "../../platform/d1/aliases.ts";
import {
  deleteInstance,
  findInstance,
  listInstances,
  putInstance,
  readInstance,
  rentalOf,
} from "../../platform/d1/instances.ts";
import { currentModel } from "../../platform/d1/models.ts";
import { type AdminContext, type AdminRoutes, known, theAccount, theLiveAccount } from "../kit/context.ts";
import { Deleted, deleted, listOf, numberedPage, pageRequest } from "../kit/fields.ts";
import { conflict, invalid, Problem } from "../kit/problem.ts";
import { requireAccount, requireUpstreams } from "../kit/references.ts";
import { answers, ok, route } from "../kit/route.ts";

import { InstanceAnswer, InstanceBody, InstancePatch } from "./instance-schema.ts";

const serializeInstance = (row: InstanceRow) => ({
  instance_id: row.instanceId,
  model: `${row.name}:${row.instanceId}`,
  account: row.account,
  name: row.name,
  upstreams: [...row.upstreams],
  kind: row.kind,
  custom_api_path: row.customApiPath,
  hourly: row.hourly
    ? { gpu_type: row.hourly.gpuType, gpu_count: row.hourly.gpuCount, replicas: row.hourly.replicas }
    : null,
});

const put = route({
  id: "putInstance",
  method: "put",
  path: "/admin/instances/{instance_id}",
  summary: "Register or replace an instance",
  body: InstanceBody,
  answers: { 200: answers("The instance", InstanceAnswer) },
});
const patch = route({
  id: "updateInstance",
  method: "patch",
  path: "/admin/instances/{instance_id}",
  summary: "Change what is named, leave the rest; another `hourly` than it has is 409",
  body: InstancePatch,
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
    account: z.optional(z.string()).check(z.describe("Those of this account")),
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
  summary: "Forget an instance; one by the hour is charged to now, and the rest of its hold comes back",
  answers: { 200: answers("Deleted", Deleted) },
});

export function addInstances(api: AdminRoutes): void {
  api.add(put, async ({ work: context, params, body }) => {
    const row = instanceFrom(params.instance_id, body);
    await check(context, row);
    await storeWithRental(context, row, "any");
    await context.edge.routingChanged();
    return ok(serializeInstance(row));
  });

  api.add(patch, async ({ work: context, params: { instance_id: id }, body }) => {
    const { row: stored, version } = known(await readInstance(context.books, instanceIdFrom(id)), "instance", id);
    const whole = bodyOf(stored);
    const { account = whole.account, name = whole.name, upstreams = whole.upstreams, ...settings } = body;
    const row = instanceFrom(id, { ...whole, ...settings, account, name, upstreams });
    await check(context, row);
    await storeWithRental(context, row, version);
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
    const instanceId = instanceIdFrom(id);
    const row = known(await findInstance(context.books, instanceId), "instance", id);
    const rental = await rentalOf(context.books, instanceId);
    if (rental !== null) await endRental(context, row.account, rental);
    if (!(await deleteInstance(context.books, instanceId, rental))) throw changedMeanwhile(id);
    await context.edge.routingChanged();
    return ok(deleted(id));
  });
}

async function check(context: AdminContext, row: InstanceRow): Promise<void> {
  await requireAccount(context, row.account);
  await requireUpstreams(
    context,
    row.upstreams.map((upstream) => ({ upstream })),
    (index) => `upstreams.${index}`,
  );
  const foreign = await foreignAliasesOf(context.books, row.instanceId, row.account);
  if (foreign.length === 0) return;
  throw conflict(
    "foreign_instance",
    `Others than '${row.account}' may call this instance by the alias ${foreign.join(", ")}. Change that first.`,
    "account",
  );
}

/**
 * Begins the rental of an instance by the hour before it is known to calls. `version`: stores it only over the row that
 * was read with it.
 */
async function storeWithRental(context: AdminContext, row: InstanceRow, version: number | "any"): Promise<void> {
  const id = String(row.instanceId);
  const stored = await findInstance(context.books, row.instanceId);
  if (stored?.hourly && (stored.account !== row.account || !row.hourly || !sameHourly(stored.hourly, row.hourly))) {
    throw otherHourly(id, stored.hourly);
  }
  const begun = row.hourly ? await beginRental(context, row, row.hourly) : null;
  const takeBack = () => (begun?.anew ? endRental(context, row.account, begun.rental, true) : Promise.resolve());
  const rental = begun?.rental ?? null;
  const written = await putInstance(context.books, row, rental, context.now(), version).catch(async (error) => {
    await takeBack();
    throw error;
  });
  if (!written) {
    await takeBack();
    const other = await rentalOf(context.books, row.instanceId);
    throw other === null || other === rental ? changedMeanwhile(id) : otherRental(id);
  }
  if (row.hourly) await beginRental(context, row, row.hourly, true);
}

async function beginRental(context: AdminContext, row: InstanceRow, hourly: HourlyPlan, stored = false) {
  const gpuRow = await currentModel(context.books, gpuModel(hourly.gpuType), context.now());
  if (!gpuRow) throw unpriced(hourly);
  const { object } = await theLiveAccount(context, row.account);
  const asked = { instanceId: row.instanceId, stored, hourly, upstream: row.upstreams[0] ?? "", gpuRow };
  const begun = known(await object.beginHourly(asked), "account", row.account);
  switch (begun.kind) {
    case "begun":
      return begun;
    case "other":
      throw otherHourly(String(row.instanceId), begun.hourly);
    case "unpriced":
      throw unpriced(hourly);
    case "account_deleted":
      throw conflict("account_deleted", `The account '${row.account}' is deleted.`, "account");
    case "refused": {
      const { message } = toHttp(begun.refusal);
      throw new Problem(402, "insufficient_quota", `The first day cannot be held. ${message}`, "hourly");
    }
  }
}

async function endRental(context: AdminContext, account: AccountId, rental: number, unused = false): Promise<void> {
  const { object } = await theAccount(context, account);
  await object.endHourly(rental, unused);
}

const unpriced = ({ gpuType }: HourlyPlan): Problem =>
  invalid(
    "hourly.gpu_type",
    `\`hourly.gpu_type\`: the price book has no row '${gpuModel(gpuType)}' with a price of \`gpu_hours\`. PUT /admin/models/... makes one.`,
  );

const otherHourly = (id: string, { gpuType, gpuCount, replicas }: HourlyPlan): Problem =>
  conflict(
    "instance_hourly",
    `The instance ${id} is paid by the hour for ${replicas} x ${gpuCount} ${gpuType}. Send the same account and \`hourly\`, or DELETE it first: that ends its rental.`,
    "hourly",
  );

/** Another account's, or one that was never confirmed and is over: the books name it, so nothing replaces it. */
const otherRental = (id: string): Problem =>
  conflict(
    "instance_hourly",
    `The instance ${id} has another rental. DELETE it first, then send this again.`,
    "hourly",
  );

const changedMeanwhile = (id: string): Problem =>
  conflict("instance_changed", `Another call changed the instance ${id} at this moment. Send this again.`);

function instanceIdFrom(text: string): number {
  if (!/^[1-9]\d{0,14}$/.test(text)) throw invalid("instance_id", "`instance_id` must be a positive integer.");
  return Number(text);
}

/** The body that makes this row. */
function bodyOf({ account, name, upstreams, kind, customApiPath, hourly }: InstanceRow): z.output<typeof InstanceBody> {
  return {
    account,
    name,
    upstreams: [...upstreams],
    kind,
    custom_api_path: customApiPath,
    ...(hourly && {
      hourly: { gpu_type: hourly.gpuType, gpu_count: hourly.gpuCount, replicas: hourly.replicas },
    }),
  };
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
    ...(body.hourly && {
      hourly: {
        gpuType: body.hourly.gpu_type,
        gpuCount: body.hourly.gpu_count,
        replicas: body.hourly.replicas,
      },
    }),
  };
}
