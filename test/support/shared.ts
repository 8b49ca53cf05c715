/**
 * One real process for all e2e files that do not kill or restart it. Vitest runs `setup` once before them; each file
 * gets at it by `world()`.
 */
import type { TestProject } from "vitest/node";
import { TollgateProcess } from "./process.ts";

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
  const shared = await TollgateProcess.start();
  const { url, sandboxUrl, stateDir, logFile } = shared;
  project.provide("tollgate", { url, sandboxUrl, stateDir, logFile });
  return () => shared.stop();
}
