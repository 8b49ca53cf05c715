/**
 * What `npm start` keeps between runs in `STATE_DIR`:
 *
 *     gateway/ sandbox/    the Workers' storage (Durable Objects, KV, D1)
 *     secrets/             what was made once: master key, pepper, admin token, the demo's key (mode 0600)
 *     run/                 process ids of the Workers that run now
 */
import { randomBytes } from "node:crypto";
import { chmodSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { SettingError } from "./settings.ts";

export interface State {
  /** Where a Worker's storage lies. */
  storage(worker: string): string;
  /** Where a Worker's process id stands while it runs. */
  readonly runDir: string;
  /** The secret of this name; made and written on its first use. */
  secret(name: string, make: () => string): string;
  /** The secret of this name, if it was ever kept. */
  kept(name: string): string | undefined;
  keep(name: string, value: string): void;
}

/** Holds the id of the process that uses this directory. */
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

/** Two gateways on the same storage would each believe that it alone writes it. */
function expectUnused(dir: string, runDir: string): void {
  const pid = Number(readIfThere(join(runDir, STARTER)));
  if (!pid || pid === process.pid) return;
  try {
    process.kill(pid, 0);
  } catch {
    return;
  }
  // An id is used again after a while; where the system tells what runs under it, look.
  const command = readIfThere(`/proc/${pid}/cmdline`);
  if (command !== undefined && !command.includes("start.ts")) return;
  throw new SettingError(`STATE_DIR: ${dir} is in use by process ${pid}. End that one, or set STATE_DIR to another.`);
}

/** 32 random bytes in base64: what `MASTER_KEY` and `KEY_PEPPER` must be. */
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
  // The mode above holds for a new file only.
  chmodSync(file, 0o600);
}
