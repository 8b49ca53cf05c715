/** What `--help` shows. */
import { type Command, GLOBAL_OPTIONS, type Option } from "./command.ts";

const aligned = (lines: readonly (readonly [left: string, right: string])[]): string => {
  const width = Math.max(...lines.map(([left]) => left.length));
  return lines.map(([left, right]) => `  ${left.padEnd(width)}  ${right}\n`).join("");
};

const optionLine = ({ name, value, about }: Option) => [`--${name}${value ? ` ${value}` : ""}`, about] as const;

const callOf = ({ words, args = [] }: Command): string =>
  [words, ...args.map(({ name, optional }) => (optional ? `[${name}]` : `<${name}>`))].join(" ");

export function helpOf(command: Command): string {
  const { about, more, options = [], examples = [] } = command;
  const parts = [`tollgate ${callOf(command)}\n`, `${about}.${more ? ` ${more}` : ""}\n`];
  if (options.length > 0) parts.push(`Options\n${aligned(options.map(optionLine))}`);
  parts.push(`Options of every command\n${aligned(GLOBAL_OPTIONS.map(optionLine))}`);
  if (examples.length > 0) parts.push(`Examples\n${examples.map((line) => `  tollgate ${line}\n`).join("")}`);
  return parts.join("\n");
}

/** `group`: the first word of some; empty: all. */
export function overview(commands: readonly Command[], group: string): string {
  const shown = commands.filter(({ words }) => group === "" || words === group || words.startsWith(`${group} `));
  const list = aligned(shown.map((command) => [callOf(command), command.about]));
  if (group !== "") return `${list}\nAdd --help to one of them for its options.\n`;
  return (
    `Tollgate's command line, for operators.\n\nCommands\n${list}\n` +
    `Options of every command\n${aligned(GLOBAL_OPTIONS.map(optionLine))}\n` +
    "TOLLGATE_URL and TOLLGATE_TOKEN say where and who; 'tollgate profile set' keeps both in a file of yours alone.\n" +
    "Ends with 0 where all went well, 1 at a fault, 2 where the call is wrong, 3 where a thing is not there, 4 where it is refused.\n"
  );
}
