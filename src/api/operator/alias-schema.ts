/** Aliases in bodies and answers. */
import * as z from "zod";
import { allowLoss, byUnit, modelName, usdAnswer } from "../kit/fields.ts";

const MOST_TARGETS = 32;

const Target = z.strictObject({
  upstream: z.string().min(1).max(63),
  model: modelName,
  priority: z.int().min(0).max(1000).optional().meta({ description: "0 (the default) is asked first" }),
  weight: z
    .number()
    .gt(0)
    .max(1_000_000)
    .optional()
    .meta({ description: "Share among equal priorities; 1 by default" }),
  drain: z.boolean().optional().meta({
    description: "True: no new call goes there, and follow-ups of earlier ones still do; one target has to take calls",
  }),
});
const targets = z
  .array(Target)
  .min(1)
  .max(MOST_TARGETS)
  .refine((all) => all.some(({ drain }) => !drain), "must have a target that is not drained");
const settings = {
  retry_on: z
    .array(z.union([z.literal(500), z.literal(502)], { error: "must be 500 or 502" }))
    .max(2)
    .optional()
    .meta({ description: "Further statuses after which calls without a lasting effect go to the next target" }),
  allow_loss: allowLoss,
};
export const AliasBody = z
  .strictObject({
    targets,
    account: z.string().nullable().optional().meta({ description: "For this account alone" }),
    ...settings,
  })
  .meta({ id: "AliasBody" });
export const AliasPatch = z.strictObject({ targets: targets.optional(), ...settings }).meta({ id: "AliasPatch" });

const MarginAnswer = z.object({
  upstream: z.string(),
  model: z.string(),
  units: z.object(
    byUnit(z.object({ cost_usd: usdAnswer, price_usd: usdAnswer, margin_usd: usdAnswer.meta({ description: "USD" }) })),
  ),
  loss: z.boolean().meta({ description: "True: some unit costs more here than the alias is sold for" }),
});

export const AliasAnswer = z
  .object({
    alias: z.string(),
    account: z.string().nullable(),
    targets: z.array(
      z.object({ upstream: z.string(), model: z.string(), priority: z.int(), weight: z.number(), drain: z.boolean() }),
    ),
    retry_on: z.array(z.union([z.literal(500), z.literal(502)])),
    margins: z.array(MarginAnswer).meta({
      description: "Of each target, in their order: what a unit costs and brings now, without any account's markup",
    }),
  })
  .meta({ id: "Alias" });
