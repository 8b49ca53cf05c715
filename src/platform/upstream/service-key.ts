/**
 * Whose 401 or 403 is it? A pod answers so of its own accord, and so does the upstream where it refuses the key of
 * service paths. Nothing in the answer tells them apart, and a pod may say what it likes. So the upstream is asked for
 * something else with the same key: what it refuses there too is the operator's to mend, never the tenant's fault.
 */
import type { UpstreamRow } from "../../core/routing/routes.ts";
import { memory } from "../isolate.ts";
import { log } from "../log.ts";

/** Pods that answer 401 all the time cost the upstream one call in so long, ms. */
const KNOWN_FOR_MS = 10_000;
const ASK_WITHIN_MS = 3_000;
const LOOK_AGAIN_MS = 25;
/** A small read that needs the scope of compute. */
const ASKED = "/gpu-instances/availability";

/** Whether the upstream refuses this key itself. False where that cannot be known. */
export async function isKeyRefused({ id, baseUrl }: UpstreamRow, sealedKey: string, key: string): Promise<boolean> {
  const { serviceKeys } = memory;
  const startedMs = Date.now();
  for (;;) {
    const known = serviceKeys.get(id);
    const agoMs = known?.sealedKey === sealedKey ? Date.now() - known.askedMs : Number.POSITIVE_INFINITY;
    if (known && known.refused !== null && agoMs < KNOWN_FOR_MS) return known.refused;
    // One asks for all that came at once; it may have gone with its own caller.
    if (agoMs >= ASK_WITHIN_MS) break;
    if (Date.now() - startedMs >= ASK_WITHIN_MS) return false;
    await scheduler.wait(LOOK_AGAIN_MS);
  }
  serviceKeys.set(id, { sealedKey, askedMs: startedMs, refused: null });
  const status = await ask(baseUrl, key);
  const refused = status === 401 || status === 403;
  serviceKeys.set(id, { sealedKey, askedMs: startedMs, refused });
  if (refused) log({ event: "service_key_refused", upstream: id, status });
  return refused;
}

async function ask(baseUrl: string, key: string): Promise<number | null> {
  try {
    const response = await fetch(baseUrl + ASKED, {
      headers: { authorization: `Bearer ${key}` },
      redirect: "manual",
      signal: AbortSignal.timeout(ASK_WITHIN_MS),
    });
    await response.body?.cancel();
    return response.status;
  } catch {
    return null;
  }
}
