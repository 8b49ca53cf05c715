/** Dated prices: which rows a file wants that the book does not have. */
import type { Schemas } from "../../client/operator.ts";
import { ModelPricesBody } from "../../src/api/operator/model-schema.ts";
import { alike, type Change, type FieldChange } from "./change.ts";
import { canonical, type Fields, type WantedModel, type WantedPrices } from "./desired.ts";

type Model = Pick<Schemas["Model"], "history">;
type Row = Model["history"][number];

const fromOf = (row: Row): number => Date.parse(row.from ?? "");

/** What the gateway makes of prices: without a `price_usd`, or with none, is the same. */
function normal(prices: unknown, free: unknown): unknown {
  const { prices: units } = canonical(ModelPricesBody, { prices }) as {
    prices: { [unit: string]: { cost_usd: number; price_usd?: number | null } | undefined };
  };
  const rates = Object.entries(units).flatMap(([unit, rate]) =>
    rate ? [[unit, { ...rate, price_usd: rate.price_usd ?? null }]] : [],
  );
  return { units: Object.fromEntries(rates), free: free ?? false };
}

const same = (wanted: Fields, row: Row | undefined): boolean =>
  row !== undefined && alike(normal(wanted.prices, wanted.free), normal(row.prices, row.free));

const setting = (model: string, wanted: Fields, row: Row | undefined, from: string | null): Change => ({
  op: row ? "change" : "make",
  kind: "prices",
  id: from === null ? model : `${model} from ${from}`,
  fields: Object.entries(wanted).map(
    ([field, to]): FieldChange => (row ? { field, from: row[field as "prices"], to } : { field, to }),
  ),
  step: { do: "set_prices", model, body: { ...wanted, ...(from !== null && { from }) } },
});

/**
 * Of the rows of a file that have begun, the newest is what is to hold now; those to come are each compared with the
 * book's row of the same time.
 */
export function priceChanges(
  model: string,
  { prices }: WantedModel,
  there: Model | undefined,
  nowMs: number,
): Change[] {
  const history = there?.history.filter(({ from }) => from !== null) ?? [];
  const begun = prices.filter(({ fromMs }) => fromMs === null || fromMs <= nowMs).at(-1);
  const holds = history.find((row) => fromOf(row) <= nowMs);
  const now = begun && !same(begun.fields, holds) ? [setting(model, begun.fields, holds, null)] : [];
  const later = prices.flatMap(({ fromMs, fields }) => {
    if (fromMs === null || fromMs <= nowMs) return [];
    const row = history.find((one) => fromOf(one) === fromMs);
    return same(fields, row) ? [] : [setting(model, fields, row, new Date(fromMs).toISOString())];
  });
  return [...now, ...later];
}

/** Rows of the book that are to come and that the file does not have. */
export function prunedPrices(
  model: string,
  rows: readonly WantedPrices[],
  there: Model | undefined,
  nowMs: number,
): Change[] {
  const wanted = new Set(rows.map(({ fromMs }) => fromMs));
  return (there?.history ?? [])
    .filter((row) => fromOf(row) > nowMs && !wanted.has(fromOf(row)))
    .map((row) => {
      const from = new Date(fromOf(row)).toISOString();
      return {
        op: "drop",
        kind: "prices",
        id: `${model} from ${from}`,
        fields: [],
        step: { do: "drop_prices", model, from },
      };
    });
}
