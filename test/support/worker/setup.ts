/**
 * Runs before every test file in workerd. The files share a workerd and its modules, since a start of its own would
 * cost each file seconds. So each begins with nothing of those before it: KV, D1, queue and objects are empty, the
 * isolate remembers nothing, the clock is true. What a file leaves running is waited for. A test that needs more of a
 * new isolate makes one, as revocation.test.ts does.
 */
import type { D1Migration } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterAll, vi } from "vitest";
import { memory, newMemory } from "../../../src/platform/isolate.ts";
import { emptyStorage, migrate } from "./empty.ts";
import { settled } from "./operator.ts";

declare global {
  namespace Cloudflare {
    interface Env {
      /** Read from migrations/ by vitest.config.ts. */
      TEST_MIGRATIONS: D1Migration[];
      /** How often random histories are tried; set there too. */
      TEST_HISTORIES: number;
    }
  }
}

vi.useRealTimers();
vi.restoreAllMocks();
vi.unstubAllGlobals();
// KV and D1 sleep after 10 s too.
await Promise.all([env.EDGE.get("awake"), env.BOOKS.prepare("select 1").run()]);
await emptyStorage(env.BROKERS);
Object.assign(memory, newMemory());
await migrate();
await skipUsedNumbers();
afterAll(settled);

/** Account objects are too many to wake. No number comes twice, so those that sleep are never asked again. */
async function skipUsedNumbers(): Promise<void> {
  await env.BOOKS.prepare("insert into sqlite_sequence (name, seq) values ('accounts', ?)").bind(Date.now()).run();
}
