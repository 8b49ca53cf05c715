/**
 * `tollgate export`: everything of one account, into one new folder. `export.json` is written last: a folder without it
 * broke off.
 */
import { createHash } from "node:crypto";
import { type FileHandle, mkdir, open, writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { ApiError } from "../../client/http.ts";
import type { Command, Work } from "../command.ts";
import { Failure, fault, usage } from "../failure.ts";
import { collected } from "./collected.ts";

/** What stands in `export.json` of each file. */
interface Written {
  readonly file: string;
  readonly lines: number;
  readonly sha256: string;
}

/** A line of the archive has some hundred characters. */
const LONGEST_LINE = 1_000_000;
/** A cursor behind everything: the answer has no line, but says whether there is an archive. */
const BEHIND_ALL = "999999999-0";

export const exportCommand: Command = {
  words: "export",
  about: "Everything of an account in a folder: keys without secrets, teams, ledger, calls, statements",
  more: "Ledger and calls are those of the archive: hours that are over. A folder without export.json broke off: export into another one.",
  options: [
    { name: "account", value: "ACCOUNT", about: "whose" },
    { name: "out", value: "FOLDER", about: "made, and must not be there yet (export-<account>)" },
  ],
  examples: ["export --account acme"],
  async run(work) {
    const { given, gateway, io, print } = work;
    const account = given.text("account");
    if (account === undefined) throw usage("Say --account.");
    const found = await gateway().run("getAccount", { account });
    const months = monthsSince(Date.parse(found.created_at), io.now());
    // Refused for its role, or without an archive, it leaves nothing behind.
    const nothing = { kind: "ledger", account, month: months[0], cursor: BEHIND_ALL };
    for await (const _ of linesOf(work, nothing)) break;
    const folder = await newFolder(given.text("out"), account);
    const rows = {
      account: found,
      keys: await collected(gateway().rows("listKeys", { account }), Number.POSITIVE_INFINITY),
      teams: await collected(gateway().rows("listTeams", { account }), Number.POSITIVE_INFINITY),
    };
    for (const [name, content] of Object.entries(rows)) await save(folder, `${name}.json`, content);
    const files: Written[] = [];
    for (const month of months) {
      const statement = await gateway().run("getStatement", { account, query: { month } });
      await save(folder, `statement-${month}.json`, statement);
      for (const kind of ["ledger", "calls"]) files.push(await saveLines(work, folder, { kind, account, month }));
      io.err(`${month}\n`);
    }
    const made_at = new Date(io.now()).toISOString();
    const made = { account: found.id, made_at, months, files };
    await save(folder, "export.json", made);
    if (print.form === "json") return print.json({ folder, ...made });
    await io.out(`${folder}\n`);
  },
};

async function newFolder(out: string | undefined, account: string): Promise<string> {
  if (out === undefined && !/^[\w.-]+$/.test(account)) throw usage("Say --out: this account's id makes no folder.");
  const folder = resolve(out ?? `export-${account}`);
  try {
    await mkdir(folder, { mode: 0o700 });
  } catch (error) {
    const why = error instanceof Error && "code" in error && error.code === "EEXIST" ? "is there already" : `${error}`;
    throw usage(`${folder}: ${why}. Say another --out.`);
  }
  return folder;
}

const save = (folder: string, name: string, content: unknown): Promise<void> =>
  writeFile(join(folder, name), `${JSON.stringify(content, null, 2)}\n`, { mode: 0o600, flag: "wx" });

type Asked = { readonly kind: string; readonly account: string; readonly month: string | undefined };

async function saveLines(work: Work, folder: string, asked: Asked): Promise<Written> {
  const name = `${asked.kind}-${asked.month}.jsonl`;
  const file = await open(join(folder, name), "wx", 0o600);
  try {
    return { file: name, ...(await allLines(work, file, asked)) };
  } finally {
    await file.close();
  }
}

/**
 * An answer that broke off, or came to an end too soon, is gone on with behind its last whole line: the end is where an
 * answer has no more.
 */
async function allLines(work: Work, file: FileHandle, asked: Asked): Promise<Omit<Written, "file">> {
  const hash = createHash("sha256");
  let lines = 0;
  for (let cursor: string | undefined; ; ) {
    const before = lines;
    let problem: unknown;
    try {
      for await (const some of linesOf(work, { ...asked, ...(cursor !== undefined && { cursor }) })) {
        const text = some.map((line) => `${line}\n`).join("");
        await file.appendFile(text);
        hash.update(text);
        cursor = cursorOf(some.at(-1));
        lines += some.length;
      }
    } catch (error) {
      problem = error;
    }
    if (lines > before) continue;
    if (problem !== undefined) throw problem;
    return { lines, sha256: hash.digest("hex") };
  }
}

function cursorOf(line = ""): string {
  const { cursor } = JSON.parse(line) as { readonly cursor?: unknown };
  if (typeof cursor !== "string") throw fault("A line of the export has no cursor.");
  return cursor;
}

/** The whole lines of one answer, as they come. */
async function* linesOf({ gateway }: Work, query: Asked & { readonly cursor?: string }): AsyncGenerator<string[]> {
  const response = await gateway().stream("exportLines", { query });
  if (!response.ok) {
    const body: unknown = await response.json().catch(() => null);
    throw new ApiError("GET /admin/export", { status: response.status, body });
  }
  const decoder = new TextDecoder();
  let tail = "";
  try {
    for await (const chunk of (response.body ?? []) as AsyncIterable<Uint8Array>) {
      const lines = (tail + decoder.decode(chunk, { stream: true })).split("\n");
      tail = lines.pop() ?? "";
      if (tail.length > LONGEST_LINE) throw fault("A line of the export finds no end.");
      if (lines.length > 0) yield lines;
    }
  } catch (error) {
    throw error instanceof Failure ? error : fault(`The export of ${query.kind} broke off: ${String(error)}.`);
  }
  if (tail !== "") throw fault(`The export of ${query.kind} broke off in the middle of a line.`);
}

/** Such as `2026-11`, the first month to the last. */
function monthsSince(fromMs: number, toMs: number): string[] {
  const months: string[] = [];
  const first = new Date(fromMs);
  for (let at = Date.UTC(first.getUTCFullYear(), first.getUTCMonth()); at <= toMs; ) {
    const date = new Date(at);
    months.push(date.toISOString().slice(0, 7));
    at = Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + 1);
  }
  return months;
}
