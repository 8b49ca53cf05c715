/**
 * The price book in the operator's books: what each model is, and all its past, current and future prices. Each price
 * row carries a copy of the model's settings, which triggers keep: what reads a row reads the whole.
 */

import type { Page, PageRequest } from "../../core/account/tenant.ts";
import type {
  CapField,
  DatedPrices,
  ModelKind,
  ModelRow,
  ModelSettings,
  UnitPrices,
} from "../../core/pricing/prices.ts";
import { cutPage } from "./cut-page.ts";

interface StoredSettings {
  model: string;
  kind: ModelKind;
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
interface StoredPrices {
  from_ms: number;
  costs: string;
  prices: string;
  free: number;
}
export interface StoredModel extends StoredSettings, StoredPrices {}

const SETTINGS =
  "model, kind, upstream, max_output_tokens, context_tokens, prompt_overhead_tokens, max_part_tokens, part_tokens, display_name, vram_gb, cap_field";
export const MODEL_COLUMNS = `${SETTINGS}, from_ms, costs, prices, free`;

const settingsOf = (stored: StoredSettings): ModelSettings => ({
  model: stored.model,
  kind: stored.kind,
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

const pricesOf = (stored: StoredPrices): DatedPrices => ({
  fromMs: stored.from_ms,
  costNanoUsd: JSON.parse(stored.costs) as UnitPrices,
  priceNanoUsd: JSON.parse(stored.prices) as UnitPrices,
  free: stored.free === 1,
});

export const modelOf = (stored: StoredModel): ModelRow => ({ ...settingsOf(stored), ...pricesOf(stored) });

/** A model and its prices: those that hold now or else the first to come; null where it has none. */
export interface PricedModel {
  readonly settings: ModelSettings;
  readonly prices: DatedPrices | null;
}

/** Writes only over the settings that were read with the version `expected`, or where there are none. */
const settingsStatement = (books: D1Database, model: ModelSettings, nowMs: number, expected: Expected) =>
  books
    .prepare(
      `insert into model_settings (${SETTINGS}, created_ms, changed_ms)
       select ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?12
         where ?13 = 'any' or (select changed_ms from model_settings where model = ?1) is nullif(?13, 'none')
       on conflict (model) do update set kind = excluded.kind, upstream = excluded.upstream,
         max_output_tokens = excluded.max_output_tokens, context_tokens = excluded.context_tokens,
         prompt_overhead_tokens = excluded.prompt_overhead_tokens, max_part_tokens = excluded.max_part_tokens,
         part_tokens = excluded.part_tokens, display_name = excluded.display_name, vram_gb = excluded.vram_gb,
         cap_field = excluded.cap_field, changed_ms = max(excluded.changed_ms, model_settings.changed_ms + 1)`,
    )
    .bind(
      model.model,
      model.kind,
      model.upstream ?? null,
      model.maxOutputTokens ?? null,
      model.contextTokens ?? null,
      model.promptOverheadTokens ?? null,
      model.maxPartTokens ?? null,
      model.partTokens ?? null,
      model.displayName ?? null,
      model.vramGb ?? null,
      model.capField ?? null,
      nowMs,
      expected,
    );

/** Adds prices to a model that there is. They replace those of the same time. */
const pricesStatement = (books: D1Database, model: string, prices: DatedPrices, nowMs: number) =>
  books
    .prepare(
      `insert or replace into models (${MODEL_COLUMNS}, created_ms)
       select ${SETTINGS}, ?2, ?3, ?4, ?5, ?6 from model_settings where model = ?1`,
    )
    .bind(
      model,
      prices.fromMs,
      JSON.stringify(prices.costNanoUsd),
      JSON.stringify(prices.priceNanoUsd),
      prices.free ? 1 : 0,
      nowMs,
    );

/** `any`: write whatever stands there. */
type Expected = number | "none" | "any";

/** Sets what a model is, and with `prices` what it costs, in one transaction. */
export async function putModel(
  books: D1Database,
  model: ModelSettings,
  prices: DatedPrices | null,
  nowMs: number,
): Promise<void> {
  const settings = settingsStatement(books, model, nowMs, "any");
  await books.batch(prices ? [settings, pricesStatement(books, model.model, prices, nowMs)] : [settings]);
}

/** False: it was changed since it was read. */
export async function changeModel(
  books: D1Database,
  model: ModelSettings,
  nowMs: number,
  expected: number,
): Promise<boolean> {
  const { meta } = await settingsStatement(books, model, nowMs, expected).run();
  return meta.changes > 0;
}

/** False: there is no such model. */
export async function putPrices(
  books: D1Database,
  model: string,
  prices: DatedPrices,
  nowMs: number,
): Promise<boolean> {
  const { meta } = await pricesStatement(books, model, prices, nowMs).run();
  return meta.changes > 0;
}

/** Takes back prices that are to come. */
export async function deletePrices(books: D1Database, model: string, fromMs: number, nowMs: number): Promise<boolean> {
  const { meta } = await books
    .prepare("delete from models where model = ?1 and from_ms = ?2 and from_ms > ?3")
    .bind(model, fromMs, nowMs)
    .run();
  return meta.changes > 0;
}

export async function findModel(
  books: D1Database,
  model: string,
): Promise<{ settings: ModelSettings; version: number } | undefined> {
  const stored = await books
    .prepare(`select ${SETTINGS}, changed_ms from model_settings where model = ?1`)
    .bind(model)
    .first<StoredSettings & { changed_ms: number }>();
  return stored ? { settings: settingsOf(stored), version: stored.changed_ms } : undefined;
}

/** The row that holds now. */
export async function currentModel(books: D1Database, model: string, nowMs: number): Promise<ModelRow | undefined> {
  return (await modelHistory(books, model)).find(({ fromMs }) => fromMs <= nowMs);
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
  const results = await books.batch([
    books.prepare("delete from models where model = ?1").bind(model),
    books.prepare("delete from model_settings where model = ?1").bind(model),
  ]);
  return results.some(({ meta }) => meta.changes > 0);
}

export async function listModels(books: D1Database, page: PageRequest, nowMs: number): Promise<Page<PricedModel>> {
  const { results } = await books
    .prepare(
      `select ${SETTINGS.replaceAll(/\w+/g, "s.$&")}, from_ms, costs, prices, free
       from model_settings as s left join models as row on row.model = s.model and row.from_ms = coalesce(
         (select max(from_ms) from models where model = s.model and from_ms <= ?2),
         (select min(from_ms) from models where model = s.model))
       where s.model > ?1 order by s.model limit ?3`,
    )
    .bind(page.cursor ?? "", nowMs, page.limit + 1)
    .all<StoredSettings & (StoredPrices | { from_ms: null })>();
  const models = results.map((stored) => ({
    settings: settingsOf(stored),
    prices: stored.from_ms === null ? null : pricesOf(stored),
  }));
  return cutPage(models, page, ({ settings }) => settings.model);
}
