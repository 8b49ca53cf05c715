/** Records the id that an answer hands out for the account that made it, before the account can see it. */
import type { ServedBy } from "../core/account/hold.ts";
import { ask } from "./ask.ts";
import type { AdmittedCall } from "./call.ts";
import type { Ports } from "./ports.ts";

/** Rejects when it cannot be recorded: then its bytes must not pass. */
export async function recordOwnership(
  admitted: AdmittedCall,
  id: string,
  servedBy: ServedBy,
  ports: Ports,
): Promise<void> {
  const { call, caller, callId, endpoint, route } = admitted;
  if (endpoint.creates === null) return;
  const owned = {
    kind: endpoint.creates,
    id,
    callId,
    upstream: servedBy.upstream,
    targetModel: servedBy.model,
    model: route.model,
    continues: call.owned[0]?.id ?? null,
  };
  await ask(ports, caller.number, (account) => account.own(owned));
}
