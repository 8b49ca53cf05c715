/** What happened, newest first, and who is told of it. */
import { ALERTS } from "../../src/core/alerts/alert.ts";
import { link, useAddress } from "../kit/address.ts";
import { session } from "../kit/api.ts";
import { Filters } from "../kit/filters.tsx";
import { named, time } from "../kit/format.ts";
import { Head } from "../kit/frame.tsx";
import { useList } from "../kit/list.ts";
import { ListTable } from "../kit/list-table.tsx";
import type { Column } from "../kit/table.tsx";
import type { Schemas } from "../kit/types.ts";
import { Webhooks } from "../kit/webhooks.tsx";

type Alert = Schemas["Alert"];
const COLUMNS: readonly Column<Alert>[] = [
  { name: "at", label: "Time", value: ({ at }) => at, cell: ({ at }) => time(at) },
  { name: "type", label: "What", value: ({ type }) => type },
  {
    name: "account",
    label: "Account",
    value: ({ account }) => account,
    cell: ({ account }) => (account === null ? "" : <a href={link(`/accounts/${account}`)}>{account}</a>),
  },
  {
    name: "data",
    label: "Figures",
    value: ({ data }) => JSON.stringify(data),
    cell: ({ data }) => <code>{named(JSON.stringify(data))}</code>,
  },
];

export function Alerts() {
  const { account, type } = useAddress().query;
  const list = useList<Alert>("/admin/alerts", { account, type, limit: 100 });
  const who = session.value;
  return (
    <>
      <Head title="Alerts" />
      <Filters
        of={[
          { name: "account", label: "Account" },
          { name: "type", label: "Event" },
        ]}
      />
      <ListTable
        list={list}
        name="alerts"
        caption="Alerts"
        columns={COLUMNS}
        idOf={({ id }) => id}
        empty="Nothing of this kind in 30 days."
      />
      {who?.kind === "operator" && who.role === "owner" && <Webhooks at="/admin/webhooks" events={ALERTS} />}
    </>
  );
}
