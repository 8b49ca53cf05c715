/** The tables of docs/clients.md. */
import { CAPABILITIES, CLIENTS, type Client, HEAVY, IN_BOTH_MANNERS } from "./matrix.ts";

export interface Run {
  versionOf(packageName: string): string;
  /** Whether a client did this, by its name and the capability's words; a heavy one's, by what it does. */
  passed(client: string, words: string): boolean;
}

/** Between these lines of the document. */
const BEGIN = "<!-- by npm run clients -->";
const END = "<!-- end -->";

const row = (cells: readonly string[]): string => `| ${cells.join(" | ")} |`;
const table = (head: readonly string[], rows: readonly (readonly string[])[]): string =>
  [row(head), row(head.map(() => "---")), ...rows.map(row)].join("\n");

export function tablesOf({ versionOf, passed }: Run): string {
  const clients: readonly Client[] = Object.values(CLIENTS);
  const capabilities = Object.entries(CAPABILITIES) as [keyof typeof CAPABILITIES, string][];
  const cell = ({ name, does }: Client, capability: keyof typeof CAPABILITIES): string => {
    if (!does.includes(capability)) return "";
    return passed(name, CAPABILITIES[capability]) ? "yes" : "**no**";
  };
  const matrix = table(
    ["", ...clients.map(({ name }) => name)],
    capabilities.map(([capability, words]) => [
      IN_BOTH_MANNERS.has(capability) ? `${words} \\*` : words,
      ...clients.map((client) => cell(client, capability)),
    ]),
  );
  const setUp = table(
    ["client", "packages", "the line that sets the base URL"],
    clients.map(({ name, packages, setUp }) => [
      name,
      packages.map((one) => `${one} ${versionOf(one)}`).join(", "),
      `\`${setUp}\``,
    ]),
  );
  const heavy = table(
    ["client", "package", "what sets the base URL", "what is run \\*", ""],
    Object.values(HEAVY).map(({ name, package: one, setUp, does }) => [
      ...[name, `${one} ${versionOf(one)}`, setUp, does],
      passed(name, does) ? "yes" : "**no**",
    ]),
  );
  return [matrix, setUp, heavy].join("\n\n");
}

/** The document with these tables in it. */
export function withTables(document: string, tables: string): string {
  const [before = "", rest = ""] = document.split(BEGIN);
  const after = rest.split(END)[1];
  if (after === undefined) throw new Error("docs/clients.md has no place for its tables");
  return `${before}${BEGIN}\n\n${tables}\n\n${END}${after}`;
}
