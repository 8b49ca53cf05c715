/** Single calls, newest first. */
import { useAddress } from "../kit/address.ts";
import { callColumns } from "../kit/call-columns.tsx";
import { Filters, OUTCOMES } from "../kit/filters.tsx";
import { Head } from "../kit/frame.tsx";
import { useList } from "../kit/list.ts";
import { Fault } from "../kit/notices.tsx";
import { type Column, Table } from "../kit/table.tsx";
import type { TenantCall } from "../kit/types.ts";

const FILTERS = [
  { name: "model", label: "Model" },
  { name: "key", label: "Key id" },
  { name: "outcome", label: "Outcome", options: OUTCOMES },
  { name: "status", label: "Status" },
];
const COLUMNS: readonly Column<TenantCall>[] = [
  ...callColumns<TenantCall>(false),
  { name: "id", label: "Request id", value: ({ id }) => id, cell: ({ id }) => <code>{id}</code> },
];

export function Calls() {
  const { query, set } = useAddress();
  const { from, to, live } = query;
  const named = Object.fromEntries(FILTERS.map(({ name }) => [name, query[name]]));
  const list = useList<TenantCall>("/account/calls", { ...named, from, to, limit: 100 }, live ? 2_000 : undefined);
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
        idOf={({ id }) => id}
        busy={list.busy}
        more={list.more}
        empty="No such calls. Clear the filters, or wait some seconds after a call has ended."
      />
    </>
  );
}
