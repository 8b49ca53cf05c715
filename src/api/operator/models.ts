/**
 * `/admin/models`: the price book. A PUT or PATCH says what a model is and where it runs, which holds at once. Prices
 * are dated: earlier ones stay and explain old charges. Token prices are USD per million, the others USD per second,
 * image or request.
 */

import * as z from "zod/mini";
import { READERS } from "../../core/account/operators.ts";
import type { DatedPrices, ModelKind, ModelRow, ModelSettings } from "../../core/pricing/prices.ts";
import {
  changeModel,
  deleteModel,
  deletePrices,
  findModel,
  listModels,
  modelHistory,
  putModel,
  putPrices,
} from "../../platform/d1/models.ts";
import { type AdminContext, type AdminRoutes, known } from "../kit/context.ts";
import { Deleted, deleted, listOf, namedPage, pageRequest, time } from "../kit/fields.ts";
import { changeLatest } from "../kit/latest-change.ts";
import { conflict, invalid, notFound } from "../kit/problem.ts";
import { requireUpstreams } from "../kit/references.ts";
import { answers, ok, route } from "../kit/route.ts";
import { serializePrices, toIso } from "../kit/serializers.ts";
import { refusePriceLoss } from "./alias-loss.ts";
import { checkedPrices, checkSettings, fromTime } from "./model-rules.ts";
import { ModelAnswer, ModelBody, ModelPatch, ModelPricesBody, RowAnswer } from "./model-schema.ts";

const serializeModel = (model: ModelSettings, prices: DatedPrices | null) => ({
  model: model.model,
  kind: model.kind,
  prices: prices ? serializePrices(prices.costNanoUsd, prices.priceNanoUsd) : {},
  free: prices?.free ?? false,
  from: prices && toIso(prices.fromMs),
  max_output_tokens: model.maxOutputTokens ?? null,
  context_tokens: model.contextTokens ?? null,
  prompt_overhead_tokens: model.promptOverheadTokens ?? null,
  max_part_tokens: model.maxPartTokens ?? null,
  part_tokens: model.partTokens ?? null,
  display_name: model.displayName ?? null,
  vram_gb: model.vramGb ?? null,
  cap_field: model.capField ?? null,
  upstream: model.upstream ?? null,
});
const serializeRow = (row: ModelRow) => serializeModel(row, row);

const put = route({
  id: "putModel",
  method: "put",
  path: "/admin/models/{model}",
  summary: "Say what a model is and where it runs, at once; with `prices`, what it costs from now on",
  body: ModelBody,
  answers: { 200: answers("The model", ModelAnswer) },
});
const patch = route({
  id: "updateModel",
  method: "patch",
  path: "/admin/models/{model}",
  summary: "Change what is named of a model, leave the rest and its prices",
  body: ModelPatch,
  answers: { 200: answers("The model", ModelAnswer) },
});
const price = route({
  id: "putModelPrices",
  method: "put",
  path: "/admin/models/{model}/prices",
  roles: { finance: "all" },
  summary: "Set prices from a time on; those with the same `from` are replaced",
  body: ModelPricesBody,
  answers: { 200: answers("The row", RowAnswer) },
});
const unprice = route({
  id: "deleteModelPrices",
  method: "delete",
  path: "/admin/models/{model}/prices/{from}",
  roles: { finance: "all" },
  summary: "Take back prices that are to come",
  answers: { 200: answers("Deleted", Deleted) },
});
const list = route({
  id: "listModels",
  method: "get",
  path: "/admin/models",
  roles: READERS,
  summary: "List each model with the prices that hold now, or the first to come",
  query: z.strictObject(namedPage),
  answers: { 200: answers("Rows by model", listOf(RowAnswer)) },
});
const get = route({
  id: "getModel",
  method: "get",
  path: "/admin/models/{model}",
  roles: READERS,
  summary: "Read a model with the prices that hold now, or the first to come, and the history",
  answers: { 200: answers("The model", ModelAnswer) },
});
const remove = route({
  id: "deleteModel",
  method: "delete",
  path: "/admin/models/{model}",
  summary: "Take a model with its history out of the price book",
  answers: { 200: answers("Deleted", Deleted) },
});

export function addModels(api: AdminRoutes): void {
  api.add(put, async ({ work: context, params, body }) => {
    if (body.from !== undefined) throw invalid("from", DATED);
    const model = checkSettings(settingsOf({ model: params.model, kind: body.kind }, body));
    const prices = pricesIn(model.kind, body, context.now());
    await requireUpstream(context, model);
    if (prices && !body.allow_loss) await refusePriceLoss(context, model, prices);
    await putModel(context.books, model, prices, context.now());
    await context.edge.routingChanged();
    return ok(await readModel(context, model.model));
  });

  api.add(patch, async ({ work: context, params: { model: called }, body }) => {
    await change(context, called, body);
    return ok(await readModel(context, called));
  });

  api.add(price, async ({ work: context, params: { model: called }, body }) => {
    const { settings } = known(await findModel(context.books, called), "model", called);
    const prices = checkedPrices(settings.kind, body, fromTime(body.from, context.now(), "from"));
    if (!body.allow_loss) await refusePriceLoss(context, settings, prices);
    if (!(await putPrices(context.books, called, prices, context.now()))) throw notFound("model", called);
    await context.edge.routingChanged();
    return ok(serializeModel(settings, prices));
  });

  api.add(unprice, async ({ work: context, params: { model: called, from } }) => {
    const parsed = time.safeParse(from);
    if (!parsed.success) throw invalid("from", "`from` must be the time of a row, as `history` shows it.");
    if (!(await deletePrices(context.books, called, parsed.data, context.now()))) {
      await refuseUnpricing(context, called, parsed.data);
    }
    await context.edge.routingChanged();
    return ok(deleted(toIso(parsed.data)));
  });

  addReads(api);
}

function addReads(api: AdminRoutes): void {
  api.add(list, async ({ work: context, query }) => {
    const page = await listModels(context.books, pageRequest(query), context.now());
    const data = page.data.map(({ settings, prices }) => serializeModel(settings, prices));
    return ok({ data, next_cursor: page.nextCursor });
  });

  api.add(get, async ({ work: context, params: { model: called } }) => ok(await readModel(context, called)));

  api.add(remove, async ({ work: context, params }) => {
    const { model: called } = params;
    if (!(await deleteModel(context.books, called))) throw notFound("model", called);
    await context.edge.routingChanged();
    return ok(deleted(called));
  });
}

const DATED =
  "`from` is for prices alone, so that no price moves traffic on its day: send `prices` and `from` to " +
  "PUT /admin/models/{model}/prices.";

async function readModel(context: AdminContext, called: string) {
  const { settings } = known(await findModel(context.books, called), "model", called);
  const history = await modelHistory(context.books, called);
  const now = context.now();
  const row = history.find(({ fromMs }) => fromMs <= now) ?? history.at(-1) ?? null;
  return { ...serializeModel(settings, row), history: history.map(serializeRow) };
}

async function requireUpstream(context: AdminContext, { upstream }: ModelSettings): Promise<void> {
  if (upstream !== undefined) await requireUpstreams(context, [{ upstream }], () => "upstream");
}

async function change(context: AdminContext, called: string, body: z.output<typeof ModelPatch>): Promise<void> {
  await changeLatest("model", called, async () => {
    const { settings, version } = known(await findModel(context.books, called), "model", called);
    const model = checkSettings(settingsOf(settings, body));
    await requireUpstream(context, model);
    if (!(await changeModel(context.books, model, context.now(), version))) return undefined;
    await context.edge.routingChanged();
    return model;
  });
}

async function refuseUnpricing(context: AdminContext, called: string, fromMs: number): Promise<never> {
  const history = await modelHistory(context.books, called);
  if (!history.some((row) => row.fromMs === fromMs)) throw notFound("from", toIso(fromMs));
  throw conflict("prices_in_force", "These prices hold already. Set others; what was charged stays as it was.", "from");
}

function pricesIn(kind: ModelKind, body: z.output<typeof ModelBody>, nowMs: number): DatedPrices | null {
  if (body.prices) return checkedPrices(kind, { prices: body.prices, free: body.free }, nowMs);
  if (body.free !== undefined) throw invalid("free", "`free` goes with `prices`: send both, or neither.");
  return null;
}

/** `base` with what the body names; null takes a value away. */
function settingsOf(base: ModelSettings, body: z.output<typeof ModelPatch>): ModelSettings {
  const given = <T>(value: T | null | undefined, kept: T | undefined): T | undefined =>
    value === undefined ? kept : (value ?? undefined);
  return {
    model: base.model,
    kind: body.kind ?? base.kind,
    upstream: given(body.upstream || body.upstream === undefined ? body.upstream : null, base.upstream),
    maxOutputTokens: given(body.max_output_tokens, base.maxOutputTokens),
    contextTokens: given(body.context_tokens, base.contextTokens),
    promptOverheadTokens: given(body.prompt_overhead_tokens, base.promptOverheadTokens),
    maxPartTokens: given(body.max_part_tokens, base.maxPartTokens),
    partTokens: given(body.part_tokens, base.partTokens),
    displayName: given(body.display_name, base.displayName),
    vramGb: given(body.vram_gb, base.vramGb),
    capField: given(body.cap_field, base.capField),
  };
}
