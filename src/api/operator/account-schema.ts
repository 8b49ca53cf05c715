/** Accounts in bodies and answers. */
import * as z from "zod";
import { UNIT_NAMES } from "../../core/pricing/usage.ts";
import {
  ACCOUNT_ID,
  allowLoss,
  GIVEN_ACCOUNT_ID,
  limitAnswers,
  limitFields,
  modelName,
  name,
  slug,
  time,
  timeAnswer,
  usd,
  usdAnswer,
} from "../kit/fields.ts";

const markup = z
  .number()
  .min(0)
  .max(100_000)
  .refine((percent) => Math.abs(percent * 1e6 - Math.round(percent * 1e6)) < 1e-3, "must have at most 6 decimals")
  .meta({ description: "On top of cost, in percent", example: 20 });
const price = usd.refine((nanoUsd) => nanoUsd > 0, "must be above zero");

const Override = z
  .strictObject({
    markup_percent: markup.optional(),
    ...(Object.fromEntries(UNIT_NAMES.map((unit) => [unit, price.optional()])) as Record<
      (typeof UNIT_NAMES)[number],
      z.ZodOptional<typeof price>
    >),
  })
  .refine(
    (override) =>
      Object.keys(override).length > 0 && (override.markup_percent === undefined || Object.keys(override).length === 1),
    "must have `markup_percent`, or prices in USD by unit, not both",
  );

const PlanBody = z
  .strictObject({
    markup_percent: markup.optional(),
    overrides: z.record(modelName, Override).optional(),
    from: time.optional().meta({ description: "When it begins to hold, as `next_plan` until then; now where absent" }),
  })
  .meta({
    id: "PlanBody",
    description: "What the account pays where the price book has no price of its own, and overrides by model",
  });

const fields = {
  name,
  blocked: z.boolean().optional(),
  bills_monthly: z.boolean().optional().meta({ description: "May owe up to `credit_limit_usd`" }),
  credit_limit_usd: usd.optional(),
  compute_enabled: z.boolean().optional(),
  compute_upstream: slug
    .nullable()
    .optional()
    .meta({ description: "The upstream on which the account's compute lives; of one that is not `shared`, alone" }),
  storage_grace_days: z
    .int()
    .min(3)
    .max(3650)
    .nullable()
    .optional()
    .meta({ description: "Days from the first unpaid day of storage until it is deleted; null: never" }),
  on_disconnect: z
    .enum(["cancel", "drain"])
    .optional()
    .meta({ description: "A stream whose client left: stop it, or read on for its exact usage" }),
  plan: PlanBody.optional(),
  allow_loss: allowLoss,
  ...limitFields,
};
export const AccountBody = z
  .strictObject({
    ...fields,
    id: z
      .string()
      .regex(ACCOUNT_ID, "must be 1 to 63 of a-z, 0-9, `_` or `-`, the first a letter or digit")
      .refine((id) => !GIVEN_ACCOUNT_ID.test(id), "must not have the form `acct_<number>`, which the gateway gives")
      .optional(),
    balance_usd: usd.optional().meta({ description: "Booked as a top-up with the reference `opening`" }),
  })
  .meta({ id: "AccountBody" });
export const AccountPatch = z
  .strictObject({
    ...fields,
    name: name.optional(),
    next_plan: z.null().optional().meta({ description: "Null takes back a plan that is to come" }),
  })
  .meta({ id: "AccountPatch" });

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
    compute_enabled: z.boolean(),
    compute_upstream: z.string().nullable(),
    on_disconnect: z.enum(["cancel", "drain"]),
    plan: PlanAnswer,
    next_plan: PlanAnswer.extend({ from: timeAnswer }).nullable(),
    balance_usd: usdAnswer,
    held_usd: usdAnswer,
    created_at: timeAnswer,
    deleted_at: timeAnswer.nullable(),
    ...limitAnswers,
  })
  .meta({ id: "Account" });
