/** An account's ledger: every entry, and new ones. */
import { link } from "../kit/address.ts";
import { api } from "../kit/api.ts";
import { Form, Opens } from "../kit/dialog.tsx";
import { time, usd, words } from "../kit/format.ts";
import { useList } from "../kit/list.ts";
import { ListTable } from "../kit/list-table.tsx";
import type { Column } from "../kit/table.tsx";
import type { Account, Schemas } from "../kit/types.ts";

type Entry = Schemas["LedgerEntry"];
const COLUMNS: readonly Column<Entry>[] = [
  { name: "at", label: "Time", value: ({ at }) => at, cell: ({ at }) => time(at) },
  { name: "kind", label: "Kind", value: ({ kind }) => kind, cell: ({ kind }) => words(kind) },
  { name: "model", label: "Model", value: ({ model }) => model },
  {
    name: "call_id",
    label: "Call",
    value: ({ call_id }) => call_id,
    cell: ({ call_id }) => (call_id ? <a href={link(`/calls/${call_id}`)}>{call_id.slice(0, 8)}</a> : "–"),
  },
  {
    name: "reference",
    label: "Reference",
    value: ({ reference, note }) => [reference, note].filter(Boolean).join(": ") || null,
  },
  {
    name: "amount_usd",
    label: "Amount",
    number: true,
    value: ({ amount_usd }) => amount_usd,
    cell: ({ amount_usd }) => usd(amount_usd),
  },
  {
    name: "balance_usd",
    label: "Balance",
    number: true,
    value: ({ balance_usd }) => balance_usd,
    cell: ({ balance_usd }) => usd(balance_usd),
  },
];

export function Ledger({ path, account, onBooked }: { path: string; account: Account; onBooked(): void }) {
  const list = useList<Entry>(`${path}/ledger`, { limit: 100 });
  return (
    <ListTable
      list={list}
      name="ledger"
      caption={`Ledger of ${account.name}`}
      columns={COLUMNS}
      idOf={({ id }) => String(id)}
      empty="Nothing was booked yet. Book a credit, so that its calls can be paid."
      actions={
        <Opens label="Book a credit" title="Book a credit">
          {(close) => (
            <Form
              fields={[
                {
                  name: "kind",
                  label: "Kind",
                  options: [
                    ["top_up", "top-up: money came in"],
                    ["refund", "refund: paid back, below zero"],
                    ["correction", "correction: either sign"],
                  ],
                },
                { name: "amount_usd", label: "Amount, USD", type: "number", required: true },
                {
                  name: "reference",
                  label: "Reference",
                  required: true,
                  hint: "Counts once: sent again, nothing is booked twice",
                },
                { name: "call_id", label: "Call", hint: "Of a correction: the call that it is about" },
                { name: "note", label: "Note" },
              ]}
              submit="Book"
              onSubmit={async ({ kind, amount_usd, reference, call_id, note }) => {
                await api("POST", `${path}/credits`, {
                  kind,
                  amount_usd,
                  reference,
                  ...(call_id && { call_id }),
                  ...(note && { note }),
                });
                close();
                list.reload();
                onBooked();
              }}
            />
          )}
        </Opens>
      }
    />
  );
}
