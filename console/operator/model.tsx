/** One model: its prices as they were, are and will be. */
import { api, get, part } from "../kit/api.ts";
import { Confirm, Form, Opens } from "../kit/dialog.tsx";
import { count, time, words } from "../kit/format.ts";
import { Head } from "../kit/frame.tsx";
import { useLoad } from "../kit/load.ts";
import { Badge, Facts, Ready } from "../kit/notices.tsx";
import { type Column, Table } from "../kit/table.tsx";
import type { Model, PriceRow } from "../kit/types.ts";
import { pricesText } from "./models.tsx";

export const ModelPage = ({ model = "" }: { model?: string }) => <Page key={model} name={model} />;

function Page({ name }: { name: string }) {
  const path = `/admin/models/${part(name)}`;
  const loaded = useLoad((signal) => get<Model>(path, {}, signal), [path]);
  return (
    <>
      <Head title={name}>{loaded.data && <PriceForm model={loaded.data} path={path} onDone={loaded.reload} />}</Head>
      <Ready of={loaded}>
        {(model) => (
          <>
            <Facts
              of={[
                ["Kind", model.kind],
                ["Upstream", model.upstream ?? "by aliases only"],
                ["Cost now", pricesText(model, "cost_usd")],
                ["Price now", pricesText(model, "price_usd")],
                [
                  "Longest answer",
                  model.max_output_tokens === null ? "not set" : `${count(model.max_output_tokens)} tokens`,
                ],
                ["Context", model.context_tokens === null ? "not set" : `${count(model.context_tokens)} tokens`],
              ]}
            />
            <h2>Prices over time</h2>
            <Table
              name="rows"
              caption={`Price rows of ${name}`}
              columns={columns(model, path, loaded.reload)}
              rows={model.history}
              idOf={({ from }) => from ?? "none"}
              empty="It has no prices yet, so no tenant can call it."
            />
          </>
        )}
      </Ready>
    </>
  );
}

const columns = (model: Model, path: string, reload: () => void): readonly Column<PriceRow>[] => [
  { name: "from", label: "From", value: ({ from }) => from, cell: ({ from }) => time(from) },
  {
    name: "state",
    label: "State",
    value: (row) => stateOf(row, model),
    cell: (row) => <Badge kind={stateOf(row, model) === "now" ? "good" : "idle"}>{stateOf(row, model)}</Badge>,
  },
  { name: "cost", label: "Cost", value: (row) => pricesText(row, "cost_usd") },
  { name: "price", label: "Price", value: (row) => pricesText(row, "price_usd") },
  {
    name: "take_back",
    label: "",
    value: () => null,
    cell: (row) =>
      row.from !== null && stateOf(row, model) === "to come" ? (
        <Confirm
          label="Take back"
          title="Take this row back?"
          text={`The prices from ${time(row.from)} on are not used then.`}
          run={() => api("DELETE", `${path}/prices/${part(row.from ?? "")}`).then(reload)}
        />
      ) : (
        ""
      ),
  },
];

const stateOf = ({ from }: PriceRow, model: Model): string =>
  from !== null && Date.parse(from) > Date.now() ? "to come" : from === model.from ? "now" : "before";

function PriceForm({ model, path, onDone }: { model: Model; path: string; onDone(): void }) {
  const units = Object.entries(model.prices);
  return (
    <Opens label="New prices" title={`Prices of ${model.model}`}>
      {(close) => (
        <Form
          fields={[
            ...units.flatMap(([unit, { cost_usd, price_usd }]) => [
              {
                name: `cost ${unit}`,
                label: `Cost, ${words(unit)}`,
                type: "number" as const,
                value: String(cost_usd),
                required: true,
              },
              {
                name: `price ${unit}`,
                label: `Price, ${words(unit)}`,
                type: "number" as const,
                value: price_usd?.toString(),
                hint: "Empty: cost and the plan's markup",
              },
            ]),
            { name: "from", label: "From (UTC)", type: "datetime-local", hint: "Empty: now. It moves no traffic." },
            { name: "allow_loss", label: "Even where an alias's target costs more than it brings", type: "checkbox" },
          ]}
          submit="Write the prices"
          onSubmit={async (typed) => {
            const prices = Object.fromEntries(
              units.map(([unit]) => [
                unit,
                { cost_usd: typed[`cost ${unit}`], price_usd: typed[`price ${unit}`] || null },
              ]),
            );
            await api("PUT", `${path}/prices`, {
              prices,
              free: model.free,
              ...(typed.from && { from: `${typed.from}:00Z` }),
              ...(typed.allow_loss && { allow_loss: true }),
            });
            close();
            onDone();
          }}
        />
      )}
    </Opens>
  );
}
