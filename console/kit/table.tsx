/** A table: sorted and searched by the address, exported as CSV. What it shows is what the API gave. */
import type { ComponentChildren } from "preact";
import { useAddress } from "./address.ts";
import { type Cell, csv, save } from "./csv.ts";

export interface Column<Row> {
  readonly name: string;
  readonly label: string;
  /** What is sorted, searched and exported. */
  value(row: Row): Cell;
  /** What is shown; the value if absent. */
  cell?(row: Row): ComponentChildren;
  readonly number?: boolean;
}

export interface TableProps<Row> {
  /** Of the file, and of its parameters in the address where a page has several tables. */
  readonly name: string;
  readonly caption: string;
  readonly columns: readonly Column<Row>[];
  readonly rows: readonly Row[] | undefined;
  readonly idOf: (row: Row) => string;
  /** What to do where there is nothing. */
  readonly empty: ComponentChildren;
  readonly more?: (() => void) | undefined;
  readonly busy?: boolean;
  /** Instead of the rows that are here, such as the API's own report. */
  readonly exportFrom?: string;
  readonly actions?: ComponentChildren;
  /** The rows come in the API's order, and a part of them only: no sorting. */
  readonly ordered?: boolean;
}

export function Table<Row>(props: TableProps<Row>) {
  const { name, caption, columns, rows, idOf, empty, more, busy, actions, ordered } = props;
  const { query, set } = useAddress();
  const [sort, find] = [ordered ? "" : (query[`${name}.sort`] ?? ""), query[`${name}.q`] ?? ""];
  const shown = arrange(rows ?? [], columns, sort, find);
  return (
    <section class="table" aria-busy={busy || rows === undefined}>
      <div class="tools">
        <input
          type="search"
          aria-label={`Search ${caption}`}
          placeholder="Search"
          value={find}
          onInput={(event) => set({ [`${name}.q`]: event.currentTarget.value })}
        />
        <span class="grow" />
        {actions}
        <Export {...props} rows={shown} />
      </div>
      <section class="scroll" tabIndex={0} aria-label={caption}>
        <table>
          <caption class="hidden">{caption}</caption>
          <thead>
            <tr>
              {columns.map((column) => (
                <Head
                  key={column.name}
                  column={column}
                  sort={sort}
                  fixed={ordered}
                  onSort={(by) => set({ [`${name}.sort`]: by })}
                />
              ))}
            </tr>
          </thead>
          <tbody>
            {shown.map((row) => (
              <tr key={idOf(row)}>
                {columns.map((column) => (
                  <td key={column.name} class={column.number ? "number" : undefined}>
                    {column.cell ? column.cell(row) : (column.value(row) ?? "–")}
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </section>
      {rows === undefined && <p class="quiet">Loading…</p>}
      {rows !== undefined && shown.length === 0 && (
        <div class="empty">{find ? `Nothing here has “${find}”.` : empty}</div>
      )}
      {more && (
        <button type="button" class="plain" disabled={busy} onClick={more}>
          {busy ? "Loading…" : "Show more"}
        </button>
      )}
    </section>
  );
}

function Head<Row>({
  column,
  sort,
  fixed,
  onSort,
}: {
  column: Column<Row>;
  sort: string;
  fixed?: boolean | undefined;
  onSort(by: string): void;
}) {
  const down = sort === `-${column.name}`;
  const sorted = down ? "descending" : sort === column.name ? "ascending" : undefined;
  return (
    <th scope="col" class={column.number ? "number" : undefined} aria-sort={sorted}>
      {fixed || column.label === "" ? (
        column.label
      ) : (
        <button type="button" class="head" onClick={() => onSort(down ? column.name : `-${column.name}`)}>
          {column.label}
          <span aria-hidden="true">{sorted === undefined ? "" : down ? " ↓" : " ↑"}</span>
        </button>
      )}
    </th>
  );
}

function Export<Row>({ name, columns, rows, exportFrom }: TableProps<Row>) {
  if (exportFrom) {
    return (
      <a class="button plain" href={exportFrom} download data-native>
        CSV
      </a>
    );
  }
  const lines = () => [
    columns.map((column) => column.name),
    ...(rows ?? []).map((row) => columns.map((column) => column.value(row))),
  ];
  return (
    <button type="button" class="plain" onClick={() => save(`${name}.csv`, csv(lines()))}>
      CSV
    </button>
  );
}

function arrange<Row>(
  rows: readonly Row[],
  columns: readonly Column<Row>[],
  sort: string,
  find: string,
): readonly Row[] {
  const wanted = find.toLowerCase();
  const found = wanted
    ? rows.filter((row) =>
        columns.some((column) =>
          String(column.value(row) ?? "")
            .toLowerCase()
            .includes(wanted),
        ),
      )
    : rows;
  const by = columns.find((column) => column.name === sort.replace(/^-/, ""));
  if (!by) return found;
  const sign = sort.startsWith("-") ? -1 : 1;
  return [...found].sort((a, b) => sign * compare(by.value(a), by.value(b)));
}

function compare(a: Cell, b: Cell): number {
  if (a === null || b === null) return Number(a !== null) - Number(b !== null);
  return typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b));
}
