import { describe, expect, it } from "vitest";
import { readLine } from "../../cli/arguments.ts";
import type { Command } from "../../cli/command.ts";
import { COMMANDS } from "../../cli/commands/index.ts";
import { Failure } from "../../cli/failure.ts";
import { helpOf, overview } from "../../cli/help.ts";

const run = async () => undefined;
const SOME: readonly Command[] = [
  { words: "status", about: "How it is", run },
  { words: "key find", args: [{ name: "key" }], about: "Whose it is", run },
  {
    words: "key rotate",
    args: [{ name: "account" }, { name: "key" }],
    about: "Another secret",
    options: [{ name: "grace", value: "SECONDS", about: "how long" }],
    run,
  },
  { words: "credit", args: [{ name: "account" }, { name: "usd" }], about: "Books money", run },
  {
    words: "calls",
    args: [{ name: "call", optional: true }],
    about: "Calls",
    options: [{ name: "follow", about: "go on" }],
    run,
  },
];

const read = (line: string) => readLine(line.split(" ").filter(Boolean), SOME);
function refusal(line: string): string {
  try {
    read(line);
  } catch (error) {
    if (error instanceof Failure && error.ending === "usage") return error.message;
    throw error;
  }
  throw new Error(`'${line}' was read`);
}

describe("the command line", () => {
  it("takes options before, between and after the words", () => {
    for (const line of [
      "key rotate acme key_1 --grace 60 --json",
      "--json key rotate acme --grace=60 key_1",
      "--url http://localhost:1 key rotate --grace 60 acme key_1 --json",
    ]) {
      const found = read(line);
      if ("helpFor" in found) throw new Error("help");
      expect(found.command.words).toBe("key rotate");
      expect(found.args).toEqual({ account: "acme", key: "key_1" });
      expect(found.given.text("grace")).toBe("60");
      expect(found.given.flag("json")).toBe(true);
      expect(found.given.flag("csv")).toBe(false);
    }
  });

  it("takes an amount below zero for an argument, and a relative time for a value", () => {
    const found = read("credit acme -12.5");
    expect("args" in found && found.args).toEqual({ account: "acme", usd: "-12.5" });
    const rotated = read("key rotate acme key_1 --grace -5");
    expect("given" in rotated && rotated.given.text("grace")).toBe("-5");
  });

  it.each([
    ["stauts", "Did you mean status?"],
    ["key fnd x", "Did you mean key find?"],
    ["key roate acme k", "Did you mean key rotate?"],
    ["nothing-like-it", "'tollgate help' lists the commands."],
    ["status --jsno", "Did you mean --json?"],
    ["key rotate a b --grce 5", "Did you mean --grace?"],
    ["status --json --csv", "not both"],
    ["status --json=yes", "--json takes no value"],
    ["key rotate a b --grace", "--grace needs a value"],
    ["key rotate a b --grace --json", "--grace needs a value"],
    ["key rotate a b --grace 1 --grace 2", "given twice"],
    ["key rotate a", "needs <key>"],
    ["key find a b", "no place for 'b'"],
    ["calls one two", "no place for 'two'"],
    ["--token abc status", "other users of this machine can read a command line"],
    ["status --token=abc", "Set TOLLGATE_TOKEN"],
  ])("refuses `%s`: %s", (line, said) => {
    expect(refusal(line)).toContain(said);
    expect(refusal(line)).not.toContain("abc");
  });

  it.each([
    ["", ""],
    ["help", ""],
    ["--help", ""],
    ["key", "key"],
    ["key --help", "key"],
    ["help key", "key"],
  ])("`%s` shows the help of %s", (line, group) => {
    expect(read(line)).toEqual({ helpFor: group });
  });

  it("shows a command's help for --help, -h and help", () => {
    for (const line of ["key rotate --help", "key rotate -h", "help key rotate", "key rotate a b c d -h"]) {
      const found = read(line);
      expect("helpFor" in found && typeof found.helpFor === "object" && found.helpFor.words, line).toBe("key rotate");
    }
  });
});

describe("every command", () => {
  it.each(COMMANDS.map((command) => [command.words, command] as const))(
    "%s has a help with its options",
    (_, command) => {
      const help = helpOf(command);
      expect(help).toContain(`tollgate ${command.words}`);
      for (const { name } of command.options ?? []) expect(help).toContain(`--${name}`);
      for (const line of help.split("\n")) expect(line.length, line).toBeLessThanOrEqual(260);
    },
  );

  it("stands in the overview once, and its examples are read", () => {
    const words = COMMANDS.map((command) => command.words);
    expect(new Set(words).size).toBe(words.length);
    const all = overview(COMMANDS, "");
    for (const name of words) expect(all).toContain(`  ${name}`);
    for (const { words: name, examples = [] } of COMMANDS) {
      for (const example of examples) {
        const typed = [...example.replace(/ < .*/, "").matchAll(/'([^']*)'|(\S+)/g)].map(
          ([, quoted, bare]) => quoted ?? bare ?? "",
        );
        const line = readLine(typed, COMMANDS);
        expect("command" in line && line.command.words, example).toBe(name);
      }
    }
  });

  it("that changes something asks or can be told not to", () => {
    const changing = /\b(credit|raise|withdraw|drain|undrain|revoke|rotate|block|unblock|role|apply|import)$/;
    for (const { words, options = [] } of COMMANDS.filter(({ words: name }) => changing.test(name))) {
      expect(
        options.map(({ name }) => name),
        words,
      ).toEqual(expect.arrayContaining(["dry-run", "yes"]));
    }
  });
});
