/** How slow the machine is, for tests in workerd; test/support/slowness.ts is the same for Node. */
import { env } from "cloudflare:workers";

const READS = 10;
/** What the reads take where nothing else runs. */
const QUIET_MS = 20;

/** What a bound of `ms` comes to on this machine as busy as it is now. Ask after the fact, not before. */
export async function allowedMs(ms: number): Promise<number> {
  const startedMs = performance.now();
  for (let read = 0; read < READS; read++) await env.BOOKS.prepare("select 1").run();
  return ms * Math.max(1, (performance.now() - startedMs) / QUIET_MS);
}
