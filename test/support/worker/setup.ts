/**
 * Runs before every test file in workerd: gives the operator's books (D1) their tables, and again before each test, since
 * `reset()` of `cloudflare:test` empties them. Migrations already there are passed over.
 */
import { applyD1Migrations, type D1Migration } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { beforeEach } from "vitest";

declare global {
  namespace Cloudflare {
    interface Env {
      /** Read from migrations/ by vitest.config.ts. */
      TEST_MIGRATIONS: D1Migration[];
    }
  }
}

const migrate = () => applyD1Migrations(env.BOOKS, env.TEST_MIGRATIONS);

await migrate();
beforeEach(migrate);
