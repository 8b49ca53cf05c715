/**
 * The file that secrets of made keys go to: CSV of mode 0600, one key a line, added to and never overwritten. A line
 * that a crash cut has no line end: it is taken off, so that what comes next begins a line of its own.
 */
import { truncateSync } from "node:fs";
import { csvLine } from "../../src/api/kit/csv.ts";
import { usage } from "../failure.ts";
import { readCsv } from "./csv-reader.ts";
import { appendPrivate, readPrivate } from "./private-file.ts";

const HEAD = csvLine(["account", "name", "key_id", "key"]);

export interface MadeKey {
  readonly account: string;
  readonly name: string;
  readonly keyId: string;
  readonly secret: string;
}

/** Makes the file where there is none. Gives the ids of the keys whose secrets it has. */
export function openKeysFile(path: string): Set<string> {
  const text = readPrivate(path) ?? "";
  const whole = text.slice(0, text.lastIndexOf("\n") + 1);
  if (whole !== "" && !whole.startsWith(HEAD)) {
    throw usage(`${path} is no file of keys: it does not begin with the line ${HEAD.trim()}. Name another file.`);
  }
  if (whole.length < text.length) truncateSync(path, Buffer.byteLength(whole));
  if (whole === "") appendPrivate(path, HEAD);
  return new Set(
    readCsv(whole)
      .slice(1)
      .map(({ cells }) => cells[2] ?? ""),
  );
}

export function addToKeysFile(path: string, { account, name, keyId, secret }: MadeKey): void {
  appendPrivate(path, csvLine([account, name, keyId, secret]));
}
