/**
 * `/admin/upstreams`: where calls can go. A credential is sealed before it is stored and never shown. A PUT without a
 * credential keeps the stored one unless it changes the origin: a key goes only to the host that it was given for.
 */
import * as z from "zod";
import { DEFAULT_TIMEOUTS, type UpstreamRow } from "../../core/routing/routes.ts";
import { deleteUpstream, findUpstream, listUpstreams, putUpstream } from "../../platform/d1/upstreams.ts";
import { type AdminRoutes, known } from "../kit/context.ts";
import { Deleted, deleted, listOf, namedPage, pageRequest, slug } from "../kit/fields.ts";
import { conflict, invalid, notFound } from "../kit/problem.ts";
import { answers, ok, route } from "../kit/route.ts";

import { UpstreamAnswer, UpstreamBody } from "./upstream-schema.ts";

const serializeUpstream = (row: UpstreamRow) => ({
  id: row.id,
  base_url: row.baseUrl,
  api_key_set: true as const,
  region: row.region,
  shared: row.shared,
  timeouts: {
    connect_ms: row.timeouts.connectMs,
    first_byte_ms: row.timeouts.firstByteMs,
    answer_ms: row.timeouts.answerMs,
    idle_ms: row.timeouts.idleMs,
    total_ms: row.timeouts.totalMs,
  },
});

const put = route({
  id: "putUpstream",
  method: "put",
  path: "/admin/upstreams/{upstream}",
  summary: "Make or replace an upstream",
  body: UpstreamBody,
  answers: { 200: answers("The upstream, without its credential", UpstreamAnswer) },
});
const list = route({
  id: "listUpstreams",
  method: "get",
  path: "/admin/upstreams",
  summary: "List the upstreams",
  query: z.strictObject(namedPage),
  answers: { 200: answers("Upstreams by id", listOf(UpstreamAnswer)) },
});
const get = route({
  id: "getUpstream",
  method: "get",
  path: "/admin/upstreams/{upstream}",
  summary: "Read an upstream",
  answers: { 200: answers("The upstream, without its credential", UpstreamAnswer) },
});
const remove = route({
  id: "deleteUpstream",
  method: "delete",
  path: "/admin/upstreams/{upstream}",
  summary: "Delete an upstream that no alias, instance or model names",
  answers: { 200: answers("Deleted", Deleted) },
});

/** The stored credential, kept if the request gives none and the host is unchanged. */
function keptCredential(stored: UpstreamRow | undefined, baseUrl: string): string {
  if (!stored) throw invalid("api_key", "`api_key` is required: this upstream has none yet.");
  if (new URL(stored.baseUrl).origin !== new URL(baseUrl).origin) {
    throw invalid("api_key", "`api_key` is required: `base_url` names another host than the stored key was given for.");
  }
  return stored.sealedApiKey;
}

export function addUpstreams(api: AdminRoutes): void {
  api.add(put, async ({ work: context, params, body }) => {
    const { upstream: id } = params;
    if (!slug.safeParse(id).success) throw invalid("upstream", "`upstream` must be letters, digits, `.`, `_` or `-`.");
    const sealed =
      body.api_key === undefined
        ? keptCredential(await findUpstream(context.books, id), body.base_url)
        : await context.secrets.seal(id, body.api_key);
    const row: UpstreamRow = {
      id,
      baseUrl: body.base_url,
      region: body.region ?? null,
      shared: body.shared ?? false,
      sealedApiKey: sealed,
      timeouts: {
        connectMs: body.timeouts?.connect_ms ?? DEFAULT_TIMEOUTS.connectMs,
        firstByteMs: body.timeouts?.first_byte_ms ?? DEFAULT_TIMEOUTS.firstByteMs,
        answerMs: body.timeouts?.answer_ms ?? DEFAULT_TIMEOUTS.answerMs,
        idleMs: body.timeouts?.idle_ms ?? DEFAULT_TIMEOUTS.idleMs,
        totalMs: body.timeouts?.total_ms ?? DEFAULT_TIMEOUTS.totalMs,
      },
    };
    await putUpstream(context.books, row, context.now());
    await context.edge.routingChanged();
    return ok(serializeUpstream(row));
  });

  api.add(list, async ({ work: context, query }) => {
    const page = await listUpstreams(context.books, pageRequest(query));
    return ok({ data: page.data.map(serializeUpstream), next_cursor: page.nextCursor });
  });

  api.add(get, async ({ work: context, params }) => {
    const { upstream: id } = params;
    return ok(serializeUpstream(known(await findUpstream(context.books, id), "upstream", id)));
  });

  api.add(remove, async ({ work: context, params }) => {
    const { upstream: id } = params;
    const outcome = await deleteUpstream(context.books, id);
    if (outcome.kind === "unknown") throw notFound("upstream", id);
    if (outcome.kind === "in_use") {
      throw conflict(
        "upstream_in_use",
        `The upstream '${id}' is named by ${outcome.users.join(", ")}. Change those first.`,
      );
    }
    await context.edge.routingChanged();
    return ok(deleted(id));
  });
}
