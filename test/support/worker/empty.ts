/** Test files in workerd share its storage, so each empties it first. */
import { listDurableObjectIds, reset, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";

/** Empties KV, D1, the queue and all objects that are awake. `reset()` leaves those that sleep, so these are woken. */
export async function emptyStorage(...namespaces: DurableObjectNamespace[]): Promise<void> {
  for (const namespace of namespaces) {
    for (const id of await listDurableObjectIds(namespace)) {
      await runInDurableObject(namespace.get(id), () => undefined);
    }
  }
  await reset();
}

/** Gives an empty D1 its tables, in one transaction: one for each migration took most of a file's start. */
export async function migrate(): Promise<void> {
  const statements = env.TEST_MIGRATIONS.flatMap(({ queries }) => queries);
  await env.BOOKS.batch(statements.map((statement) => env.BOOKS.prepare(statement)));
}
