/** The flow of a call that is charged when it is answered: hold, send to a target, relay, settle. */

import type { RoutedCall } from "../call.ts";
import type { Ports } from "../ports.ts";
import { LEFT, settle } from "../settle.ts";
import { admitAndCarryOut } from "./carry-out.ts";
import { record, type Ways } from "./deliver.ts";

export const serveForwarded = (routed: RoutedCall, ports: Ports): Promise<Response> =>
  admitAndCarryOut(routed, WAYS, ports);

const WAYS: Ways = {
  async document({ admitted, forwarded, headers, lifetime, respond }, served, ports) {
    const { servedBy, reader, status } = served;
    const created = (reader.kind === "json" && reader.created?.()) || null;
    if (created !== null) await record(admitted, created, servedBy, ports);
    const outcome = lifetime.gone ? "client_gone" : "completed";
    const { leftAtMs } = lifetime;
    const ending = {
      outcome,
      status,
      reading: reader.reading(),
      servedBy,
      firstByteAtMs: ports.now(),
      leftAtMs,
    } as const;
    lifetime.settling();
    const settled = settle(admitted, { ...ending, lostTries: forwarded.lostTries }, ports);
    respond(new Response(served.bytes, { status, headers }));
    return settled;
  },

  /** Charges what the target may have used. */
  async abandoned(admitted, { servedBy, lostTries, reader }, { leftAtMs }, ports) {
    const ending = { outcome: LEFT.reason, status: LEFT.status, reading: reader.reading(), firstByteAtMs: null };
    return settle(admitted, { ...ending, servedBy, lostTries, leftAtMs }, ports);
  },
};
