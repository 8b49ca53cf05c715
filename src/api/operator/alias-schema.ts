/** Aliases in bodies and answers. */
import * as z from "zod";
import { modelName } from "../kit/fields.ts";

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
});
export const AliasBody = z
  .strictObject({
    targets: z.array(Target).min(1).max(MOST_TARGETS),
    account: z.string().nullable().optional().meta({ description: "For this account alone" }),
    retry_on: z
      .array(z.union([z.literal(500), z.literal(502)], { error: "must be 500 or 502" }))
      .max(2)
      .optional()
      .meta({ description: "Further statuses after which calls without a lasting effect go to the next target" }),
  })
  .meta({ id: "AliasBody" });

export const AliasAnswer = z
  .object({
    alias: z.string(),
    account: z.string().nullable(),
    targets: z.array(z.object({ upstream: z.string(), model: z.string(), priority: z.int(), weight: z.number() })),
    retry_on: z.array(z.union([z.literal(500), z.literal(502)])),
  })
  .meta({ id: "Alias" });
