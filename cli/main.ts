/**
 * The operator's command line. Reads the line, runs its command, and says how it ended: what was found on standard
 * output, what went wrong on standard error.
 */
import type { Connection } from "../client/http.ts";
import { type HelpWanted, type Line, readLine } from "./arguments.ts";
import type { Io } from "./command.ts";
import { COMMANDS } from "./commands/index.ts";
import { EXIT_CODES, Failure } from "./failure.ts";
import { failureOf, Gateway } from "./gateway.ts";
import { helpOf, overview } from "./help.ts";
import { connectionTo } from "./local/settings.ts";
import { Printer } from "./show/printer.ts";
import { safeJson, safeLines, withoutKeys } from "./show/safe.ts";

/** Gives the exit code. */
export async function main(argv: readonly string[], io: Io): Promise<number> {
  let connection: Connection | undefined;
  try {
    const line = readLine(argv, COMMANDS);
    if ("helpFor" in line) {
      await io.out(helpText(line));
      return argv.length === 0 ? EXIT_CODES.usage : 0;
    }
    await run(line, io, (opened) => {
      connection = opened;
    });
    return 0;
  } catch (error) {
    return ended(connection ? failureOf(error, connection.url) : error, connection, argv, io);
  }
}

const helpText = ({ helpFor }: HelpWanted): string =>
  typeof helpFor === "string" ? overview(COMMANDS, helpFor) : helpOf(helpFor);

function run({ command, args, given }: Line, io: Io, opened: (connection: Connection) => void): Promise<void> {
  let gateway: Gateway | undefined;
  const form = given.flag("json") ? "json" : given.flag("csv") ? "csv" : "table";
  return command.run({
    io,
    given,
    arg: (name) => args[name] ?? "",
    argOr: (name) => args[name],
    print: new Printer(form, io.out),
    gateway() {
      if (!gateway) {
        const connection = connectionTo(io, given);
        opened(connection);
        gateway = new Gateway(connection, io.pause);
      }
      return gateway;
    },
  });
}

function ended(error: unknown, connection: Connection | undefined, argv: readonly string[], io: Io): number {
  const known = error instanceof Failure;
  const said = known ? error.message : `A defect of the command line: ${error instanceof Error ? error.stack : error}`;
  const message = withoutToken(said, connection?.token);
  if (argv.includes("--json")) {
    const code = (known ? error.code : null) ?? (known ? error.ending : "defect");
    io.err(`${safeJson({ error: { code, message } })}\n`);
  } else {
    io.err(`tollgate: ${safeLines(message)}\n`);
  }
  return known ? EXIT_CODES[error.ending] : EXIT_CODES.fault;
}

const withoutToken = (text: string, token: string | undefined): string =>
  withoutKeys(token ? text.replaceAll(token, "...") : text);
