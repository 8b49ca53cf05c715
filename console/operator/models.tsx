/** The price book: what every model costs and brings, and what each alias's targets do to the margin. */
import { useState } from "preact/hooks";
import { link } from "../kit/address.ts";
import { all } from "../kit/api.ts";
import { Opens } from "../kit/dialog.tsx";
import { day, percent, usd, words } from "../kit/format.ts";
import { Head } from "../kit/frame.tsx";
import { useLoad } from "../kit/load.ts";
import { Badge, Ready } from "../kit/notices.tsx";
import { type Column, Table } from "../kit/table.tsx";
import type { Alias, PriceRow } from "../kit/types.ts";
import { BulkChange } from "./bulk-prices.tsx";

export const pricesText = (row: Pick<PriceRow, "prices" | "free">, of: "cost_usd" | "price_usd"): string => {
  if (row.free && of === "price_usd") return "free";
  const units = Object.entries(row.prices).map(([unit, price]) => {
    const value = price[of];
    return value === null ? "cost and the plan's markup" : `${usd(value)} ${words(unit)}`;
  });
  return [...new Set(units)].join(", ") || "–";
};

const COLUMNS: readonly Column<PriceRow>[] = [
  {
    name: "model",
    label: "Model",
    value: ({ model }) => model,
    cell: ({ model }) => <a href={link(`/models/${encodeURIComponent(model)}`)}>{model}</a>,
  },
  { name: "kind", label: "Kind", value: ({ kind }) => kind },
  { name: "cost", label: "Cost", value: (row) => pricesText(row, "cost_usd") },
  { name: "price", label: "Price", value: (row) => pricesText(row, "price_usd") },
  { name: "upstream", label: "Upstream", value: ({ upstream }) => upstream },
  {
    name: "from",
    label: "Since",
    value: ({ from }) => from,
    cell: ({ from }) => (from === null ? "no prices yet" : day(from)),
  },
];

interface Target {
  readonly alias: Alias;
  readonly index: number;
}
const marginOf = ({ alias, index }: Target) => alias.margins[index];
function worstMargin(target: Target): number | null {
  const units = Object.values(marginOf(target)?.units ?? {});
  const margins = units
    .filter(({ price_usd }) => price_usd > 0)
    .map(({ margin_usd, price_usd }) => margin_usd / price_usd);
  return margins.length > 0 ? Math.min(...margins) : null;
}
const TARGETS: readonly Column<Target>[] = [
  { name: "alias", label: "Alias", value: ({ alias }) => alias.alias },
  {
    name: "account",
    label: "For",
    value: ({ alias }) => alias.account,
    cell: ({ alias }) => alias.account ?? "everybody",
  },
  { name: "target", label: "Target", value: (target) => marginOf(target)?.model ?? "" },
  {
    name: "upstream",
    label: "Upstream",
    value: (target) => marginOf(target)?.upstream ?? "",
    cell: (target) => <a href={link(`/upstreams/${marginOf(target)?.upstream}`)}>{marginOf(target)?.upstream}</a>,
  },
  {
    name: "priority",
    label: "Priority",
    number: true,
    value: ({ alias, index }) => alias.targets[index]?.priority ?? null,
  },
  {
    name: "drain",
    label: "State",
    value: ({ alias, index }) => (alias.targets[index]?.drain ? "drained" : "takes calls"),
  },
  {
    name: "margin",
    label: "Least margin",
    number: true,
    value: worstMargin,
    cell: (target) => {
      const margin = worstMargin(target);
      return marginOf(target)?.loss ? (
        <Badge kind="bad">{margin === null ? "loss" : percent(margin)}</Badge>
      ) : margin === null ? (
        "by plan"
      ) : (
        percent(margin)
      );
    },
  },
];

export function Models() {
  const loaded = useLoad(async (signal) => {
    const [rows, aliases] = await Promise.all([
      all<PriceRow>("/admin/models", {}, 5_000, signal),
      all<Alias>("/admin/aliases", {}, 2_000, signal),
    ]);
    return { rows, targets: aliases.flatMap((alias) => alias.margins.map((_, index): Target => ({ alias, index }))) };
  }, []);
  const [stopped, setStopped] = useState("");
  return (
    <>
      <Head title="Models and prices" />
      {stopped && (
        <p class="fault" role="alert">
          {stopped}
        </p>
      )}
      <Ready of={loaded}>
        {({ rows, targets }) => (
          <>
            <Table
              name="models"
              caption="Price book"
              columns={COLUMNS}
              rows={rows}
              idOf={({ model }) => model}
              empty="No model has a price. Put the first one: PUT /admin/models/{model}."
              actions={
                <Opens label="Change many prices" title="Change many prices">
                  {(close) => (
                    <BulkChange
                      rows={rows}
                      onDone={() => {
                        setStopped("");
                        close();
                        loaded.reload();
                      }}
                      onStopped={(written, of) => {
                        setStopped(
                          `Closed while it wrote: ${written} of ${of} models have their new prices, the others keep theirs.`,
                        );
                        loaded.reload();
                      }}
                    />
                  )}
                </Opens>
              }
            />
            <h2>Aliases and their margins</h2>
            <Table
              name="aliases"
              caption="Targets of aliases"
              columns={TARGETS}
              rows={targets}
              idOf={({ alias, index }) => `${alias.account} ${alias.alias} ${index}`}
              empty="No alias yet. An alias is the name that tenants call: PUT /admin/aliases/{alias}."
            />
          </>
        )}
      </Ready>
    </>
  );
}
