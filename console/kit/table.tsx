/** A table: sorted and searched by the address, exported as CSV. What it shows is what the API gave. */
import type { ComponentChildren } from "preact";
import { useMemo, useState } from "preact/hooks";
import { useAddress } from "./address.ts";
import { type Cell, csv, save } from "./csv.ts";
import { count, named } from "./format.ts";
import { Waiting } from "./notices.tsx";

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
  readonly actions?: ComponentChildren;
}

/** A browser takes seconds to lay out thousands of rows; the others are sorted, searched and exported all the same. */
const ROWS_AT_ONCE = 100;

export function Table<Row>(props: TableProps<Row>) {
  const { name, columns, rows, idOf, empty, more, busy, actions } = props;
  const caption = named(props.caption);
  const { query, set } = useAddress();
  const [most, setMost] = useState(ROWS_AT_ONCE);
  const [sort, find] = [query[`${name}.sort`] ?? "", query[`${name}.q`] ?? ""];
  const found = useMemo(() => arrange(rows ?? [], columns, sort, find), [rows, columns, sort, find]);
  const shown = found.slice(0, most);
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
        <Export {...props} rows={found} />
      </div>
      <section class="scroll" tabIndex={0} aria-label={caption}>
        <table>
          <caption class="hidden">{caption}</caption>
          <thead>
            <tr>
              {columns.map((column) => (
                <Head key={column.name} column={column} sort={sort} onSort={(by) => set({ [`${name}.sort`]: by })} />
              ))}
            </tr>
          </thead>
          <tbody>
            {shown.map((row) => (
              <tr key={idOf(row)}>
                {columns.map((column) => (
                  <td key={column.name} class={column.number ? "number" : undefined}>
                    {column.cell ? column.cell(row) : text(column.value(row))}
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </section>
      {rows === undefined && <Waiting />}
      {rows !== undefined && shown.length === 0 && (
        <div class="empty">{find ? `Nothing here has “${find}”.` : empty}</div>
      )}
      {found.length > most && (
        <button type="button" class="plain" onClick={() => setMost(most + ROWS_AT_ONCE)}>
          Show more of {count(found.length)} rows
        </button>
      )}
      {found.length <= most && more && (
        <button type="button" class="plain" disabled={busy} onClick={more}>
          {busy ? "Loading…" : "Show more"}
        </button>
      )}
      {more && (sort || find) && <small> Sorted and searched are the rows that are here.</small>}
    </section>
  );
}

const text = (value: Cell): Cell => (value === null ? "–" : typeof value === "string" ? named(value) : value);

/** Pressed once it sorts down, twice up; a third time brings back the API's order. */
function Head<Row>({
  column: { name, label, number },
  sort,
  onSort,
}: {
  column: Column<Row>;
  sort: string;
  onSort(by: string): void;
}) {
  const down = sort === `-${name}`;
  const sorted = down ? "descending" : sort === name ? "ascending" : undefined;
  const next = { none: `-${name}`, descending: name, ascending: "" }[sorted ?? "none"];
  return (
    <th scope="col" class={number ? "number" : undefined} aria-sort={sorted}>
      {label && (
        <button type="button" class="head" onClick={() => onSort(next)}>
          {label}
          <span aria-hidden="true">{sorted === undefined ? "" : down ? " ↓" : " ↑"}</span>
        </button>
      )}
    </th>
  );
}

function Export<Row>({ name, columns, rows }: TableProps<Row>) {
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
