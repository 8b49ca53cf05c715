import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type ModelRow, NO_PLAN } from "../../../src/core/pricing/prices.ts";
import { lossesOf, marginsOf, newLosses } from "../../../src/core/routing/alias-margin.ts";
import type { AliasRow } from "../../../src/core/routing/routes.ts";

const row = (model: string, costNanoUsd: ModelRow["costNanoUsd"], more: Partial<ModelRow> = {}): ModelRow => ({
  model,
  kind: "chat",
  fromMs: 0,
  costNanoUsd,
  priceNanoUsd: {},
  free: false,
  ...more,
});
const booksOf = (...rows: ModelRow[]) => ({
  models: Object.groupBy(
    rows.toSorted((a, b) => b.fromMs - a.fromMs),
    ({ model }) => model,
  ) as Record<string, ModelRow[]>,
});
const target = (model: string, priority = 0) => ({ upstream: "u", model, priority, weight: 1 });
const alias = (...models: string[]): AliasRow => ({
  alias: "chat",
  account: null,
  targets: models.map((model, priority) => target(model, priority)),
  retryOn: [],
});
const found = (books: ReturnType<typeof booksOf>, row: AliasRow, nowMs = 10) =>
  lossesOf(books, [row], () => NO_PLAN, nowMs).map(({ target, unit, fromMs }) => [target.model, unit, fromMs]);

describe("an alias loses where a target costs more than it is sold for", () => {
  it("its own row prices it, else the target that is asked first", () => {
    const books = [row("a", { input_tokens: 2 }), row("b", { input_tokens: 3 })];
    expect(found(booksOf(...books), alias("a", "b"))).toEqual([["b", "input_tokens", null]]);
    expect(found(booksOf(...books), alias("b", "a"))).toEqual([]);
    const own = row("chat", { input_tokens: 1 }, { priceNanoUsd: { input_tokens: 2 } });
    expect(found(booksOf(...books, own), alias("b", "a"))).toEqual([["b", "input_tokens", null]]);
  });

  it("from the day on which a price begins to hold, and for as long as that", () => {
    const books = booksOf(
      row("a", { input_tokens: 2 }),
      row("b", { input_tokens: 1 }),
      row("b", { input_tokens: 3 }, { fromMs: 20 }),
      row("a", { input_tokens: 3 }, { fromMs: 30 }),
    );
    expect(found(books, alias("a", "b"))).toEqual([["b", "input_tokens", 20]]);
    expect(found(books, alias("a", "b"), 31)).toEqual([]);
  });

  it("cached input without a figure of its own counts as input, on either side", () => {
    const sold = row("a", { input_tokens: 2, cached_input_tokens: 1 });
    expect(found(booksOf(sold, row("b", { input_tokens: 2 })), alias("a", "b"))).toEqual([
      ["b", "cached_input_tokens", null],
    ]);
    expect(found(booksOf(row("b", { input_tokens: 2 }), sold), alias("b", "a"))).toEqual([]);
  });

  it("not where it is free, nor where a price or a cost is missing", () => {
    const b = row("b", { input_tokens: 9, images: 9 });
    expect(found(booksOf(row("a", { input_tokens: 2 }, { free: true }), b), alias("a", "b"))).toEqual([]);
    expect(found(booksOf(row("a", { output_tokens: 2 }), b), alias("a", "b"))).toEqual([]);
    expect(found(booksOf(row("a", { input_tokens: 2 })), alias("a", "constructor"))).toEqual([]);
    expect(marginsOf(booksOf(), alias("a"), target("a"), NO_PLAN, 1)).toEqual([]);
  });
});

it("a change is blamed for what it makes worse, never for what stood before", () => {
  const cost = fc.integer({ min: 1, max: 5 });
  fc.assert(
    fc.property(cost, cost, cost, (sold, before, after) => {
      const losses = (dear: number) =>
        lossesOf(
          booksOf(row("a", { input_tokens: sold }), row("b", { input_tokens: dear })),
          [alias("a", "b")],
          () => NO_PLAN,
          1,
        );
      const blamed = newLosses(losses(before), losses(after));
      expect(blamed).toHaveLength(after > sold && after > before ? 1 : 0);
    }),
  );
});
