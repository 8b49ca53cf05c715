/**
 * Implements the pipeline's ports with Cloudflare's KV, D1 and account objects, for one request.
 *
 * This folder is all that touches Cloudflare's services: account/ the Durable Object, d1/ the operator's books, edge/
 * caches of keys and routing, upstream/ calls to the service, queue/ usage on its way to D1. Rules belong in core, the
 * order of steps in gateway.
 */

import type { AccountService } from "../core/account/account-service.ts";
import { timedCallId } from "../core/account/call-time.ts";
import type { ArchivedLedger } from "../core/archive/archived-ledger.ts";
import type { ComputeAccount } from "../core/compute/calls.ts";
import type { BrokerPort } from "../core/compute/control.ts";
import type { AccountNumber } from "../core/ids.ts";
import type { AccountPort, Ports } from "../gateway/ports.ts";
import { accountObject } from "./account/stub.ts";
import { brokerOf } from "./broker/broker-stub.ts";
import { type EdgeNotices, openDirectory } from "./edge/directory.ts";
import { memory } from "./isolate.ts";
import { log } from "./log.ts";
import { oneTimer } from "./one-timer.ts";
import type { PlatformSecrets } from "./secrets.ts";
import { upstreamsWith } from "./upstream/client.ts";
import { servicesWith } from "./upstream/service-client.ts";

/** The pipeline's ports, and what only the platform's callers get. */
export interface PlatformPorts extends Ports {
  account(number: AccountNumber): AccountPort & AccountService & ArchivedLedger & ComputeAccount;
  readonly directory: Ports["directory"] & EdgeNotices;
  readonly secrets: PlatformSecrets;
  broker(upstream: string): BrokerPort;
}

export function openPorts(
  env: Env,
  context: Pick<ExecutionContext, "waitUntil">,
  secrets: PlatformSecrets,
  { timerLingers }: { readonly timerLingers: boolean } = { timerLingers: false },
): PlatformPorts {
  const { edge, health, bodies, mediumBodies, answers, leases } = memory;
  const now = () => Date.now();
  const after = oneTimer(timerLingers);
  const waitUntil = (work: Promise<unknown>) => context.waitUntil(work);
  const account = (number: Parameters<Ports["account"]>[0]) => accountObject(env, number);
  return {
    directory: openDirectory(
      {
        kv: env.EDGE,
        books: env.BOOKS,
        findKey: (number, digest) => account(number).findKey(digest),
        now,
        waitUntil,
        log,
      },
      edge,
    ),
    secrets,
    upstreams: upstreamsWith(secrets, health, after),
    services: servicesWith(secrets, after),
    bodies,
    mediumBodies,
    answers,
    leases: env.LEASES === "on" ? leases : null,
    account,
    broker: (upstream) => brokerOf(env, upstream),
    now,
    after,
    random: () => Math.random(),
    newCallId: () => timedCallId(crypto.randomUUID(), Date.now()),
    queueEnd: async (end) => void (await env.USAGE.send(end)),
    waitUntil,
    log,
  };
}
