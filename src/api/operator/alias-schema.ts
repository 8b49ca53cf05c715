/** Aliases in bodies and answers. */
import * as z from "zod/mini";
import { characters, whole } from "../../core/shapes.ts";
import { allowLoss, byUnit, modelName, usdAnswer } from "../kit/fields.ts";

const MOST_TARGETS = 32;

const Target = z.strictObject({
  upstream: characters(1, 63),
  model: modelName,
  priority: z.optional(whole(0, 1000)).check(z.describe("0 (the default) is asked first")),
  weight: z
    .optional(z.number().check(z.gt(0), z.maximum(1_000_000)))
    .check(z.describe("Share among equal priorities; 1 by default")),
  drain: z
    .optional(z.boolean())
    .check(
      z.describe("True: no new call goes there, and follow-ups of earlier ones still do; one target has to take calls"),
    ),
});
const targets = z.array(Target).check(
  z.minLength(1),
  z.maxLength(MOST_TARGETS),
  z.refine((all) => all.some(({ drain }) => !drain), "must have a target that is not drained"),
);
const settings = {
  retry_on: z
    .optional(z.array(z.union([z.literal(500), z.literal(502)], { error: "must be 500 or 502" })).check(z.maxLength(2)))
    .check(z.describe("Further statuses after which calls without a lasting effect go to the next target")),
  allow_loss: allowLoss,
};
export const AliasBody = z
  .strictObject({
    targets,
    account: z.nullish(z.string()).check(z.describe("For this account alone")),
    ...settings,
  })
  .register(z.globalRegistry, { id: "AliasBody" });
export const AliasPatch = z
  .strictObject({ targets: z.optional(targets), ...settings })
  .register(z.globalRegistry, { id: "AliasPatch" });

const MarginAnswer = z.object({
  upstream: z.string(),
  model: z.string(),
  units: z.object(
    byUnit(z.object({ cost_usd: usdAnswer, price_usd: usdAnswer, margin_usd: usdAnswer.check(z.describe("USD")) })),
  ),
  loss: z.boolean().check(z.describe("True: some unit costs more here than the alias is sold for")),
});

export const AliasAnswer = z
  .object({
    alias: z.string(),
    account: z.nullable(z.string()),
    targets: z.array(
      z.object({ upstream: z.string(), model: z.string(), priority: z.int(), weight: z.number(), drain: z.boolean() }),
    ),
    retry_on: z.array(z.union([z.literal(500), z.literal(502)])),
    margins: z
      .array(MarginAnswer)
      .check(
        z.describe("Of each target, in their order: what a unit costs and brings now, without any account's markup"),
      ),
  })
  .register(z.globalRegistry, { id: "Alias" });
