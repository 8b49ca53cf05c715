/** Single calls, newest first, as they end. */
import { link, useAddress } from "../kit/address.ts";
import { callColumns } from "../kit/call-columns.tsx";
import { Filters, OUTCOMES } from "../kit/filters.tsx";
import { Head } from "../kit/frame.tsx";
import { useList } from "../kit/list.ts";
import { Fault } from "../kit/notices.tsx";
import { type Column, Table } from "../kit/table.tsx";
import type { Call } from "../kit/types.ts";

const FILTERS = [
  { name: "account", label: "Account" },
  { name: "key", label: "Key id" },
  { name: "model", label: "Model" },
  { name: "upstream", label: "Upstream" },
  { name: "outcome", label: "Outcome", options: OUTCOMES },
  { name: "status", label: "Status" },
  { name: "reason", label: "Reason" },
];
const [when, ...rest] = callColumns<Call>(true);
const COLUMNS: readonly Column<Call>[] = [
  ...(when ? [when] : []),
  {
    name: "account",
    label: "Account",
    value: (call) => call.account,
    cell: (call) => <a href={link(`/accounts/${call.account}`)}>{call.account}</a>,
  },
  { name: "upstream", label: "Upstream", value: (call) => call.upstream },
  ...rest,
];

export function Calls() {
  const { query, set } = useAddress();
  const { from, to, live } = query;
  const named = Object.fromEntries(FILTERS.map(({ name }) => [name, query[name]]));
  const list = useList<Call>("/admin/calls", { ...named, from, to, limit: 100 }, live ? 2_000 : undefined);
  return (
    <>
      <Head title="Calls">
        <label class="check">
          <input
            type="checkbox"
            checked={Boolean(live)}
            onChange={(event) => set({ live: event.currentTarget.checked ? "1" : null })}
          />{" "}
          Live
        </label>
      </Head>
      <Filters of={FILTERS} />
      <Fault error={list.error} retry={list.reload} />
      <Table
        name="calls"
        caption="Calls"
        ordered
        columns={COLUMNS}
        rows={list.rows ?? (list.error ? [] : undefined)}
        idOf={(call) => call.id}
        busy={list.busy}
        more={list.more}
        empty="No such calls. Clear the filters, or wait some seconds after a call has ended."
      />
    </>
  );
}
