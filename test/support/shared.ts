/**
 * Real processes for all e2e files of a project that do not kill or restart one. Vitest runs `setup` once before them;
 * each file gets at one by `world()`, all files of a worker at the same. Those of `e2e` are two: each change of routing
 * reads all models, aliases and instances again, and what all files make on one would cost a tenth of the run.
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
    tollgates: readonly SharedTollgate[];
  }
}

export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const made: string[] = [];
  const env = project.config.env as Record<string, string>;
  if (process.env[STARTED_STATE] === undefined) made.push(...(await startOnce()));
  const count = project.name === "e2e" ? 2 : 1;
  const shared = await Promise.all(Array.from({ length: count }, () => TollgateProcess.start({ env })));
  const told = shared.map(({ url, sandboxUrl, stateDir, logFile }) => ({ url, sandboxUrl, stateDir, logFile }));
  project.provide("tollgates", told);
  return async () => {
    for (const one of shared) await one.stop();
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
