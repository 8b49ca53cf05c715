/**
 * One real process for all e2e files of a project that do not kill or restart it. Vitest runs `setup` once before them;
 * each file gets at it by `world()`.
 */
import { cpSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TestProject } from "vitest/node";
import { STARTED_STATE, TollgateProcess } from "./process.ts";

export interface SharedTollgate {
  readonly url: string;
  readonly sandboxUrl: string;
  readonly stateDir: string;
  readonly logFile: string;
}
declare module "vitest" {
  export interface ProvidedContext {
    tollgate: SharedTollgate;
  }
}

export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const made: string[] = [];
  const env = project.config.env as Record<string, string>;
  if (process.env[STARTED_STATE] === undefined) made.push(...(await startOnce()));
  const shared = await TollgateProcess.start({ env });
  const { url, sandboxUrl, stateDir, logFile } = shared;
  project.provide("tollgate", { url, sandboxUrl, stateDir, logFile });
  return async () => {
    await shared.stop();
    for (const dir of made) rmSync(dir, { recursive: true, force: true });
  };
}

/** What a first start does is done once: every process of the run begins with a copy of its state. */
async function startOnce(): Promise<string[]> {
  const built = mkdtempSync(join(tmpdir(), "tollgate-e2e-built-"));
  process.env.BUILT_DIR = built;
  // Start scripts and the command line are compiled by Node once, not at each start.
  process.env.NODE_COMPILE_CACHE ??= join(built, "compiled");
  const first = await TollgateProcess.start({ fresh: true });
  await first.end();
  const started = mkdtempSync(join(tmpdir(), "tollgate-e2e-started-"));
  cpSync(first.stateDir, started, { recursive: true });
  await first.stop();
  process.env[STARTED_STATE] = started;
  return [built, started];
}
