/**
 * The Worker that calls account objects for `bench/scale.ts`: whole calls one after the other, nothing of HTTP in them.
 */

import type { AccountService } from "../src/core/account/account-service.ts";
import type { AdmitRequest } from "../src/core/account/hold.ts";
import { OPERATOR } from "../src/core/account/permissions.ts";
import { type KeyFields, type Limits, NEW_KEY } from "../src/core/account/tenant.ts";
import { type AccountId, type AccountNumber, asId, type CallId, type KeyDigest, type KeyId } from "../src/core/ids.ts";
import { NO_PLAN } from "../src/core/pricing/prices.ts";
import type { AccountPort } from "../src/gateway/ports.ts";

export type Order =
  | { do: "open"; number: number }
  /** `keys`: how many of the keys `digest-1`, `digest-2`, ... take turns; 0: the one that was made with the account. */
  | { do: "calls"; number: number; calls: number; keys: number }
  | { do: "audit"; number: number };

/** Every limit is set, none is reached. */
export const LIMITS: Limits = {
  rpm_limit: 1_000_000_000,
  tpm_limit: 1_000_000_000_000,
  rpd_limit: 1_000_000_000,
  max_parallel_requests: 1_000_000,
  free_rpm_limit: 1_000_000_000,
  maxGpus: null,
  maxBudgetNanoUsd: 1_000_000_000_000_000,
  budgetDuration: "month",
};
/** A key that may make any call. */
export const KEY: KeyFields = { ...NEW_KEY, name: "key", limits: LIMITS };
const OWN_DIGEST = asId<KeyDigest>("digest-own");

interface Env {
  readonly ACCOUNTS: { getByName(name: string): AccountPort & AccountService };
}

export default {
  async fetch(request: Request, env: Env): Promise<Response> {
    const order = (await request.json()) as Order;
    const object = env.ACCOUNTS.getByName(String(order.number));
    if (order.do === "open") await open(object, order.number);
    if (order.do === "calls") await calls(object, order.calls, order.keys);
    const audit = order.do === "audit" ? await object.audit() : null;
    return Response.json({ audit });
  },
};

async function open(object: AccountService, number: number): Promise<void> {
  await object.open(asId<AccountId>(`scale-${number}`), asId<AccountNumber>(number), {
    name: "Scale",
    blocked: false,
    billsMonthly: false,
    creditLimitNanoUsd: 0,
    computeEnabled: false,
    computeUpstream: null,
    storageGraceDays: 7,
    onDisconnect: "cancel",
    plan: NO_PLAN,
    nextPlan: null,
    limits: LIMITS,
  });
  await object.credit({ kind: "top_up", amountNanoUsd: 1e15, reference: "opening", note: null });
  await object.manage(OPERATOR, {
    kind: "create_key",
    id: asId<KeyId>("key-own"),
    digest: OWN_DIGEST,
    lastFour: "last",
    fields: KEY,
  });
}

async function calls(object: AccountPort, count: number, keys: number): Promise<void> {
  const prefix = crypto.randomUUID();
  for (let at = 0; at < count; at++) {
    const callId = asId<CallId>(`${prefix}-${at}`);
    // A stride that visits each before any again, in no order.
    const keyDigest = keys === 0 ? OWN_DIGEST : asId<KeyDigest>(`digest-${1 + ((at * 7_919) % keys)}`);
    const admission = await object.admit(requestOf(callId, keyDigest));
    if (!admission.ok) throw new Error(`refused: ${JSON.stringify(admission.refusal)}`);
    await object.settle({
      callId,
      outcome: "completed",
      status: 200,
      reading: { source: "exact", usage: { input_tokens: 20, output_tokens: 30 } },
      servedBy: { upstream: "bench", model: "bench", region: null },
      costNanoUsd: 50,
      latencyMs: 100,
      firstByteMs: 50,
      lostTries: 0,
    });
  }
}

const PER_TOKEN = { input_tokens: 1_000_000, output_tokens: 1_000_000 };

const requestOf = (callId: CallId, keyDigest: KeyDigest): AdmitRequest => ({
  callId,
  keyDigest,
  endpoint: "chat.completions",
  access: { scope: "inference", role: "member" },
  limits: [],
  model: "bench",
  alias: null,
  row: { model: "bench", kind: "chat", fromMs: 0, costNanoUsd: PER_TOKEN, priceNanoUsd: {}, free: false },
  bound: { fixed: { input_tokens: 60 }, output: { cap: 100, choices: 1, lowerable: false } },
  owned: [],
  startedAtMs: Date.now(),
});
