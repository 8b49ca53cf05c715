/**
 * `/admin/compute` and `/admin/accounts/{account}/compute`: what runs upstream and for whom, the operator's stop, and
 * the end of what is nobody's.
 */

import * as z from "zod/mini";
import { READERS } from "../../core/account/operators.ts";
import { type BrokerView, endOf } from "../../core/compute/control.ts";
import { LISTED_KINDS, type ListedKind } from "../../core/compute/listing.ts";
import { isOver } from "../../core/compute/remains.ts";
import { isMachine, isStorage } from "../../core/compute/resource.ts";
import { mountedBy } from "../../core/compute/storage-life.ts";
import { type AccountNumber, asId, type CallId } from "../../core/ids.ts";
import { seatedUpstreams } from "../../platform/d1/seats.ts";
import { findUpstream } from "../../platform/d1/upstreams.ts";
import { type AdminContext, type AdminRoutes, known, theAccount } from "../kit/context.ts";
import { listOf } from "../kit/fields.ts";
import { conflict, notFound, Problem } from "../kit/problem.ts";
import { answers, ok, route } from "../kit/route.ts";
import {
  type Marked,
  marked,
  ResourceAnswer,
  serializeInference,
  serializeResource,
  serializeView,
  UpstreamComputeAnswer,
} from "./compute-views.ts";
import { reached } from "./seats.ts";

const overview = route({
  id: "getCompute",
  method: "get",
  path: "/admin/compute",
  roles: READERS,
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
  roles: READERS,
  summary: "The machines, storage and inference instances by the hour of an account that live, with their holds",
  answers: {
    200: answers("What lives", z.object({ upstream: z.nullable(z.string()), data: z.array(ResourceAnswer) })),
  },
});
const stop = route({
  id: "stopAccountCompute",
  method: "post",
  path: "/admin/accounts/{account}/compute/stop",
  summary:
    "End one resource of an account, or all that runs (storage only by its id); repeated until upstream shows it",
  body: z.strictObject({ id: z.optional(z.int().check(z.minimum(1))) }),
  bodyOptional: true,
  answers: { 200: answers("What is being stopped", z.object({ stopping: z.array(z.int()) })) },
});

const terminate = route({
  id: "terminateCompute",
  method: "post",
  path: "/admin/compute/{upstream}/terminate",
  summary: "End something upstream that no account has. What an account has is ended by its stop",
  body: z.strictObject({
    kind: z.enum(LISTED_KINDS),
    upstream_id: z.int().check(z.minimum(0), z.describe("Its id upstream, as `seen` shows it")),
    foreign: z
      .optional(z.boolean())
      .check(z.describe("Also if its name is another gateway's tag, which may still use it")),
  }),
  answers: {
    200: answers("Upstream took it", z.object({ kind: z.string(), upstream_id: z.int(), ended: z.literal(true) })),
  },
});

export function addCompute(api: AdminRoutes): void {
  api.add(overview, async ({ work: context }) => {
    const upstreams = await seatedUpstreams(context.books);
    const views = await Promise.all(
      upstreams.map(async (id) => viewOf(context, id, await reached(() => context.broker(id).view(id)))),
    );
    return ok({ data: views, next_cursor: null });
  });

  api.add(reconcile, async ({ work: context, params: { upstream: id } }) => {
    known(await findUpstream(context.books, id), "upstream", id);
    return ok(await viewOf(context, id, await reached(() => context.broker(id).reconcile(id))));
  });

  api.add(terminate, async ({ work: context, params: { upstream: id }, body }) => {
    known(await findUpstream(context.books, id), "upstream", id);
    await endUnknown(context, id, body);
    return ok({ kind: body.kind, upstream_id: body.upstream_id, ended: true });
  });

  api.add(ofAccount, async ({ work: context, params: { account: id } }) => {
    const state = await stateOf(context, id);
    const machines = state.rows.map(({ row }) => row).filter(isMachine);
    return ok({
      upstream: state.upstream,
      data: [
        ...state.rows.flatMap(({ upstream, row }) => {
          if (!isMachine(row) && !isStorage(row)) return [];
          return [
            serializeResource(
              upstream,
              row,
              machines.some((machine) => mountedBy(machine, row.id)),
            ),
          ];
        }),
        ...state.inference.map(({ upstream, row }) => serializeInference(upstream, row)),
      ],
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

const viewOf = async (context: AdminContext, upstream: string, view: BrokerView) =>
  serializeView(upstream, view, await marked(context, upstream, view.seen));

/** Ends what a list that is asked for now shows, and what no row of ours has. */
async function endUnknown(
  context: AdminContext,
  upstream: string,
  { kind, upstream_id: upstreamId, foreign }: { kind: ListedKind; upstream_id: number; foreign?: boolean | undefined },
): Promise<void> {
  const lists = await reached(() => context.broker(upstream).fresh(upstream, kind));
  if (!lists.ok) {
    throw new Problem(
      503,
      "upstream_not_listed",
      `'${upstream}' gave no list of its ${kind}s now. Try again in a minute.`,
    );
  }
  const seen = lists.seen.find((one) => one.upstreamId === upstreamId);
  const [found] = seen ? await marked(context, upstream, [seen]) : [];
  if (!found) throw notFound(kind, String(upstreamId));
  refuseOurs(found, foreign ?? false);
  const answer = await reached(() =>
    context.broker(upstream).send(upstream, {
      account: asId<AccountNumber>(0),
      callId: asId<CallId>(crypto.randomUUID()),
      cls: "stop",
      ...endOf(kind, upstreamId),
      body: null,
      needsNanoUsd: null,
      terms: null,
    }),
  );
  context.log({ event: "compute_terminated", upstream, kind, upstream_id: upstreamId, answer: answer.kind });
  if (answer.kind === "answered" && (answer.status < 300 || answer.status === 404)) return;
  if (answer.kind === "answered" && answer.status < 500) {
    throw conflict(
      "upstream_refused",
      `'${upstream}' refused with ${answer.status}: ${answer.body || "no reason given"}`,
    );
  }
  throw new Problem(
    503,
    "upstream_unanswered",
    `'${upstream}' did not confirm the end. POST /admin/compute/${upstream}/reconcile shows whether it is there; then send this again.`,
  );
}

function refuseOurs({ seen, mark, known: row }: Marked, foreign: boolean): void {
  if (isOver(seen)) throw conflict("compute_ended", `This ${seen.kind} has ended already.`);
  if (mark === "live") {
    throw conflict(
      "compute_known",
      `This ${seen.kind} is ${row?.id} of the account number ${seen.account}. End it by POST /admin/accounts/{account}/compute/stop.`,
    );
  }
  if (mark === "foreign" && !foreign) {
    throw conflict(
      "compute_foreign",
      `The name of this ${seen.kind} is another gateway's tag, which may still use it. If it is to end all the same, send \`foreign: true\`.`,
      "foreign",
    );
  }
}
