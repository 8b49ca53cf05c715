/**
 * Where the subject's storage lies: in memory where Linux offers it. A disk's speed is the machine's affair, and the
 * account object commits twice a call. Nothing stays behind: a run that was killed is tidied up by the next.
 */
import { accessSync, constants, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const MEMORY_DIR = "/dev/shm";
const NAME = /^tollgate-bench-(\d+)-/;

export interface Storage {
  readonly inMemory: boolean;
  /** A directory of its own for one subject. */
  make(): string;
}

export function chooseStorage(onDisk: boolean): Storage {
  const inMemory = !onDisk && canWrite(MEMORY_DIR);
  const parent = inMemory ? MEMORY_DIR : tmpdir();
  tidy(parent);
  return {
    inMemory,
    make() {
      const dir = mkdtempSync(join(parent, `tollgate-bench-${process.pid}-`));
      process.on("exit", () => remove(dir));
      return dir;
    },
  };
}

export function remove(dir: string): void {
  rmSync(dir, { recursive: true, force: true, maxRetries: 5 });
}

function canWrite(dir: string): boolean {
  try {
    accessSync(dir, constants.W_OK);
    return true;
  } catch {
    return false;
  }
}

/** Removes what runs have left whose process is gone. */
function tidy(parent: string): void {
  for (const name of readdirSync(parent)) {
    const pid = Number(NAME.exec(name)?.[1]);
    if (pid && !isAlive(pid)) remove(join(parent, name));
  }
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}
