/** Test files in workerd share its storage, so each empties it first. */
import { listDurableObjectIds, reset, runInDurableObject } from "cloudflare:test";

/** Empties KV, D1, the queue and all objects that are awake. `reset()` leaves those that sleep, so these are woken. */
export async function emptyStorage(...namespaces: DurableObjectNamespace[]): Promise<void> {
  for (const namespace of namespaces) {
    for (const id of await listDurableObjectIds(namespace)) {
      await runInDurableObject(namespace.get(id), () => undefined);
    }
  }
  await reset();
}
