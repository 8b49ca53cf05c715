/**
 * `/admin/compute` and `/admin/accounts/{account}/compute`: what runs upstream and for whom, and the operator's stop.
 */
import * as z from "zod";
import type { BrokerView, Seen } from "../../core/compute/control.ts";
import { clusterStatus, instanceStatus, isMachine, type MachineRow } from "../../core/compute/resource.ts";
import { asObject } from "../../core/formats/json-fields.ts";
import { toUsd } from "../../core/pricing/money.ts";
import { seatedUpstreams } from "../../platform/d1/seats.ts";
import { findUpstream } from "../../platform/d1/upstreams.ts";
import { type AdminContext, type AdminRoutes, known, theAccount } from "../kit/context.ts";
import { listOf, timeAnswer, usdAnswer } from "../kit/fields.ts";
import { Problem } from "../kit/problem.ts";
import { answers, ok, route } from "../kit/route.ts";
import { toIso, toIsoOrNull } from "../kit/serializers.ts";

const ResourceAnswer = z
  .object({
    id: z.int(),
    kind: z.enum(["instance", "cluster"]),
    name: z.string(),
    status: z.string(),
    upstream: z.string(),
    upstream_id: z.int().nullable(),
    tag: z.string().meta({ description: "Its name upstream" }),
    key: z.string(),
    gpu_type: z.string(),
    gpus: z.int(),
    hourly_price_usd: usdAnswer,
    hourly_cost_usd: usdAnswer,
    held_usd: usdAnswer,
    paid_until: timeAnswer.nullable(),
    end_wanted: z.string().nullable().meta({ description: "Why its end is wanted; null: it is not" }),
    created_at: timeAnswer,
  })
  .meta({ id: "ComputeResource" });

const serializeResource = (upstream: string, row: MachineRow): z.input<typeof ResourceAnswer> => ({
  id: row.id,
  kind: row.kind,
  name: row.launched.name,
  status: row.kind === "instance" ? instanceStatus(row) : clusterStatus(row),
  upstream,
  upstream_id: row.upstreamId,
  tag: row.tag,
  key: row.by.keyId,
  gpu_type: row.launched.gpuType,
  gpus: row.launched.gpuCount * row.wants.replicas,
  hourly_price_usd: toUsd(row.rental.rate.priceNanoUsd),
  hourly_cost_usd: toUsd(row.rental.rate.costNanoUsd),
  held_usd: toUsd(row.rental.heldNanoUsd ?? 0),
  paid_until: row.rental.phase.at === "running" ? toIso(row.rental.phase.paidUntilMs) : null,
  end_wanted: row.wants.end?.reason ?? null,
  created_at: toIso(row.createdAtMs),
});

const SeenAnswer = z
  .object({
    kind: z.string(),
    upstream_id: z.int(),
    name: z.string(),
    account: z.int().nullable().meta({ description: "The account's number by its tag; null: not ours" }),
    status: z.string().nullable(),
    hourly_cost_usd: usdAnswer.nullable(),
  })
  .meta({ id: "ComputeSeen" });

const UpstreamComputeAnswer = z
  .object({
    upstream: z.string(),
    balance_usd: usdAnswer.nullable().meta({ description: "The upstream account's own; null: not read yet" }),
    balance_at: timeAnswer.nullable(),
    burn_usd_per_hour: usdAnswer,
    runway_hours: z.number().nullable().meta({ description: "Until that balance is used up; null: nothing runs" }),
    calls_last_minute: z.object({ stop: z.int(), create: z.int(), call: z.int(), list: z.int() }),
    paused_until: timeAnswer.nullable(),
    seen: z.array(SeenAnswer).meta({ description: "What the last lists showed" }),
  })
  .meta({ id: "UpstreamCompute" });

function serializeSeen({ kind, upstreamId, tag, account, document }: Seen): z.input<typeof SeenAnswer> {
  const { status, hourly_rate_usd } = asObject(JSON.parse(document)) ?? {};
  return {
    kind,
    upstream_id: upstreamId,
    name: tag,
    account,
    status: typeof status === "string" ? status : null,
    hourly_cost_usd: typeof hourly_rate_usd === "number" ? hourly_rate_usd : null,
  };
}

const serializeView = (upstream: string, view: BrokerView): z.input<typeof UpstreamComputeAnswer> => ({
  upstream,
  balance_usd: view.balanceNanoUsd === null ? null : toUsd(view.balanceNanoUsd),
  balance_at: toIsoOrNull(view.balanceAtMs),
  burn_usd_per_hour: toUsd(view.burnNanoUsdPerHour),
  runway_hours:
    view.balanceNanoUsd === null || view.burnNanoUsdPerHour === 0
      ? null
      : Math.max(0, view.balanceNanoUsd / view.burnNanoUsdPerHour),
  calls_last_minute: view.calls,
  paused_until: toIsoOrNull(view.pausedUntilMs),
  seen: view.seen.map(serializeSeen),
});

const overview = route({
  id: "getCompute",
  method: "get",
  path: "/admin/compute",
  summary: "What each upstream with seats runs, costs and still has",
  answers: { 200: answers("Upstreams that seat accounts", listOf(UpstreamComputeAnswer)) },
});
const reconcile = route({
  id: "reconcileCompute",
  method: "post",
  path: "/admin/compute/{upstream}/reconcile",
  summary: "Read all lists of an upstream now, and tell its accounts",
  answers: { 200: answers("What was seen", UpstreamComputeAnswer) },
});
const ofAccount = route({
  id: "getAccountCompute",
  method: "get",
  path: "/admin/accounts/{account}/compute",
  summary: "The instances and clusters of an account that live, with their holds",
  answers: {
    200: answers("What lives", z.object({ upstream: z.string().nullable(), data: z.array(ResourceAnswer) })),
  },
});
const stop = route({
  id: "stopAccountCompute",
  method: "post",
  path: "/admin/accounts/{account}/compute/stop",
  summary: "End one resource of an account, or all of them; repeated until upstream shows the end",
  body: z.strictObject({ id: z.int().min(1).optional() }),
  bodyOptional: true,
  answers: { 200: answers("What is being stopped", z.object({ stopping: z.array(z.int()) })) },
});

export function addCompute(api: AdminRoutes): void {
  api.add(overview, async ({ work: context }) => {
    const upstreams = await seatedUpstreams(context.books);
    const views = await Promise.all(
      upstreams.map(async (id) => serializeView(id, await inReach(() => context.broker(id).view(id)))),
    );
    return ok({ data: views, next_cursor: null });
  });

  api.add(reconcile, async ({ work: context, params: { upstream: id } }) => {
    known(await findUpstream(context.books, id), "upstream", id);
    return ok(serializeView(id, await inReach(() => context.broker(id).reconcile(id))));
  });

  api.add(ofAccount, async ({ work: context, params: { account: id } }) => {
    const state = await stateOf(context, id);
    return ok({
      upstream: state.upstream,
      data: state.rows.flatMap(({ upstream, row }) => (isMachine(row) ? [serializeResource(upstream, row)] : [])),
    });
  });

  api.add(stop, async ({ work: context, params: { account: id }, body }) => {
    const { object } = await theAccount(context, id);
    const stopping = known(await object.stopCompute(body?.id ?? null), "account", id);
    return ok({ stopping: [...stopping] });
  });
}

async function stateOf(context: AdminContext, id: string) {
  const { object } = await theAccount(context, id);
  return known(await object.computeState(), "account", id);
}

/** A broker that cannot be asked is a 503, not a defect. */
async function inReach<T>(ask: () => Promise<T>): Promise<T> {
  try {
    return await ask();
  } catch {
    throw new Problem(503, "broker_unavailable", "The upstream's broker cannot be reached now. Try again.");
  }
}
