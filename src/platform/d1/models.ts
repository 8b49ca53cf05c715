/** The price book in the operator's books: every past, current and future row of each model. */

import type { Page, PageRequest } from "../../core/account/tenant.ts";
import type { CapField, ModelKind, ModelRow, UnitPrices } from "../../core/pricing/prices.ts";
import { cutPage } from "./cut-page.ts";

export interface StoredModel {
  model: string;
  from_ms: number;
  kind: ModelKind;
  costs: string;
  prices: string;
  free: number;
  upstream: string | null;
  max_output_tokens: number | null;
  context_tokens: number | null;
  prompt_overhead_tokens: number | null;
  max_part_tokens: number | null;
  part_tokens: number | null;
  display_name: string | null;
  vram_gb: number | null;
  cap_field: CapField | null;
}

export const MODEL_COLUMNS =
  "model, from_ms, kind, costs, prices, free, upstream, max_output_tokens, context_tokens, prompt_overhead_tokens, max_part_tokens, part_tokens, display_name, vram_gb, cap_field";

export const modelOf = (stored: StoredModel): ModelRow => ({
  model: stored.model,
  kind: stored.kind,
  fromMs: stored.from_ms,
  costNanoUsd: JSON.parse(stored.costs) as UnitPrices,
  priceNanoUsd: JSON.parse(stored.prices) as UnitPrices,
  free: stored.free === 1,
  ...(stored.upstream !== null && { upstream: stored.upstream }),
  ...(stored.max_output_tokens !== null && { maxOutputTokens: stored.max_output_tokens }),
  ...(stored.context_tokens !== null && { contextTokens: stored.context_tokens }),
  ...(stored.prompt_overhead_tokens !== null && { promptOverheadTokens: stored.prompt_overhead_tokens }),
  ...(stored.max_part_tokens !== null && { maxPartTokens: stored.max_part_tokens }),
  ...(stored.part_tokens !== null && { partTokens: stored.part_tokens }),
  ...(stored.display_name !== null && { displayName: stored.display_name }),
  ...(stored.vram_gb !== null && { vramGb: stored.vram_gb }),
  ...(stored.cap_field !== null && { capField: stored.cap_field }),
});

/** Adds a row. It replaces one with the same model and time. */
export async function putModel(books: D1Database, row: ModelRow, nowMs: number): Promise<void> {
  await books
    .prepare(
      `insert or replace into models (${MODEL_COLUMNS}, created_ms)
       values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)`,
    )
    .bind(
      row.model,
      row.fromMs,
      row.kind,
      JSON.stringify(row.costNanoUsd),
      JSON.stringify(row.priceNanoUsd),
      row.free ? 1 : 0,
      row.upstream ?? null,
      row.maxOutputTokens ?? null,
      row.contextTokens ?? null,
      row.promptOverheadTokens ?? null,
      row.maxPartTokens ?? null,
      row.partTokens ?? null,
      row.displayName ?? null,
      row.vramGb ?? null,
      row.capField ?? null,
      nowMs,
    )
    .run();
}

/** Every row of one model, newest first, future rows included. */
export async function modelHistory(books: D1Database, model: string): Promise<readonly ModelRow[]> {
  const { results } = await books
    .prepare(`select ${MODEL_COLUMNS} from models where model = ?1 order by from_ms desc`)
    .bind(model)
    .all<StoredModel>();
  return results.map(modelOf);
}

export async function deleteModel(books: D1Database, model: string): Promise<boolean> {
  const { meta } = await books.prepare("delete from models where model = ?1").bind(model).run();
  return meta.changes > 0;
}

/** One row per model: the current one, or else the next to come. */
export async function listModels(books: D1Database, page: PageRequest, nowMs: number): Promise<Page<ModelRow>> {
  const { results } = await books
    .prepare(
      `select ${MODEL_COLUMNS} from models as row where model > ?1 and from_ms = coalesce(
         (select max(from_ms) from models where model = row.model and from_ms <= ?2),
         (select min(from_ms) from models where model = row.model))
       order by model limit ?3`,
    )
    .bind(page.cursor ?? "", nowMs, page.limit + 1)
    .all<StoredModel>();
  return cutPage(results.map(modelOf), page, (row) => row.model);
}
