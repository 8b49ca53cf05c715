/** Accounts with their keys, from CSV: the same as a file with `accounts`, one line each. */

import { usage } from "../failure.ts";
import { type CsvRow, readCsv } from "../local/csv-reader.ts";
import { meant } from "../suggest.ts";
import { type Desired, desiredIn } from "./desired.ts";

type Kind = "text" | "money" | "count" | "yes" | "list";

const ACCOUNT: Readonly<Record<string, Kind>> = {
  name: "text",
  balance_usd: "money",
  credit_limit_usd: "money",
  bills_monthly: "yes",
  blocked: "yes",
  compute_enabled: "yes",
  compute_upstream: "text",
  on_disconnect: "text",
  markup_percent: "count",
  rpm_limit: "count",
  tpm_limit: "count",
  rpd_limit: "count",
  max_parallel_requests: "count",
  free_rpm_limit: "count",
  max_gpus: "count",
  max_budget: "money",
  budget_duration: "text",
};
const KEY: Readonly<Record<string, Kind>> = {
  key_role: "text",
  key_models: "list",
  key_scopes: "list",
  key_expires_at: "text",
};
/** `team`: made where there is none, with the key in it. */
const OWN = ["id", "team", "key"];
const COLUMNS = [...OWN, ...Object.keys(ACCOUNT), ...Object.keys(KEY)];

/** The name of a key where no column names it. */
const STANDARD_KEY = "main";

export function tenantsIn(text: string): Desired {
  const [head, ...rows] = readCsv(text);
  const columns = columnsIn(head);
  const seen = new Map<string, number>();
  const accounts = rows.map((row): [string, unknown] => {
    const cells = cellsOf(row, columns);
    const id = cells.get("id");
    if (!id) throw usage(`Line ${row.line}: the id is missing.`);
    const earlier = seen.get(id);
    if (earlier !== undefined) throw usage(`Line ${row.line}: '${id}' stands in line ${earlier} too.`);
    seen.set(id, row.line);
    return [id, accountOf(cells, columns, row.line)];
  });
  return desiredIn({ accounts: Object.fromEntries(accounts) });
}

function columnsIn(head: CsvRow | undefined): readonly string[] {
  if (!head) throw usage("The file is empty. Its first line names the columns, such as id,name,balance_usd.");
  const columns = head.cells.map((cell) => cell.trim().toLowerCase());
  if (!columns.includes("id")) throw usage("The first line must name the columns, one of them id.");
  for (const [at, name] of columns.entries()) {
    if (!COLUMNS.includes(name)) {
      const near = meant(name, COLUMNS);
      throw usage(
        `There is no column '${name}'.${near ? ` Did you mean ${near}?` : ` There are ${COLUMNS.join(", ")}.`}`,
      );
    }
    if (columns.indexOf(name) !== at) throw usage(`The column '${name}' stands there twice.`);
  }
  return columns;
}

/** Empty cells are left out. */
function cellsOf({ cells, line }: CsvRow, columns: readonly string[]): Map<string, string> {
  if (cells.length > columns.length)
    throw usage(`Line ${line} has ${cells.length} cells, and there are ${columns.length} columns.`);
  const named = cells.map((cell, at): [string, string] => [columns[at] ?? "", cell.trim()]);
  return new Map(named.filter(([, cell]) => cell !== ""));
}

function accountOf(cells: ReadonlyMap<string, string>, columns: readonly string[], line: number): object {
  const { markup_percent, ...fields } = fieldsOf(cells, ACCOUNT, line);
  const team = cells.get("team");
  const name = columns.includes("key") ? cells.get("key") : STANDARD_KEY;
  const its = Object.entries(fieldsOf(cells, KEY, line)).map(([column, value]) => [column.replace(/^key_/, ""), value]);
  if (name === undefined && its.length > 0)
    throw usage(`Line ${line}: without a key there is nothing that ${its[0]?.[0]} is of.`);
  return {
    ...fields,
    ...(markup_percent !== undefined && { plan: { markup_percent } }),
    ...(team !== undefined && { teams: { [team]: {} } }),
    ...(name !== undefined && {
      keys: { [name]: { ...Object.fromEntries(its), ...(team !== undefined && { team }) } },
    }),
  };
}

const fieldsOf = (
  cells: ReadonlyMap<string, string>,
  kinds: Readonly<Record<string, Kind>>,
  line: number,
): { readonly [name: string]: unknown } =>
  Object.fromEntries(
    Object.entries(kinds).flatMap(([column, kind]) => {
      const cell = cells.get(column);
      return cell === undefined ? [] : [[column, valueIn(cell, kind, `Line ${line}, ${column}`)]];
    }),
  );

const YES: Readonly<Record<string, boolean>> = {
  yes: true,
  true: true,
  "1": true,
  no: false,
  false: false,
  "0": false,
};

function valueIn(cell: string, kind: Kind, where: string): unknown {
  switch (kind) {
    case "text":
    case "money":
      return cell;
    case "count":
      if (/^\d{1,15}(\.\d{1,6})?$/.test(cell)) return Number(cell);
      throw usage(`${where}: '${cell}' is no number.`);
    case "yes": {
      const value = Object.hasOwn(YES, cell.toLowerCase()) ? YES[cell.toLowerCase()] : undefined;
      if (value !== undefined) return value;
      throw usage(`${where}: '${cell}' is neither yes nor no.`);
    }
    case "list":
      return cell.split(/[\s;]+/).filter(Boolean);
  }
}
