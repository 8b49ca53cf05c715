/** Prints what a command found, in the form that was asked for. */
import type { Cell } from "../../src/api/kit/csv.ts";
import { safe, safeJson } from "./safe.ts";
import { type Column, csv, facts, table } from "./table.ts";

export type Form = "table" | "json" | "csv";
export type Fact = readonly [name: string, value: Cell | undefined];

export class Printer {
  readonly form: Form;
  readonly #out: (text: string) => Promise<void>;

  constructor(form: Form, out: (text: string) => Promise<void>) {
    this.form = form;
    this.#out = out;
  }

  /** `json`: what `--json` shows; the rows in `data` where it is absent. `empty`: said in place of an empty table. */
  async rows<Row>(
    columns: readonly Column<Row>[],
    rows: readonly Row[],
    { json = { data: rows }, empty = "Nothing." }: { json?: unknown; empty?: string } = {},
  ): Promise<void> {
    if (this.form === "json") return this.json(json);
    if (this.form === "csv") return this.#out(csv(columns, rows));
    return this.#out(rows.length === 0 ? `${empty}\n` : table(columns, rows));
  }

  /** One thing, by name and value; in CSV two columns. */
  async thing(lines: readonly Fact[], json: unknown): Promise<void> {
    if (this.form === "json") return this.json(json);
    if (this.form === "table") return this.#out(facts(lines));
    const columns: Column<Fact>[] = [
      ["name", ([name]) => name],
      ["value", ([, value]) => value],
    ];
    return this.#out(csv(columns, lines));
  }

  json(value: unknown): Promise<void> {
    return this.#out(`${safeJson(value)}\n`);
  }

  /** A line for people; programs that read JSON or CSV are not told. */
  async say(text: string): Promise<void> {
    if (this.form === "table") await this.#out(`${text.split("\n").map(safe).join("\n")}\n`);
  }

  raw(text: string): Promise<void> {
    return this.#out(text);
  }
}
