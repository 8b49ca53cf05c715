/** `/account` and `/account/usage`: the limits, remaining amounts and usage that a key's holder may see. */
import * as z from "zod/mini";
import type { LevelStanding, Standing } from "../../core/account/key-status.ts";
import { allowsModel } from "../../core/account/model-access.ts";
import { toUsd } from "../../core/pricing/money.ts";
import { MODEL_KINDS, planAt, tenantPrices } from "../../core/pricing/prices.ts";
import { UNIT_NAMES, type Unit } from "../../core/pricing/usage.ts";
import { callableModels } from "../../core/routing/callable-models.ts";
import { resolveModel } from "../../core/routing/resolution.ts";
import type { RoutingSnapshot } from "../../core/routing/routes.ts";
import { limitAnswers, listOf, timeAnswer, usdAnswer } from "../kit/fields.ts";
import { HeldKeyAnswer, serializeHeldKey } from "../kit/key-schema.ts";
import { Problem } from "../kit/problem.ts";
import { answers, ok, route } from "../kit/route.ts";
import { mapUnits, serializeLimits, toIsoOrNull } from "../kit/serializers.ts";
import { TenantUsageAnswer } from "../kit/usage-columns.ts";
import { reportQuery, TENANT_GROUPS, TENANT_ORDERS, usageReport } from "../kit/usage-report.ts";
import { type SelfServiceRoutes, visibleTo } from "./self-service.ts";

const LevelAnswer = z
  .object({
    ...limitAnswers,
    rpm_remaining: z.nullable(z.int()),
    tpm_remaining: z.nullable(z.int()),
    rpd_remaining: z.nullable(z.int()),
    parallel_remaining: z.nullable(z.int()),
    free_rpm_remaining: z.nullable(z.int()),
    budget_spent: z.nullable(usdAnswer),
    budget_remaining: z.nullable(usdAnswer).check(z.describe("USD, less what calls in flight hold")),
    budget_resets_at: z.nullable(timeAnswer),
  })
  .register(z.globalRegistry, { id: "LevelLimits" });

const units = Object.fromEntries(UNIT_NAMES.map((unit) => [unit, z.optional(usdAnswer)])) as Record<
  Unit,
  z.ZodMiniOptional<typeof usdAnswer>
>;
const AccountStateAnswer = z
  .object({
    id: z.string(),
    number: z.int(),
    name: z.string(),
    balance_usd: usdAnswer,
    held_usd: usdAnswer.check(z.describe("Set aside for calls in flight")),
    available_usd: usdAnswer.check(z.describe("What a call may hold now, credit included")),
    bills_monthly: z.boolean(),
    compute_enabled: z.boolean(),
    key: HeldKeyAnswer,
    limits: z.object({ key: LevelAnswer, team: z.nullable(LevelAnswer), account: LevelAnswer }),
    models: z.array(
      z.object({
        id: z.string(),
        kind: z.enum(MODEL_KINDS),
        prices: z.object(units).check(z.describe("USD per million tokens, per second, image or request")),
      }),
    ),
  })
  .register(z.globalRegistry, { id: "AccountState" });

const read = route({
  id: "getAccount",
  method: "get",
  path: "/account",
  summary: "Limits and what is left of each, balance, and the models that this key may call with their prices",
  answers: { 200: answers("Where the key stands", AccountStateAnswer) },
});
const usage = route({
  id: "reportUsage",
  method: "get",
  path: "/account/usage",
  summary: "Report usage: a member's key its own, others their account's or team's",
  query: z.strictObject(reportQuery(TENANT_GROUPS, TENANT_ORDERS)),
  answers: { 200: answers("One row a group, or one for all", listOf(TenantUsageAnswer)) },
  alsoAs: "text/csv",
});

const EVERYTHING = { kinds: MODEL_KINDS, instances: true };

export function addSelfAccount(api: SelfServiceRoutes): void {
  api.add(read, async ({ work: { context, standing } }) => {
    const routing = await context.edge.routing().catch((error) => {
      context.log({ event: "routing_failed", error: String(error) });
      throw new Problem(503, "routing_unavailable", "Models cannot be read for a moment. Try again.");
    });
    return ok(serializeState(standing, routing, context.now()));
  });

  api.add(usage, async ({ work: { context, standing }, query }) => {
    const answer = await usageReport(context.books, query, visibleTo(standing), "tenant", context.now());
    return answer instanceof Response ? answer : ok(answer as z.input<(typeof usage)["answers"][200]["schema"]>);
  });
}

function serializeState({ account, key, levels }: Standing, routing: RoutingSnapshot, nowMs: number) {
  const free = account.balanceNanoUsd - account.heldNanoUsd;
  const level = (name: LevelStanding["level"]) => {
    const found = levels.find((candidate) => candidate.level === name);
    return found ? serializeLevel(found) : null;
  };
  const [own, whole] = [level("key"), level("account")];
  if (!own || !whole) throw new Error("a standing without its key's or account's level");
  const models = callableModels(routing, account.id, nowMs).flatMap(({ model }) => {
    const resolution = resolveModel(routing, account.id, model, EVERYTHING, nowMs);
    if (!resolution.ok || !allowsModel(key.models, model)) return [];
    const { row } = resolution.route;
    const { prices } = tenantPrices(row, planAt(account, nowMs), model);
    return [{ id: model, kind: row.kind, prices: mapUnits(prices, toUsd) }];
  });
  return {
    id: account.id,
    number: account.number,
    name: account.name,
    balance_usd: toUsd(account.balanceNanoUsd),
    held_usd: toUsd(account.heldNanoUsd),
    available_usd: toUsd(Math.max(0, free + (account.billsMonthly ? account.creditLimitNanoUsd : 0))),
    bills_monthly: account.billsMonthly,
    compute_enabled: account.computeEnabled,
    key: serializeHeldKey(key),
    limits: { key: own, team: level("team"), account: whole },
    models,
  };
}

function serializeLevel({ limits, requests, tokens, dayRequests, free, slots, budget }: LevelStanding) {
  const left = (limit: number | null, used: number) => (limit === null ? null : Math.max(0, limit - used));
  const room = budget && left(limits.maxBudgetNanoUsd, budget.spentNanoUsd + budget.heldNanoUsd);
  return {
    ...serializeLimits(limits),
    free_rpm_limit: free?.allowed ?? null,
    rpm_remaining: left(limits.rpm_limit, requests),
    tpm_remaining: left(limits.tpm_limit, tokens),
    rpd_remaining: left(limits.rpd_limit, dayRequests ?? 0),
    parallel_remaining: left(limits.max_parallel_requests, slots),
    free_rpm_remaining: free && left(free.allowed, free.used),
    budget_spent: budget && toUsd(budget.spentNanoUsd),
    budget_remaining: room === null ? null : toUsd(room),
    budget_resets_at: toIsoOrNull(budget?.endsAtMs ?? null),
  };
}
