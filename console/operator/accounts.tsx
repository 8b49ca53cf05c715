/** All accounts. */
import { useLocation } from "preact-iso/router";
import { link } from "../kit/address.ts";
import { api } from "../kit/api.ts";
import { Form, Opens } from "../kit/dialog.tsx";
import { day, named, usd, usdBrief } from "../kit/format.ts";
import { Head } from "../kit/frame.tsx";
import { useList } from "../kit/list.ts";
import { ListTable } from "../kit/list-table.tsx";
import { Badge } from "../kit/notices.tsx";
import type { Column } from "../kit/table.tsx";
import type { Account } from "../kit/types.ts";

export const stateOf = ({ deleted_at, blocked }: Account): string =>
  deleted_at !== null ? "deleted" : blocked ? "blocked" : "live";
const money = (name: "balance_usd" | "held_usd", label: string): Column<Account> => ({
  name,
  label,
  number: true,
  value: (account) => account[name],
  cell: (account) => <span title={usd(account[name])}>{usdBrief(account[name])}</span>,
});
const COLUMNS: readonly Column<Account>[] = [
  {
    name: "name",
    label: "Name",
    value: ({ name }) => name,
    cell: ({ id, name }) => <a href={link(`/accounts/${id}`)}>{named(name)}</a>,
  },
  { name: "id", label: "Id", value: ({ id }) => id, cell: ({ id }) => <code>{id}</code> },
  {
    name: "state",
    label: "State",
    value: stateOf,
    cell: (account) => <Badge kind={stateOf(account) === "live" ? "good" : "idle"}>{stateOf(account)}</Badge>,
  },
  money("balance_usd", "Balance"),
  money("held_usd", "Held"),
  { name: "pays", label: "Pays", value: ({ bills_monthly }) => (bills_monthly ? "monthly" : "ahead") },
  {
    name: "markup",
    label: "Markup",
    number: true,
    value: ({ plan }) => plan.markup_percent,
    cell: ({ plan }) => `${plan.markup_percent} %`,
  },
  {
    name: "created_at",
    label: "Since",
    value: ({ created_at }) => created_at,
    cell: ({ created_at }) => day(created_at),
  },
];

export function Accounts() {
  const list = useList<Account>("/admin/accounts", { limit: 500 });
  const { route } = useLocation();
  return (
    <>
      <Head title="Accounts" />
      <ListTable
        list={list}
        name="accounts"
        caption="Accounts"
        columns={COLUMNS}
        idOf={({ id }) => id}
        empty="No account yet. Make one, then give it a key."
        actions={
          <Opens label="New account" title="New account">
            {() => (
              <Form
                fields={[
                  { name: "name", label: "Name", required: true },
                  { name: "id", label: "Id", hint: "a-z, 0-9, _ or -; empty: one is given" },
                  { name: "balance_usd", label: "First credit, USD", type: "number", value: "0" },
                  { name: "max_budget", label: "Budget a month, USD", type: "number", hint: "Empty: none" },
                ]}
                submit="Make the account"
                onSubmit={async ({ name, id, balance_usd, max_budget }) => {
                  const body = {
                    name,
                    ...(id && { id }),
                    balance_usd: balance_usd || "0",
                    ...(max_budget && { max_budget, budget_duration: "month" }),
                  };
                  const made = await api<Account>("POST", "/admin/accounts", body);
                  route(link(`/accounts/${made.id}/keys`));
                }}
              />
            )}
          </Opens>
        }
      />
    </>
  );
}
