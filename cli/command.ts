/** What a command is, and what it works with. */
import type { Gateway } from "./gateway.ts";
import type { Printer } from "./show/printer.ts";

export interface Option {
  readonly name: string;
  /** What its value is called in the help; absent: it takes none. */
  readonly value?: string;
  readonly about: string;
}

interface Argument {
  readonly name: string;
  readonly optional?: true;
}

export interface Command {
  /** As it is typed: `key find`. */
  readonly words: string;
  readonly args?: readonly Argument[];
  /** One line, without a full stop. */
  readonly about: string;
  /** More, for its own help. */
  readonly more?: string;
  readonly options?: readonly Option[];
  readonly examples?: readonly string[];
  run(work: Work): Promise<void>;
}

/** Where a command reads and writes. */
export interface Io {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly home: string;
  /** Standard output is a terminal. */
  readonly terminal: boolean;
  out(text: string): Promise<void>;
  err(text: string): void;
  /** Asks at the terminal; null: there is nobody to ask. `hidden`: what is typed is not shown. */
  question(text: string, hidden?: boolean): Promise<string | null>;
  /** Standard input, to a bound in bytes. */
  input(most: number): Promise<string>;
  now(): number;
  pause(ms: number): Promise<void>;
}

/** The options that were given. */
export interface Given {
  text(name: string): string | undefined;
  flag(name: string): boolean;
}

export interface Work {
  readonly io: Io;
  readonly given: Given;
  /** The argument of this name; the parser has seen to those that are required. */
  arg(name: string): string;
  argOr(name: string): string | undefined;
  readonly print: Printer;
  /** The gateway that settings name. Opened at the first use. */
  gateway(): Gateway;
}

/** Options of every command. */
export const GLOBAL_OPTIONS: readonly Option[] = [
  { name: "url", value: "URL", about: "the gateway (TOLLGATE_URL, else the profile's, else http://localhost:8787)" },
  { name: "profile", value: "NAME", about: "a profile of the profile file" },
  { name: "json", about: "JSON in place of a table" },
  { name: "csv", about: "CSV in place of a table" },
  { name: "timeout", value: "SECONDS", about: "the longest that one call may take (60)" },
  { name: "insecure", about: "send the token over plain http to another machine" },
  { name: "help", about: "this help" },
];

/** For commands that move money or traffic. */
export const CHANGING: readonly Option[] = [
  { name: "dry-run", about: "show what would be done, and do nothing" },
  { name: "yes", about: "do not ask" },
];
