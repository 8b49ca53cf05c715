/** A table of a list of the API: what failed stands above it, and a list that failed at once is an empty one. */
import type { Listed } from "./list.ts";
import { Fault } from "./notices.tsx";
import { Table, type TableProps } from "./table.tsx";

type Props<Row> = Omit<TableProps<Row>, "rows" | "busy" | "more"> & { readonly list: Listed<Row> };

export function ListTable<Row>({ list, ...table }: Props<Row>) {
  return (
    <>
      <Fault error={list.error} retry={list.reload} />
      <Table {...table} rows={list.rows ?? (list.error ? [] : undefined)} busy={list.busy} more={list.more} />
    </>
  );
}
