/** What the record of a call says if the call was refused: the limit that it met, or where its body is wrong. */
import * as z from "zod/mini";
import type { Met } from "../../core/account/refused-call.ts";
import { toUsd } from "../../core/pricing/money.ts";
import type { RefusedRow } from "../../platform/d1/refused-calls.ts";
import { timeAnswer } from "./fields.ts";
import { toIso, toIsoOrNull } from "./serializers.ts";

const metFields = z.object({
  level: z.enum(["key", "team", "account"]),
  id: z.string().check(z.describe("Of the key, team or account")),
  limit: z.string(),
  used: z.nullable(z.number()).check(z.describe("USD for `max_budget` and `balance`, held money included")),
  allowed: z.number(),
  frees_at: z.nullable(timeAnswer),
});
export const refusedFields = {
  refusal: z.nullable(metFields).check(z.describe("The limit that a refused call met")),
  param: z.nullable(z.string()).check(z.describe("Where the body of a refused call is wrong, if that was recorded")),
};

/** Limits of money; all others count. */
const MONEY: ReadonlySet<string> = new Set(["max_budget", "balance"]);

function metShown(met: Met | null): z.input<typeof refusedFields.refusal> {
  if (!met) return null;
  const { level, id, limit, used, allowed, freesAtMs } = met;
  const shown = MONEY.has(limit) ? toUsd : (count: number) => count;
  return {
    level,
    id,
    limit,
    used: used === null ? null : shown(used),
    allowed: shown(allowed),
    frees_at: toIsoOrNull(freesAtMs),
  };
}

export const serializeRefused = (call: RefusedRow) => ({
  id: call.callId,
  key: call.key,
  team: call.team,
  endpoint: call.endpoint,
  model: call.model,
  alias: null,
  region: null,
  country: null,
  stream: null,
  status: call.status,
  outcome: "refused" as const,
  reason: call.reason,
  started_at: toIso(call.startedAtMs),
  ended_at: toIso(call.atMs),
  latency_ms: Math.max(0, call.atMs - call.startedAtMs),
  first_byte_ms: null,
  usage: {},
  source: "none" as const,
  charged_usd: 0,
  held_usd: null,
  prices: null,
  refusal: metShown(call.met),
  param: call.param,
});
