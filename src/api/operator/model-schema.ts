/** The price book in bodies and answers. */
import * as z from "zod";
import { CAP_FIELDS, MODEL_KINDS } from "../../core/pricing/prices.ts";
import { allowLoss, byUnit, time, timeAnswer, usd, usdAnswer } from "../kit/fields.ts";

const UnitBody = z.strictObject({ cost_usd: usd, price_usd: usd.nullable().optional() }).meta({
  id: "UnitPriceBody",
  description: "What the operator pays, and what the tenant pays; without `price_usd`, cost and the plan's markup",
});
const tokens = (least: number, most: number) => z.int().min(least).max(most).nullable().optional();

const settings = {
  kind: z.enum(MODEL_KINDS).meta({ description: "`chat` also serves responses" }),
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
};
const prices = z.strictObject(byUnit(UnitBody));
const free = z.boolean().optional().meta({ description: "Costs tenants nothing" });

export const ModelBody = z
  .strictObject({
    ...settings,
    prices: prices.optional().meta({ description: "Prices from now on; where absent those that it has stay" }),
    free,
    from: time.optional().meta({ description: "Refused: dated prices are put apart, under `/prices`" }),
    allow_loss: allowLoss,
  })
  .meta({ id: "ModelBody" });
export const ModelPatch = z.strictObject({ ...settings, kind: settings.kind.optional() }).meta({ id: "ModelPatch" });

export const ModelPricesBody = z
  .strictObject({
    prices,
    free,
    from: time.optional().meta({ description: "When they begin to hold; now where absent" }),
    allow_loss: allowLoss,
  })
  .meta({ id: "ModelPricesBody" });

const UnitAnswer = z.object({ cost_usd: usdAnswer, price_usd: usdAnswer.nullable() });
export const RowAnswer = z
  .object({
    model: z.string(),
    kind: z.enum(MODEL_KINDS),
    prices: z.object(byUnit(UnitAnswer)),
    free: z.boolean(),
    from: timeAnswer.nullable().meta({ description: "Null: the model has no prices yet" }),
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
