/** Reads the command line: which command, its arguments and options. A mistyped word gets a suggestion. */
import { parseArgs } from "node:util";
import { type Command, type Given, GLOBAL_OPTIONS, type Option } from "./command.ts";
import { usage } from "./failure.ts";
import { hint } from "./suggest.ts";

export interface Line {
  readonly command: Command;
  readonly args: Readonly<Record<string, string>>;
  readonly given: Given;
}
/** Help for a command, or for those that begin with these words; all of them where there are none. */
export interface HelpWanted {
  readonly helpFor: Command | string;
}

/** Options that people try and that would put a secret where others can read it. */
const SECRET_OPTIONS = new Set(["token", "admin-token", "api-key", "password", "secret"]);

export function readLine(typed: readonly string[], commands: readonly Command[]): Line | HelpWanted {
  const secret = typed.find((arg) => SECRET_OPTIONS.has(/^--?([\w-]+)/.exec(arg)?.[1] ?? ""));
  if (secret !== undefined) throw secretOption(secret.replace(/=.*/s, ""));
  const argv = optionsLast(typed);
  const words = leadingWords(argv);
  if (words[0] === "help") return helpAbout(words.slice(1), commands);
  const command = longest(words, commands);
  if (!command) {
    if (words.length === 0 && argv.includes("--version")) return readLine(["version"], commands);
    const group = commands.filter(({ words: name }) => name.startsWith(`${words[0]} `));
    const wantsHelp = argv.some((arg) => arg === "--help" || arg === "-h");
    if (words.length === 0 || (group.length > 0 && (words.length === 1 || wantsHelp))) {
      if (words.length === 0 && argv.length > 0 && !wantsHelp) checkOptions(argv, GLOBAL_OPTIONS);
      return { helpFor: words[0] ?? "" };
    }
    throw unknownCommand(words, commands);
  }
  const options = [...GLOBAL_OPTIONS, ...(command.options ?? [])];
  const { given, positionals } = checkOptions(argv.slice(command.words.split(" ").length), options);
  if (given.flag("help")) return { helpFor: command };
  if (given.flag("json") && given.flag("csv")) throw usage("Give --json or --csv, not both.");
  return { command, args: argumentsOf(command, positionals), given };
}

/** Options of every command may stand before its words too. */
function optionsLast(argv: readonly string[]): string[] {
  const valued = GLOBAL_OPTIONS.filter(({ value }) => value).map(({ name }) => `--${name}`);
  let at = 0;
  while (argv[at]?.startsWith("-") && argv[at] !== "--") at += valued.includes(argv[at] ?? "") ? 2 : 1;
  return [...argv.slice(at), ...argv.slice(0, at)];
}

/** The words before the first option, at most as many as a command has. */
function leadingWords(argv: readonly string[]): string[] {
  const until = argv.findIndex((arg) => arg.startsWith("-"));
  return argv.slice(0, until < 0 ? argv.length : until).slice(0, 3);
}

function longest(words: readonly string[], commands: readonly Command[]): Command | undefined {
  const fitting = commands.filter(({ words: name }) => ` ${words.join(" ")} `.startsWith(` ${name} `));
  return fitting.toSorted((one, other) => other.words.length - one.words.length)[0];
}

function helpAbout(words: readonly string[], commands: readonly Command[]): HelpWanted {
  const command = longest(words, commands);
  if (command) return { helpFor: command };
  const [group = ""] = words;
  if (group !== "" && !commands.some(({ words: name }) => name.startsWith(`${group} `))) {
    throw unknownCommand(words, commands);
  }
  return { helpFor: group };
}

function unknownCommand(words: readonly string[], commands: readonly Command[]): Error {
  const names = commands.map(({ words: name }) => name);
  const [first = ""] = words;
  const group = names.filter((name) => name.startsWith(`${first} `));
  const written = group.length > 0 ? words.slice(0, 2).join(" ") : first;
  const firsts = [...new Set(names.map((name) => name.split(" ")[0] ?? ""))];
  const suggestion = group.length > 0 ? hint(written, group) : hint(first, firsts);
  return usage(`There is no command '${written}'.${suggestion} 'tollgate help' lists the commands.`);
}

function checkOptions(argv: readonly string[], options: readonly Option[]): { given: Given; positionals: string[] } {
  const known = new Map(options.map((option) => [option.name, option]));
  const negative = (arg: string, at: number) => /^-\.?\d/.test(arg) && !known.get(argv[at - 1]?.slice(2) ?? "")?.value;
  const { tokens } = parseArgs({
    // An amount below zero is no option.
    args: argv.map((arg, at) => (negative(arg, at) ? `\0${arg}` : arg)),
    options: {
      ...Object.fromEntries(options.map(({ name, value }) => [name, { type: value ? "string" : "boolean" } as const])),
      help: { type: "boolean", short: "h" },
    },
    strict: false,
    allowPositionals: true,
    tokens: true,
  });
  const texts = new Map<string, string>();
  const positionals: string[] = [];
  for (const token of tokens) {
    if (token.kind === "positional") positionals.push(token.value.replace(/^\0/, ""));
    if (token.kind !== "option") continue;
    const option = known.get(token.name);
    if (!option || !token.rawName.startsWith("-")) throw unknownOption(token.rawName, token.name, [...known.keys()]);
    if (texts.has(option.name)) throw usage(`--${option.name} is given twice.`);
    if (!option.value && token.value !== undefined) throw usage(`--${option.name} takes no value.`);
    if (option.value && (!token.value || (!token.inlineValue && token.value.startsWith("--"))))
      throw usage(`--${option.name} needs a value: --${option.name} ${option.value}.`);
    texts.set(option.name, token.value ?? "");
  }
  return {
    given: { text: (name) => (known.get(name)?.value ? texts.get(name) : undefined), flag: (name) => texts.has(name) },
    positionals,
  };
}

const secretOption = (name: string): Error =>
  usage(
    `There is no ${name}: other users of this machine can read a command line, and shells keep it. Set TOLLGATE_TOKEN, or ` +
      "make a profile with 'tollgate profile set'.",
  );

const unknownOption = (raw: string, name: string, names: readonly string[]): Error =>
  usage(`There is no option ${raw}.${hint(name, names, "--")} Add --help to see them.`);

function argumentsOf(command: Command, given: readonly string[]): Record<string, string> {
  const wanted = command.args ?? [];
  const least = wanted.filter(({ optional }) => !optional).length;
  if (given.length < least) {
    const named = wanted.slice(given.length).find(({ optional }) => !optional);
    throw usage(`'tollgate ${command.words}' needs <${named?.name}>. Add --help to see how it is called.`);
  }
  const more = given[wanted.length];
  if (more !== undefined) {
    throw usage(`'tollgate ${command.words}' has no place for '${more}'. Add --help to see how it is called.`);
  }
  return Object.fromEntries(wanted.flatMap(({ name }, at) => (given[at] === undefined ? [] : [[name, given[at]]])));
}
