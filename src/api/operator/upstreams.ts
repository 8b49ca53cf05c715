/**
 * `/admin/upstreams`: where calls can go. A credential is sealed before it is stored and never shown. A PUT replaces
 * the whole, a PATCH what it names; without a credential both keep the stored one unless they change the origin: a key
 * goes only to the host that it was given for.
 */
import * as z from "zod/mini";
import { DEFAULT_TIMEOUTS, type UpstreamRow } from "../../core/routing/routes.ts";
import { deleteUpstream, findUpstream, listUpstreams, putUpstream, readUpstream } from "../../platform/d1/upstreams.ts";
import { type PlatformSecrets, serviceSeal } from "../../platform/secrets.ts";
import { type AdminContext, type AdminRoutes, known } from "../kit/context.ts";
import { Deleted, deleted, listOf, namedPage, pageRequest, slug } from "../kit/fields.ts";
import { changeLatest } from "../kit/latest-change.ts";
import { conflict, invalid, notFound } from "../kit/problem.ts";
import { answers, ok, route } from "../kit/route.ts";
import { toIsoOrNull } from "../kit/serializers.ts";
import { whileAtRest } from "./seats.ts";
import { checkModels } from "./upstream-check.ts";
import { UpstreamAnswer, UpstreamBody, UpstreamPatch } from "./upstream-schema.ts";

const serializeUpstream = (row: UpstreamRow) => ({
  id: row.id,
  base_url: row.baseUrl,
  api_key_set: true as const,
  service_api_key_set: row.service !== undefined,
  service_checked_at: toIsoOrNull(row.service?.checkedMs ?? null),
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

const checkQuery = z.strictObject({
  check: z
    .optional(z.enum(["true", "false"]))
    .check(z.describe("`true`: it is called first, as it would be; what does not answer is 409 and not stored")),
});

const put = route({
  id: "putUpstream",
  method: "put",
  path: "/admin/upstreams/{upstream}",
  summary: "Make or replace an upstream",
  query: checkQuery,
  body: UpstreamBody,
  answers: { 200: answers("The upstream, without its credential", UpstreamAnswer) },
});
const patch = route({
  id: "updateUpstream",
  method: "patch",
  path: "/admin/upstreams/{upstream}",
  summary: "Change what is named, leave the rest",
  query: checkQuery,
  body: UpstreamPatch,
  answers: { 200: answers("The upstream, without its credential", UpstreamAnswer) },
});
const list = route({
  id: "listUpstreams",
  method: "get",
  path: "/admin/upstreams",
  roles: { support: "all", read: "all" },
  summary: "List the upstreams",
  query: z.strictObject(namedPage),
  answers: { 200: answers("Upstreams by id", listOf(UpstreamAnswer)) },
});
const get = route({
  id: "getUpstream",
  method: "get",
  path: "/admin/upstreams/{upstream}",
  roles: { support: "all", read: "all" },
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

type Given = Pick<z.output<typeof UpstreamPatch>, "api_key" | "service_api_key">;
type Secrets = Pick<PlatformSecrets, "seal" | "unseal">;
type Keys = Pick<UpstreamRow, "sealedApiKey" | "service">;

/** Given credentials are sealed; stored ones are kept, but not for another host than they were given for. */
async function credentialsOf(
  { id, baseUrl }: Pick<UpstreamRow, "id" | "baseUrl">,
  body: Given,
  stored: UpstreamRow | undefined,
  secrets: Secrets,
): Promise<Keys> {
  const moved = stored && new URL(stored.baseUrl).origin !== new URL(baseUrl).origin;
  const again = (field: string) =>
    invalid(field, `\`${field}\` is required: \`base_url\` names another host than the stored key was given for.`);
  if (body.api_key === undefined) {
    if (!stored) throw invalid("api_key", "`api_key` is required: this upstream has none yet.");
    if (moved) throw again("api_key");
  }
  if (body.service_api_key === undefined && stored?.service && moved) throw again("service_api_key");
  const sealedApiKey = body.api_key === undefined ? stored?.sealedApiKey : await secrets.seal(id, body.api_key);
  const sealedKey =
    body.service_api_key === undefined
      ? stored?.service?.sealedKey
      : body.service_api_key && (await secrets.seal(serviceSeal(id), body.service_api_key));
  if (sealedKey && (await sameKey(id, sealedApiKey ?? "", sealedKey, secrets))) {
    throw invalid(
      "service_api_key",
      "`service_api_key` must differ from `api_key`: calls of tenants' services would use up those that end machines.",
    );
  }
  return { sealedApiKey: sealedApiKey ?? "", ...(sealedKey && { service: { sealedKey, checkedMs: null } }) };
}

/** False where one cannot be opened: then it is of no use either. */
async function sameKey(id: string, control: string, service: string, secrets: Secrets): Promise<boolean> {
  try {
    return (await secrets.unseal(id, control)) === (await secrets.unseal(serviceSeal(id), service));
  } catch {
    return false;
  }
}

type Settings = Omit<UpstreamRow, "id" | "sealedApiKey" | "service">;
const NEW_UPSTREAM: Omit<Settings, "baseUrl"> = { region: null, shared: false, timeouts: DEFAULT_TIMEOUTS };

/** `base` with what the body names. */
const settingsOf = (base: Settings, body: z.output<typeof UpstreamPatch>): Settings => ({
  baseUrl: body.base_url ?? base.baseUrl,
  region: body.region === undefined ? base.region : body.region,
  shared: body.shared ?? base.shared,
  timeouts: {
    connectMs: body.timeouts?.connect_ms ?? base.timeouts.connectMs,
    firstByteMs: body.timeouts?.first_byte_ms ?? base.timeouts.firstByteMs,
    answerMs: body.timeouts?.answer_ms ?? base.timeouts.answerMs,
    idleMs: body.timeouts?.idle_ms ?? base.timeouts.idleMs,
    totalMs: body.timeouts?.total_ms ?? base.timeouts.totalMs,
  },
});

function change(
  context: AdminContext,
  id: string,
  baseOf: (stored: UpstreamRow | undefined) => Settings,
  body: z.output<typeof UpstreamPatch>,
  { check }: z.output<typeof checkQuery>,
): Promise<UpstreamRow> {
  return changeLatest("upstream", id, async () => {
    const found = await readUpstream(context.books, id);
    const settings = settingsOf(baseOf(found?.row), body);
    const keys = await credentialsOf({ id, ...settings }, body, found?.row, context.secrets);
    const row: UpstreamRow = { id, ...settings, ...keys };
    if (check === "true") await refuseSilent(context, row);
    const write = () => putUpstream(context.books, row, context.now(), found?.version ?? "none");
    if (!(found ? await whileAtRest(context, found.row, row, write) : await write())) return undefined;
    await context.edge.routingChanged();
    // Read again: whether service paths stay on is known there.
    return (await findUpstream(context.books, id)) ?? row;
  });
}

async function refuseSilent(context: AdminContext, row: UpstreamRow): Promise<void> {
  const { ok: answered, status, problem } = await checkModels(context, row);
  if (answered) return;
  const said = status === null ? "" : ` (it answered ${status})`;
  throw conflict("upstream_check_failed", `Nothing was stored. ${problem}${said}`, "check");
}

export function addUpstreams(api: AdminRoutes): void {
  api.add(put, async ({ work: context, params, query, body }) => {
    const { upstream: id } = params;
    if (!slug.safeParse(id).success) throw invalid("upstream", "`upstream` must be letters, digits, `.`, `_` or `-`.");
    return ok(
      serializeUpstream(await change(context, id, () => ({ ...NEW_UPSTREAM, baseUrl: body.base_url }), body, query)),
    );
  });

  api.add(patch, async ({ work: context, params: { upstream: id }, query, body }) => {
    return ok(serializeUpstream(await change(context, id, (stored) => known(stored, "upstream", id), body, query)));
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
