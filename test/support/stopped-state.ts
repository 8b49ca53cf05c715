/** The bucket and the books of a gateway that is stopped, as an operator reaches them with wrangler. */
import { rmSync } from "node:fs";
import { join } from "node:path";
import { convertV4MiniflareOptions, Miniflare } from "miniflare";
import { unstable_splitSqlQuery as splitSql } from "wrangler";
import { migrate } from "../../scripts/migrations.ts";
import { readWorkerConfig } from "../../scripts/worker-config.ts";

const root = join(import.meta.dirname, "../..");
const STATEMENTS_AT_ONCE = 500;

export class StoppedState {
  readonly #miniflare: Miniflare;
  readonly #migrations: string;

  private constructor(miniflare: Miniflare, migrations: string) {
    this.#miniflare = miniflare;
    this.#migrations = migrations;
  }

  static async open(stateDir: string): Promise<StoppedState> {
    const { options, databases } = await readWorkerConfig(join(root, "wrangler.toml"));
    const worker = {
      name: "state",
      modules: [{ type: "ESModule" as const, path: "none.js", contents: "export default {}" }],
      d1Databases: options.d1Databases,
      // As scripts/workers.ts binds it.
      r2Buckets: { ARCHIVE: "archive" },
    };
    const miniflare = new Miniflare(
      convertV4MiniflareOptions({
        workers: [worker],
        resourcePersistencePath: join(stateDir, "gateway"),
        cf: false,
        telemetry: { enabled: false },
      } as Parameters<typeof convertV4MiniflareOptions>[0]),
    );
    await miniflare.ready;
    return new StoppedState(miniflare, databases[0]?.migrations ?? "");
  }

  close(): Promise<void> {
    return this.#miniflare.dispose();
  }

  bucket() {
    return this.#miniflare.getR2Bucket("ARCHIVE");
  }

  books() {
    return this.#miniflare.getD1Database("BOOKS");
  }

  /** An empty database that has all migrations. */
  async migrate(): Promise<void> {
    await migrate(await this.books(), this.#migrations);
  }

  /** As `wrangler d1 execute --file` does. */
  async execute(sql: string): Promise<void> {
    const books = await this.books();
    const statements = splitSql(sql).map((one) => books.prepare(one));
    for (let at = 0; at < statements.length; at += STATEMENTS_AT_ONCE)
      await books.batch(statements.slice(at, at + STATEMENTS_AT_ONCE));
  }

  /** Each part of a series with its bytes, by name. */
  async parts(prefix: string): Promise<Map<string, Buffer>> {
    const bucket = await this.bucket();
    const found = new Map<string, Buffer>();
    for (let cursor: string | undefined; ; ) {
      const page = await bucket.list({ prefix, ...(cursor !== undefined && { cursor }) });
      for (const { key } of page.objects) {
        const object = await bucket.get(key);
        if (object) found.set(key, Buffer.from(await object.arrayBuffer()));
      }
      if (!page.truncated) return found;
      cursor = page.cursor;
    }
  }
}

/** The database is lost; objects, KV and the bucket stay. */
export const loseBooks = (stateDir: string): void =>
  rmSync(join(stateDir, "gateway/d1"), { recursive: true, force: true });
