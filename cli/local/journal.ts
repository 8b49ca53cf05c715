/**
 * What `apply` has begun to make and not yet finished: a line before each team and key is made, with the idempotency
 * key that it is made by. Killed in the middle and run again, it sends the same call, which makes nothing twice; of a
 * key whose secret was never written down it knows that nobody has it.
 *
 * The file stands beside the input, with a lock so that no two runs of one input meet. No secret is in it.
 */
import { randomUUID } from "node:crypto";
import { closeSync, constants, openSync, readFileSync, rmSync, writeSync } from "node:fs";
import { usage } from "../failure.ts";
import { readPrivate, writePrivate } from "./private-file.ts";

export interface Pending {
  readonly kind: "team" | "key";
  readonly account: string;
  readonly name: string;
  readonly idempotencyKey: string;
  /** When it was first tried, ms. */
  readonly sinceMs: number;
}

export class Journal {
  readonly #path: string;
  readonly #lock: string;
  #pending: readonly Pending[];

  /** `input`: the file whose journal it is. */
  constructor(input: string) {
    this.#path = `${input}.pending`;
    this.#lock = `${input}.lock`;
    takeLock(this.#lock, input);
    try {
      this.#pending = parsed(readPrivate(this.#path), this.#path);
    } catch (error) {
      this.close();
      throw error;
    }
  }

  get pending(): readonly Pending[] {
    return this.#pending;
  }

  find(kind: Pending["kind"], account: string, name: string): Pending | undefined {
    return this.#pending.find((one) => one.kind === kind && one.account === account && one.name === name);
  }

  /** What an earlier run began, or a new line, which is on the disk when this returns. */
  begin(kind: Pending["kind"], account: string, name: string, nowMs: number): Pending {
    const earlier = this.find(kind, account, name);
    if (earlier) return earlier;
    const begun = { kind, account, name, idempotencyKey: randomUUID(), sinceMs: nowMs };
    this.#write([...this.#pending, begun]);
    return begun;
  }

  end(done: Pending): void {
    this.#write(this.#pending.filter((one) => one !== done));
  }

  /** All is made: what an earlier run began is found by its name from now on. */
  clear(): void {
    if (this.#pending.length > 0) this.#write([]);
  }

  close(): void {
    rmSync(this.#lock, { force: true });
  }

  #write(pending: readonly Pending[]): void {
    this.#pending = pending;
    if (pending.length === 0) rmSync(this.#path, { force: true });
    else writePrivate(this.#path, `${JSON.stringify(pending)}\n`);
  }
}

function parsed(text: string | undefined, path: string): Pending[] {
  if (text === undefined) return [];
  try {
    const read: unknown = JSON.parse(text);
    if (Array.isArray(read) && read.every(isPending)) return read;
  } catch {
    // Said below.
  }
  throw usage(`${path} is damaged. Look at the keys that were made last, then remove it.`);
}

const isPending = (value: unknown): value is Pending =>
  typeof value === "object" &&
  value !== null &&
  ["account", "name", "idempotencyKey"].every((name) => typeof (value as Record<string, unknown>)[name] === "string") &&
  "sinceMs" in value &&
  typeof value.sinceMs === "number" &&
  "kind" in value &&
  (value.kind === "team" || value.kind === "key");

/** Holds the id of the process, so that one that was killed leaves no lock that holds. */
function takeLock(path: string, input: string): void {
  for (let attempt = 0; attempt < 2; attempt++) {
    try {
      const file = openSync(path, constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL, 0o600);
      writeSync(file, String(process.pid));
      closeSync(file);
      return;
    } catch (error) {
      const code = error instanceof Error && "code" in error ? error.code : undefined;
      if (code !== "EEXIST")
        throw usage(`${path} cannot be written (${String(code)}): what is begun is noted beside the input.`);
      const holder = holderOf(path);
      if (holder !== null) throw usage(`Process ${holder} is applying ${input} now. Wait until it has ended.`);
      rmSync(path, { force: true });
    }
  }
  throw usage(`Another run is applying ${input} now. Wait until it has ended.`);
}

/** Null: it does not run any more. */
function holderOf(path: string): number | null {
  try {
    const pid = Number(readFileSync(path, "utf8"));
    if (!Number.isInteger(pid) || pid <= 0 || pid === process.pid) return null;
    process.kill(pid, 0);
    return pid;
  } catch (error) {
    return error instanceof Error && "code" in error && error.code === "EPERM" ? 0 : null;
  }
}
