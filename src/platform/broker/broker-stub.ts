/** From an upstream's id to its broker. The id comes from the operator's books or from an account's own seat. */

import type { BrokerPort } from "../../core/compute/control.ts";

/** A new stub each time, because a stub that threw is broken for good. */
export function brokerOf(env: Pick<Env, "BROKERS">, upstream: string): BrokerPort {
  // Only plain values cross the RPC, and the object implements the interface.
  return env.BROKERS.getByName(upstream) as unknown as BrokerPort;
}
