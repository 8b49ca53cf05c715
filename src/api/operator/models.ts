/**
 * `/admin/models`: the price book. Each PUT adds a row that holds from its `from` on; what held before stays as history
 * and goes on explaining old charges. Token prices are USD per million, the others USD per second, image or request.
 */
import * as z from "zod";
import { MODEL_KINDS, type ModelRow } from "../../core/pricing/prices.ts";
import { UNIT_NAMES, type Unit } from "../../core/pricing/usage.ts";
import { deleteModel, listModels, modelHistory, putModel } from "../../platform/d1/models.ts";
import type { AdminRoutes } from "../kit/context.ts";
import {
  Deleted,
  deleted,
  listOf,
  modelName,
  namedPage,
  pageRequest,
  time,
  timeAnswer,
  usd,
  usdAnswer,
} from "../kit/fields.ts";
import { invalid, notFound } from "../kit/problem.ts";
import { requireUpstreams } from "../kit/references.ts";
import { answers, ok, route } from "../kit/route.ts";
import { pricesFrom, serializePrices, toIso } from "../kit/serializers.ts";

const UnitBody = z.strictObject({ cost_usd: usd, price_usd: usd.nullable().optional() }).meta({
  id: "UnitPriceBody",
  description: "What the operator pays, and what the tenant pays; without `price_usd`, cost and the plan's markup",
});
/** An object with each unit as an optional field. */
const byUnit = <Schema extends z.ZodType>(schema: Schema) =>
  Object.fromEntries(UNIT_NAMES.map((unit) => [unit, schema.optional()])) as Record<Unit, z.ZodOptional<Schema>>;

const tokens = (least: number, most: number) => z.int().min(least).max(most).nullable().optional();

const ModelBody = z
  .strictObject({
    kind: z.enum(MODEL_KINDS).meta({ description: "`chat` also serves responses" }),
    prices: z.strictObject(byUnit(UnitBody)),
    free: z.boolean().optional(),
    from: time.optional().meta({ description: "When the row begins to hold; now where absent" }),
    max_output_tokens: tokens(1, 100_000_000),
    context_tokens: tokens(1, 1_000_000_000),
    prompt_overhead_tokens: tokens(0, 1_000_000),
    max_part_tokens: tokens(0, 100_000_000).meta({
      description:
        "The most that one part which is not text comes to (16384 for an image). Without it and `context_tokens`, video, audio and files are refused",
    }),
    part_tokens: tokens(0, 100_000_000).meta({
      description: "What such a part counts for where the upstream's usage is not known (256 for an image)",
    }),
    upstream: z
      .string()
      .nullable()
      .optional()
      .meta({ description: "Tenants may then call the model there by this name" }),
  })
  .meta({ id: "ModelBody" });

const UnitAnswer = z.object({ cost_usd: usdAnswer, price_usd: usdAnswer.nullable() });
const RowAnswer = z
  .object({
    model: z.string(),
    kind: z.enum(MODEL_KINDS),
    prices: z.object(byUnit(UnitAnswer)),
    free: z.boolean(),
    from: timeAnswer,
    max_output_tokens: z.int().nullable(),
    context_tokens: z.int().nullable(),
    prompt_overhead_tokens: z.int().nullable(),
    max_part_tokens: z.int().nullable(),
    part_tokens: z.int().nullable(),
    upstream: z.string().nullable(),
  })
  .meta({ id: "PriceBookRow" });
const ModelAnswer = RowAnswer.extend({
  history: z.array(RowAnswer).meta({ description: "Every row of this model, those to come first, oldest last" }),
}).meta({ id: "Model" });

const serializeRow = (row: ModelRow) => ({
  model: row.model,
  kind: row.kind,
  prices: serializePrices(row.costNanoUsd, row.priceNanoUsd),
  free: row.free,
  from: toIso(row.fromMs),
  max_output_tokens: row.maxOutputTokens ?? null,
  context_tokens: row.contextTokens ?? null,
  prompt_overhead_tokens: row.promptOverheadTokens ?? null,
  max_part_tokens: row.maxPartTokens ?? null,
  part_tokens: row.partTokens ?? null,
  upstream: row.upstream ?? null,
});

const put = route({
  id: "putModel",
  method: "put",
  path: "/admin/models/{model}",
  summary: "Add a row to the price book; one with the same `from` is replaced",
  body: ModelBody,
  answers: { 200: answers("The row", RowAnswer) },
});
const list = route({
  id: "listModels",
  method: "get",
  path: "/admin/models",
  summary: "List each model with the row that holds now, or the first to come",
  query: z.strictObject(namedPage),
  answers: { 200: answers("Rows by model", listOf(RowAnswer)) },
});
const get = route({
  id: "getModel",
  method: "get",
  path: "/admin/models/{model}",
  summary: "Read the row that holds now, or the first to come, and the history",
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
    const row = rowFrom(params.model, body, context.now());
    if (row.upstream !== undefined) await requireUpstreams(context, [{ upstream: row.upstream }], () => "upstream");
    await putModel(context.books, row, context.now());
    await context.edge.routingChanged();
    return ok(serializeRow(row));
  });

  api.add(list, async ({ work: context, query }) => {
    const page = await listModels(context.books, pageRequest(query), context.now());
    return ok({ data: page.data.map(serializeRow), next_cursor: page.nextCursor });
  });

  api.add(get, async ({ work: context, params }) => {
    const { model: called } = params;
    const history = await modelHistory(context.books, called);
    const now = context.now();
    const row = history.find(({ fromMs }) => fromMs <= now) ?? history.at(-1);
    if (!row) throw notFound("model", called);
    return ok({ ...serializeRow(row), history: history.map(serializeRow) });
  });

  api.add(remove, async ({ work: context, params }) => {
    const { model: called } = params;
    if (!(await deleteModel(context.books, called))) throw notFound("model", called);
    await context.edge.routingChanged();
    return ok(deleted(called));
  });
}

function rowFrom(called: string, body: z.output<typeof ModelBody>, nowMs: number): ModelRow {
  if (!modelName.safeParse(called).success) {
    throw invalid("model", "`model` must be 1 to 200 characters without spaces.");
  }
  checkPrices(body);
  if (body.kind === "chat" && !body.max_output_tokens) {
    throw invalid(
      "max_output_tokens",
      "`max_output_tokens` is required for chat models: the money held for a call is computed from it.",
    );
  }
  return {
    model: called,
    kind: body.kind,
    fromMs: body.from ?? nowMs,
    ...pricesFrom(body.prices),
    free: body.free ?? false,
    ...(body.upstream && { upstream: body.upstream }),
    ...(body.max_output_tokens && { maxOutputTokens: body.max_output_tokens }),
    ...(body.context_tokens && { contextTokens: body.context_tokens }),
    ...(typeof body.prompt_overhead_tokens === "number" && { promptOverheadTokens: body.prompt_overhead_tokens }),
    ...(typeof body.max_part_tokens === "number" && { maxPartTokens: body.max_part_tokens }),
    ...(typeof body.part_tokens === "number" && { partTokens: body.part_tokens }),
  };
}

/** Nothing is given away by a slip: what is not marked free has a price above zero. */
function checkPrices({ prices, free }: z.output<typeof ModelBody>): void {
  const priced = UNIT_NAMES.filter((unit) => prices[unit] !== undefined);
  if (priced.length === 0) throw invalid("prices", "`prices` must name at least one unit.");
  for (const unit of priced) {
    const { cost_usd: cost, price_usd: price } = prices[unit] ?? { cost_usd: 0 };
    if (free) {
      if (price)
        throw invalid(
          `prices.${unit}.price_usd`,
          `\`prices.${unit}.price_usd\` must not be set for a free model. Leave it out, or leave out \`free\`.`,
        );
    } else if (price === 0) {
      throw invalid(
        `prices.${unit}.price_usd`,
        `\`prices.${unit}.price_usd\` must be above zero. Set \`free\` if the model costs tenants nothing.`,
      );
    } else if (!price && cost === 0) {
      throw invalid(
        `prices.${unit}.cost_usd`,
        `\`prices.${unit}.cost_usd\` must be above zero where no \`price_usd\` is given: the price is made of it.`,
      );
    }
  }
}
