/**
 * What `npm start` stores in `STATE_DIR` between runs:
 *
 *     gateway/ sandbox/    the Workers' storage (Durable Objects, KV, D1)
 *     secrets/             generated once: master key, pepper, admin token, the demo's key (mode 0600)
 *     run/                 process ids of the running Workers
 */
import { randomBytes } from "node:crypto";
import { chmodSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { SettingError } from "./settings.ts";

export interface State {
  /** The directory of a Worker's storage. */
  storage(worker: string): string;
  /** The directory of the running Workers' process ids. */
  readonly runDir: string;
  /** The secret of this name; generated and written on first use. */
  secret(name: string, make: () => string): string;
  /** The secret of this name, if one was stored. */
  kept(name: string): string | undefined;
  keep(name: string, value: string): void;
}

/** The file with the id of the process that uses this directory. */
const STARTER = "start";

export function openState(dir: string): State {
  const secrets = join(dir, "secrets");
  const runDir = join(dir, "run");
  expectUnused(dir, runDir);
  try {
    mkdirSync(secrets, { recursive: true, mode: 0o700 });
    rmSync(runDir, { recursive: true, force: true });
    mkdirSync(runDir, { recursive: true });
    writeFileSync(join(runDir, STARTER), `${process.pid}\n`);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    throw new SettingError(`STATE_DIR: ${dir} cannot be written (${code}). Set STATE_DIR to a directory of your own.`);
  }
  const kept = (name: string) => readIfThere(join(secrets, name));
  const keep = (name: string, value: string) => writeSecret(join(secrets, name), value);
  return {
    storage: (worker) => join(dir, worker),
    runDir,
    kept,
    keep,
    secret(name, make) {
      const known = kept(name);
      if (known !== undefined) return known;
      const made = make();
      keep(name, made);
      return made;
    },
  };
}

/** Two gateways must not share storage: each assumes that only it writes there. */
function expectUnused(dir: string, runDir: string): void {
  const pid = Number(readIfThere(join(runDir, STARTER)));
  if (!pid || pid === process.pid) return;
  try {
    process.kill(pid, 0);
  } catch {
    return;
  }
  // Process ids are reused. If the system shows what runs under this id, check it.
  const command = readIfThere(`/proc/${pid}/cmdline`);
  if (command !== undefined && !command.includes("start.ts")) return;
  throw new SettingError(`STATE_DIR: ${dir} is in use by process ${pid}. End that one, or set STATE_DIR to another.`);
}

/** 32 random bytes in base64, as `MASTER_KEY` and `KEY_PEPPER` require. */
export const randomKey = (): string => randomBytes(32).toString("base64");
export const randomToken = (): string => randomBytes(24).toString("base64url");

function readIfThere(file: string): string | undefined {
  try {
    return readFileSync(file, "utf8").trim() || undefined;
  } catch {
    return undefined;
  }
}

function writeSecret(file: string, value: string): void {
  writeFileSync(file, `${value}\n`, { mode: 0o600 });
  // The mode above applies to a new file only.
  chmodSync(file, 0o600);
}
