/**
 * The page of single calls, newest first: filters, live, and a table in the API's order. Operators and tenants have it.
 */
import { useAddress } from "./address.ts";
import { Filters } from "./filters.tsx";
import { Head } from "./frame.tsx";
import { useList } from "./list.ts";
import { ListTable } from "./list-table.tsx";
import type { Column } from "./table.tsx";

const PAGE = 100;
const LIVE_EVERY_MS = 2_000;

interface Props<Row> {
  /** The API's path of the list. */
  readonly path: string;
  readonly filters: Parameters<typeof Filters>[0]["of"];
  readonly columns: readonly Column<Row>[];
}

export function CallsPage<Row extends { readonly id: string }>({ path, filters, columns }: Props<Row>) {
  const { query, set } = useAddress();
  const { from, to, live } = query;
  const named = Object.fromEntries(filters.map(({ name }) => [name, query[name]]));
  const list = useList<Row>(path, { ...named, from, to, limit: PAGE }, live ? LIVE_EVERY_MS : undefined);
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
      <Filters of={filters} />
      <ListTable
        list={list}
        name="calls"
        caption="Calls"
        columns={columns}
        idOf={({ id }) => id}
        empty="No such calls. Clear the filters, or wait some seconds after a call has ended."
      />
    </>
  );
}
