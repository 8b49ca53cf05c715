/** The price book in bodies and answers. */
import * as z from "zod";
import { CAP_FIELDS, MODEL_KINDS } from "../../core/pricing/prices.ts";
import { UNIT_NAMES, type Unit } from "../../core/pricing/usage.ts";
import { time, timeAnswer, usd, usdAnswer } from "../kit/fields.ts";

const UnitBody = z.strictObject({ cost_usd: usd, price_usd: usd.nullable().optional() }).meta({
  id: "UnitPriceBody",
  description: "What the operator pays, and what the tenant pays; without `price_usd`, cost and the plan's markup",
});
/** An object with each unit as an optional field. */
const byUnit = <Schema extends z.ZodType>(schema: Schema) =>
  Object.fromEntries(UNIT_NAMES.map((unit) => [unit, schema.optional()])) as Record<Unit, z.ZodOptional<Schema>>;

const tokens = (least: number, most: number) => z.int().min(least).max(most).nullable().optional();

export const ModelBody = z
  .strictObject({
    kind: z.enum(MODEL_KINDS).meta({ description: "`chat` also serves responses" }),
    prices: z.strictObject(byUnit(UnitBody)),
    free: z.boolean().optional(),
    from: time.optional().meta({ description: "When the row begins to hold; now where absent" }),
    max_output_tokens: tokens(1, 100_000_000),
    context_tokens: tokens(1, 1_000_000_000),
    prompt_overhead_tokens: tokens(0, 1_000_000),
    max_part_tokens: tokens(0, 100_000_000).meta({
      description:
        "The most that one part which is not text comes to (16384 for an image). Without it and `context_tokens`, video, audio and files are refused",
    }),
    part_tokens: tokens(0, 100_000_000).meta({
      description: "What such a part counts for where the upstream's usage is not known (256 for an image)",
    }),
    display_name: z
      .string()
      .min(1)
      .max(200)
      .nullable()
      .optional()
      .meta({ description: "Of a GPU: its name for tenants" }),
    vram_gb: z.int().min(1).max(100_000).nullable().optional().meta({ description: "Of a GPU" }),
    cap_field: z.enum(CAP_FIELDS).nullable().optional().meta({
      description: "The field in which the model's engine takes the output cap of a chat (`max_tokens`)",
    }),
    upstream: z
      .string()
      .nullable()
      .optional()
      .meta({ description: "Tenants may then call the model there by this name" }),
  })
  .meta({ id: "ModelBody" });

const UnitAnswer = z.object({ cost_usd: usdAnswer, price_usd: usdAnswer.nullable() });
export const RowAnswer = z
  .object({
    model: z.string(),
    kind: z.enum(MODEL_KINDS),
    prices: z.object(byUnit(UnitAnswer)),
    free: z.boolean(),
    from: timeAnswer,
    max_output_tokens: z.int().nullable(),
    context_tokens: z.int().nullable(),
    prompt_overhead_tokens: z.int().nullable(),
    max_part_tokens: z.int().nullable(),
    part_tokens: z.int().nullable(),
    display_name: z.string().nullable(),
    vram_gb: z.int().nullable(),
    cap_field: z.enum(CAP_FIELDS).nullable(),
    upstream: z.string().nullable(),
  })
  .meta({ id: "PriceBookRow" });
export const ModelAnswer = RowAnswer.extend({
  history: z.array(RowAnswer).meta({ description: "Every row of this model, those to come first, oldest last" }),
}).meta({ id: "Model" });
