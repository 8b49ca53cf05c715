/** Accounts in bodies and answers. */
import * as z from "zod/mini";
import { UNIT_NAMES } from "../../core/pricing/usage.ts";
import {
  ACCOUNT_ID,
  allowLoss,
  GIVEN_ACCOUNT_ID,
  limitAnswers,
  limitFields,
  modelName,
  name,
  signedUsd,
  slug,
  time,
  timeAnswer,
  usd,
  usdAnswer,
} from "../kit/fields.ts";

const markup = z.number().check(
  z.minimum(0),
  z.maximum(100_000),
  z.refine((percent) => Math.abs(percent * 1e6 - Math.round(percent * 1e6)) < 1e-3, "must have at most 6 decimals"),
  z.meta({ description: "On top of cost, in percent", example: 20 }),
);
const price = usd.check(z.refine((nanoUsd) => nanoUsd > 0, "must be above zero"));

const Override = z
  .strictObject({
    markup_percent: z.optional(markup),
    ...(Object.fromEntries(UNIT_NAMES.map((unit) => [unit, z.optional(price)])) as Record<
      (typeof UNIT_NAMES)[number],
      z.ZodMiniOptional<typeof price>
    >),
  })
  .check(
    z.refine(
      (override) =>
        Object.keys(override).length > 0 &&
        (override.markup_percent === undefined || Object.keys(override).length === 1),
      "must have `markup_percent`, or prices in USD by unit, not both",
    ),
  );

const PlanBody = z
  .strictObject({
    markup_percent: z.optional(markup),
    overrides: z.optional(z.record(modelName, Override)),
    from: z.optional(time).check(z.describe("When it begins to hold, as `next_plan` until then; now where absent")),
  })
  .register(z.globalRegistry, {
    id: "PlanBody",
    description: "What the account pays where the price book has no price of its own, and overrides by model",
  });

const fields = {
  name,
  blocked: z.optional(z.boolean()),
  bills_monthly: z.optional(z.boolean()).check(z.describe("May owe up to `credit_limit_usd`")),
  credit_limit_usd: z.optional(usd),
  low_balance_usd: z.nullish(signedUsd).check(z.describe("At this balance `balance.low` is told; null: never")),
  compute_enabled: z.optional(z.boolean()),
  compute_upstream: z
    .nullish(slug)
    .check(z.describe("The upstream on which the account's compute lives; of one that is not `shared`, alone")),
  storage_grace_days: z
    .nullish(z.int().check(z.minimum(3), z.maximum(3650)))
    .check(z.describe("Days from the first unpaid day of storage until it is deleted; null: never")),
  on_disconnect: z
    .optional(z.enum(["cancel", "drain"]))
    .check(z.describe("A stream whose client left: stop it, or read on for its exact usage")),
  plan: z.optional(PlanBody),
  allow_loss: allowLoss,
  ...limitFields,
};
export const AccountBody = z
  .strictObject({
    ...fields,
    id: z.optional(
      z.string().check(
        z.regex(ACCOUNT_ID, "must be 1 to 63 of a-z, 0-9, `_` or `-`, the first a letter or digit"),
        z.refine((id) => !GIVEN_ACCOUNT_ID.test(id), "must not have the form `acct_<number>`, which the gateway gives"),
      ),
    ),
    balance_usd: z.optional(usd).check(z.describe("Booked as a top-up with the reference `opening`")),
  })
  .register(z.globalRegistry, { id: "AccountBody" });
export const AccountPatch = z
  .strictObject({
    ...fields,
    name: z.optional(name),
    next_plan: z.optional(z.null()).check(z.describe("Null takes back a plan that is to come")),
  })
  .register(z.globalRegistry, { id: "AccountPatch" });

const PlanAnswer = z.object({
  markup_percent: z.number(),
  overrides: z.record(z.string(), z.record(z.string(), z.number())),
});
export const AccountAnswer = z
  .object({
    id: z.string(),
    number: z.int(),
    name: z.string(),
    blocked: z.boolean(),
    bills_monthly: z.boolean(),
    credit_limit_usd: usdAnswer,
    low_balance_usd: z.nullable(usdAnswer),
    compute_enabled: z.boolean(),
    compute_upstream: z.nullable(z.string()),
    storage_grace_days: z.nullable(z.int()),
    on_disconnect: z.enum(["cancel", "drain"]),
    plan: PlanAnswer,
    next_plan: z.nullable(z.extend(PlanAnswer, { from: timeAnswer })),
    balance_usd: usdAnswer,
    held_usd: usdAnswer,
    created_at: timeAnswer,
    deleted_at: z.nullable(timeAnswer),
    ...limitAnswers,
  })
  .register(z.globalRegistry, { id: "Account" });
