/**
 * The record of one call, as operators and tenants read it. Tenants see neither cost, upstreams, tries nor what the
 * operator lost.
 */
import * as z from "zod/mini";
import { toUsd } from "../../core/pricing/money.ts";
import type { UnitPrices } from "../../core/pricing/prices.ts";
import { UNIT_NAMES, UNITS, type Unit, type Usage } from "../../core/pricing/usage.ts";
import type { CallRow } from "../../platform/d1/call-rows.ts";
import type { RefusedRow } from "../../platform/d1/refused-calls.ts";
import { timeAnswer, usdAnswer } from "./fields.ts";
import { refusedFields, serializeRefused } from "./refused-record.ts";
import { mapUnits, toIso } from "./serializers.ts";

/** Seconds and hours are metered in milliseconds, and shown in the unit of their price. */
const TIMES: ReadonlySet<Unit> = new Set(UNIT_NAMES.filter((unit) => /_(seconds|hours)$/.test(unit)));
export const quantityShown = (unit: Unit, metered: number): number =>
  TIMES.has(unit) ? metered / UNITS[unit].perPrice : metered;

const units = <Schema extends z.core.$ZodType>(schema: Schema) =>
  z.object(
    Object.fromEntries(UNIT_NAMES.map((unit) => [unit, z.optional(schema)])) as Record<Unit, z.ZodMiniOptional<Schema>>,
  );

const shared = {
  id: z.string().check(z.describe("The `x-request-id` of its answer")),
  key: z.string(),
  team: z.nullable(z.string()),
  endpoint: z.string(),
  model: z.nullable(z.string()).check(z.describe("As called; null: a refused call whose model was not found out")),
  alias: z.nullable(z.string()),
  region: z.nullable(z.string()),
  country: z.nullable(z.string()).check(z.describe("Two letters, where the edge knows it")),
  stream: z.nullable(z.boolean()).check(z.describe("Null: not recorded")),
  status: z.int(),
  outcome: z.enum(["completed", "client_gone", "stream_broken", "failed", "expired", "refused"]),
  reason: z.nullable(z.string()),
  started_at: timeAnswer,
  ended_at: timeAnswer,
  latency_ms: z.int(),
  first_byte_ms: z.nullable(z.int()),
  usage: units(z.number()),
  source: z.enum(["exact", "own_count", "none"]),
  charged_usd: usdAnswer,
  held_usd: z.nullable(usdAnswer),
  prices: z.nullable(units(usdAnswer)).check(z.describe("USD per unit, as fixed at admission; null: not recorded")),
};
export const TenantCallAnswer = z
  .object({ ...shared, ...refusedFields })
  .register(z.globalRegistry, { id: "TenantCall" });

const tried = z.object({ upstream: z.string(), model: z.string(), result: z.string(), ms: z.int() });
export const callFields = {
  ...shared,
  ...refusedFields,
  account: z.string(),
  upstream: z.nullable(z.string()),
  target_model: z.nullable(z.string()),
  price_rule: z.string(),
  cost_usd: usdAnswer,
  costs: z.nullable(units(usdAnswer)).check(z.describe("What the operator pays per unit at the target that served")),
  overrun_usd: usdAnswer.check(z.describe("Used beyond what was held; borne by the operator")),
  loss_usd: usdAnswer.check(z.describe("Executed, or perhaps, and never charged")),
  tries: z.nullable(z.array(tried)).check(z.describe("In order; null: not recorded")),
};
export const CallAnswer = z.object(callFields).register(z.globalRegistry, { id: "Call" });

const usageShown = (usage: Usage) => mapUnits(usage, (quantity, unit) => quantityShown(unit, quantity));
const rates = (prices: UnitPrices | null | undefined) => (prices ? mapUnits(prices, toUsd) : null);

export const serializeTenantCall = (call: CallRow | RefusedRow): z.input<typeof TenantCallAnswer> =>
  "eventId" in call ? serializeServed(call) : serializeRefused(call);

const serializeServed = (call: CallRow): z.input<typeof TenantCallAnswer> => ({
  id: call.eventId,
  key: call.key,
  team: call.team,
  endpoint: call.endpoint,
  model: call.model,
  alias: call.alias,
  region: call.region,
  country: call.country,
  stream: call.detail?.stream ?? null,
  status: call.status,
  // The consumer takes no others.
  outcome: call.outcome as z.input<typeof TenantCallAnswer>["outcome"],
  reason: call.reason,
  started_at: toIso(call.startedAtMs),
  ended_at: toIso(call.endedAtMs),
  latency_ms: call.latencyMs,
  first_byte_ms: call.firstByteMs,
  usage: usageShown(call.usage),
  source: call.source as z.input<typeof TenantCallAnswer>["source"],
  charged_usd: toUsd(call.priceNanoUsd),
  held_usd: call.detail ? toUsd(call.detail.heldNanoUsd) : null,
  prices: rates(call.detail?.prices),
  refusal: null,
  param: null,
});

const NOT_SERVED = {
  upstream: null,
  target_model: null,
  price_rule: "",
  cost_usd: 0,
  costs: null,
  overrun_usd: 0,
  loss_usd: 0,
  tries: null,
};

export const serializeCall = (call: CallRow | RefusedRow): z.input<typeof CallAnswer> =>
  "eventId" in call ? serializeWhole(call) : { ...serializeRefused(call), account: call.account, ...NOT_SERVED };

const serializeWhole = (call: CallRow): z.input<typeof CallAnswer> => ({
  ...serializeServed(call),
  account: call.account,
  upstream: call.upstream,
  target_model: call.targetModel,
  price_rule: call.priceRule,
  cost_usd: toUsd(call.costNanoUsd),
  costs: rates(call.detail?.costs),
  overrun_usd: toUsd(call.overrunNanoUsd),
  loss_usd: toUsd(call.lossNanoUsd),
  tries: call.detail?.tries.map((one) => ({ ...one, ms: Math.round(one.ms) })) ?? null,
});
