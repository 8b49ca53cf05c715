/** Cloudflare gives a Worker little CPU to evaluate its module; every cold start pays for it. */
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import { bundle } from "../../scripts/bundle.ts";

/**
 * Held by `npm run proof`, on a quiet machine. Other tests on the same cores cost up to twice the CPU, so `npm test`
 * allows more.
 */
const QUIET_MS = 100;
const MOST_MS = process.env.FC_NUM_RUNS ? QUIET_MS : 3 * QUIET_MS;
/** What the module has of the runtime while it is evaluated. */
const RUNTIME =
  "export class DurableObject {}; export class WorkerEntrypoint {}; export const env = {}; export const connect = () => {};";
/** CPU, not time: waiting for a core does not count. */
const MEASURE = `const before = process.cpuUsage(); await import("./index.mjs");
  const { user, system } = process.cpuUsage(before); console.log((user + system) / 1000);`;

it(`the deployed module is evaluated in less than ${MOST_MS} ms of CPU`, async () => {
  const folder = mkdtempSync(join(tmpdir(), "tollgate-start-up-"));
  try {
    const module = await bundle(join(import.meta.dirname, "../../src/index.ts"), {}, true);
    expect(module).toContain("cloudflare:workers");
    writeFileSync(join(folder, "index.mjs"), module.replaceAll(/"cloudflare:\w+"/g, JSON.stringify("./runtime.mjs")));
    writeFileSync(join(folder, "runtime.mjs"), RUNTIME);
    writeFileSync(join(folder, "measure.mjs"), MEASURE);
    const once = () => Number(execFileSync(process.execPath, [join(folder, "measure.mjs")], { encoding: "utf8" }));
    const best = Math.min(once(), once(), once());
    expect(best).toBeGreaterThan(1);
    expect(best).toBeLessThan(MOST_MS);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});
