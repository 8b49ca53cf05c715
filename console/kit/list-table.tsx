/**
 * A table of a list of the API. A failure stands above it; a list of which nothing came shows no table, since it may not
 * be empty.
 */
import type { Listed } from "./list.ts";
import { Fault } from "./notices.tsx";
import { Table, type TableProps } from "./table.tsx";

type Props<Row> = Omit<TableProps<Row>, "rows" | "busy" | "more"> & { readonly list: Listed<Row> };

export function ListTable<Row>({ list, ...table }: Props<Row>) {
  return (
    <>
      <Fault error={list.error} retry={list.reload} />
      {(list.rows || !list.error) && <Table {...table} rows={list.rows} busy={list.busy} more={list.more} />}
    </>
  );
}
