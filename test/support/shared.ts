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
}
declare module "vitest" {
  export interface ProvidedContext {
    tollgate: SharedTollgate;
  }
}

export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const shared = await TollgateProcess.start();
  project.provide("tollgate", { url: shared.url, sandboxUrl: shared.sandboxUrl, stateDir: shared.stateDir });
  return () => shared.stop();
}
