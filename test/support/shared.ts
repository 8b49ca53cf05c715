/**
 * One real process for all e2e files that do not kill or restart it. Vitest runs `setup` once before them; each file
 * gets at it by `world()`.
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
  const built = mkdtempSync(join(tmpdir(), "tollgate-e2e-built-"));
  process.env.BUILT_DIR = built;
  const shared = await TollgateProcess.start({ fresh: true });
  // What a first start does is done once: every other process of the run begins with a copy of this.
  await shared.end();
  const started = mkdtempSync(join(tmpdir(), "tollgate-e2e-started-"));
  cpSync(shared.stateDir, started, { recursive: true });
  process.env[STARTED_STATE] = started;
  await shared.launch();
  const { url, sandboxUrl, stateDir, logFile } = shared;
  project.provide("tollgate", { url, sandboxUrl, stateDir, logFile });
  return async () => {
    await shared.stop();
    for (const dir of [started, built]) rmSync(dir, { recursive: true, force: true });
  };
}
