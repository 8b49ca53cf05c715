/**
 * `/admin/models`: the price book. Each PUT adds a row that is valid from its `from` on. Earlier rows stay and explain
 * old charges. Token prices are USD per million, the others USD per second, image or request.
 */

import * as z from "zod";
import { READERS } from "../../core/account/operators.ts";
import type { ModelKind, ModelRow } from "../../core/pricing/prices.ts";
import { UNIT_NAMES, type Unit } from "../../core/pricing/usage.ts";
import { deleteModel, listModels, modelHistory, putModel } from "../../platform/d1/models.ts";
import type { AdminRoutes } from "../kit/context.ts";
import { Deleted, deleted, listOf, modelName, namedPage, pageRequest } from "../kit/fields.ts";
import { invalid, notFound } from "../kit/problem.ts";
import { requireUpstreams } from "../kit/references.ts";
import { answers, ok, route } from "../kit/route.ts";
import { pricesFrom, serializePrices, toIso } from "../kit/serializers.ts";

import { ModelAnswer, ModelBody, RowAnswer } from "./model-schema.ts";

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
  display_name: row.displayName ?? null,
  vram_gb: row.vramGb ?? null,
  cap_field: row.capField ?? null,
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
  roles: READERS,
  summary: "List each model with the row that holds now, or the first to come",
  query: z.strictObject(namedPage),
  answers: { 200: answers("Rows by model", listOf(RowAnswer)) },
});
const get = route({
  id: "getModel",
  method: "get",
  path: "/admin/models/{model}",
  roles: READERS,
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
  checkCompute(called, body);
  if (body.kind === "chat" && !body.max_output_tokens) {
    throw invalid(
      "max_output_tokens",
      "`max_output_tokens` is required for chat models: the money held for a call is computed from it.",
    );
  }
  if (body.kind !== "chat" && body.cap_field) {
    throw invalid("cap_field", "`cap_field` is for chat models: no other call has an output cap.");
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
    ...(body.display_name && { displayName: body.display_name }),
    ...(body.vram_gb && { vramGb: body.vram_gb }),
    ...(body.cap_field && { capField: body.cap_field }),
  };
}

/** Rows for rented machines and storage have names and units of their own, which a model's row must not use. */
function checkCompute(called: string, { kind, prices, upstream, free }: z.output<typeof ModelBody>): void {
  const sold = SOLD[kind];
  if (sold ? !sold.name.test(called) : /^(gpu|storage)\//.test(called)) {
    const hint = sold ? sold.hint : "Names with `gpu/` and `storage/` are for those kinds.";
    throw invalid("model", `\`${called}\` cannot be of the kind \`${kind}\`. ${hint}`);
  }
  const units = sold?.units ?? MODEL_UNITS;
  const other = UNIT_NAMES.find((unit) => prices[unit] !== undefined && !units.includes(unit));
  if (other) {
    throw invalid(
      `prices.${other}`,
      `\`prices.${other}\` is no unit of the kind \`${kind}\`: it has ${units.join(", ")}.`,
    );
  }
  if (sold && upstream)
    throw invalid("upstream", `\`upstream\` is for models. A \`${kind}\` is sold where the account has its seat.`);
  if (sold && free) throw invalid("free", `A \`${kind}\` cannot be free: leave out \`free\`.`);
}

interface Sold {
  readonly name: RegExp;
  readonly hint: string;
  readonly units: readonly Unit[];
}
const SOLD: { readonly [K in ModelKind]?: Sold } = {
  gpu: {
    name: /^gpu\/./,
    hint: "Name it `gpu/<gpu_type>`, the type URI-encoded.",
    units: ["gpu_hours", "interruptible_gpu_hours"],
  },
  storage: {
    name: /^storage\/(drive|filesystem)$/,
    hint: "Name it `storage/drive` or `storage/filesystem`.",
    units: ["storage_gb_days"],
  },
};
const SOLD_UNITS = Object.values(SOLD).flatMap(({ units }) => units);
const MODEL_UNITS: readonly Unit[] = UNIT_NAMES.filter((unit) => !SOLD_UNITS.includes(unit));

/** Guards against giving a model away by mistake: unless it is marked free, it needs a price above zero. */
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
