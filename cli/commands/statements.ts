/** `tollgate statement`: a month of an account, or of all. */
import type { Schemas } from "../../client/operator.ts";
import type { Command, Work } from "../command.ts";
import { fault, usage } from "../failure.ts";
import { when } from "../show/cells.ts";
import { safeLines } from "../show/safe.ts";
import type { Column } from "../show/table.ts";
import { nanoOf, usdText } from "../usd.ts";
import { collected } from "./collected.ts";

interface Line {
  readonly account: string;
  readonly line: string;
  readonly at: string | null;
  readonly name: string | null;
  readonly calls: number | null;
  readonly nano: bigint;
}

/** The amounts from `opening` on add up to `closing`. */
function linesOf(statement: Schemas["Statement"]): Line[] {
  const { account, from, to, credits, charges } = statement;
  const line = (kind: string, nano: bigint, more: Partial<Line> = {}): Line => ({
    account,
    line: kind,
    at: null,
    name: null,
    calls: null,
    nano,
    ...more,
  });
  const shown = credits.reduce((sum, { amount_usd }) => sum + nanoOf(amount_usd), 0n);
  const others = nanoOf(statement.credits_usd) - shown;
  const unreported = nanoOf(statement.unreported_usd);
  return [
    line("opening", nanoOf(statement.opening_usd), { at: from }),
    ...credits.map(({ at, kind, amount_usd, reference }) => line(kind, nanoOf(amount_usd), { at, name: reference })),
    ...(others === 0n ? [] : [line("more credits", others)]),
    ...charges.map(({ model, calls, charged_usd }) => line("charges", -nanoOf(charged_usd), { name: model, calls })),
    ...(unreported === 0n ? [] : [line("charges", -unreported, { name: "(not reported yet)" })]),
    line("closing", nanoOf(statement.closing_usd), { at: to }),
  ];
}

const COLUMNS: readonly Column<Line>[] = [
  ["account", (row) => row.account],
  ["line", (row) => row.line],
  ["at", (row) => when(row.at)],
  ["name", (row) => row.name],
  ["calls", (row) => row.calls],
  ["amount_usd", (row) => ({ decimal: usdText(row.nano) })],
];

export const statementCommand: Command = {
  words: "statement",
  args: [{ name: "account", optional: true }],
  about: "A month's statement: opening, credits, charges by model, closing",
  options: [
    { name: "month", value: "MONTH", about: "of UTC, such as 2026-11 (this one)" },
    { name: "all", about: "of all accounts" },
  ],
  examples: ["statement acme --month 2026-11", "statement --month 2026-11 --all --csv"],
  async run(work) {
    const { argOr, given, gateway, print } = work;
    const account = argOr("account");
    if ((account === undefined) !== given.flag("all")) throw usage("Name an account, or say --all.");
    const query = { month: given.text("month") };
    if (print.form === "csv") return passCsv(work, account);
    if (account !== undefined) {
      const statement = await gateway().run("getStatement", { account, query });
      return print.rows(COLUMNS, linesOf(statement), { json: statement });
    }
    const all = await collected(gateway().rows("listStatements", { query }), 100_000);
    await print.rows(COLUMNS, all.flatMap(linesOf), { json: { data: all }, empty: "No accounts." });
  },
};

/** The gateway's own CSV, whose amounts are exact at any size, as it comes. */
async function passCsv({ given, gateway, print }: Work, account: string | undefined): Promise<void> {
  const query = { month: given.text("month"), format: "csv" };
  const response =
    account === undefined
      ? await gateway().stream("listStatements", { query })
      : await gateway().stream("getStatement", { account, query });
  if (!response.ok || !response.headers.get("content-type")?.startsWith("text/csv")) {
    await response.body?.cancel();
    // Asked again for JSON, it says what is wrong.
    const again = { query: { month: given.text("month") } };
    await (account === undefined
      ? gateway().run("listStatements", again)
      : gateway().run("getStatement", { account, ...again }));
    throw fault(`${gateway().url} did not answer CSV (status ${response.status}).`);
  }
  const decoder = new TextDecoder();
  let tail = "";
  for await (const chunk of (response.body ?? []) as AsyncIterable<Uint8Array>) {
    const text = tail + decoder.decode(chunk, { stream: true });
    const end = text.lastIndexOf("\n") + 1;
    tail = text.slice(end);
    if (end > 0) await print.raw(safeCsv(text.slice(0, end)));
  }
  if (tail !== "") throw fault("The answer broke off in the middle of a line. Ask again.");
}

const safeCsv = (text: string): string => safeLines(text.replaceAll("\r\n", "\n")).replaceAll("\n", "\r\n");
