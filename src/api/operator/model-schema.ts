/** The price book in bodies and answers. */
import * as z from "zod/mini";
import { CAP_FIELDS, MODEL_KINDS } from "../../core/pricing/prices.ts";
import { whole } from "../../core/shapes.ts";
import { allowLoss, byUnit, time, timeAnswer, usd, usdAnswer } from "../kit/fields.ts";

const UnitBody = z.strictObject({ cost_usd: usd, price_usd: z.nullish(usd) }).register(z.globalRegistry, {
  id: "UnitPriceBody",
  description: "What the operator pays, and what the tenant pays; without `price_usd`, cost and the plan's markup",
});
const tokens = (least: number, most: number) => z.nullish(whole(least, most));

const settings = {
  kind: z.enum(MODEL_KINDS).check(z.describe("`chat` also serves responses")),
  max_output_tokens: tokens(1, 100_000_000),
  context_tokens: tokens(1, 1_000_000_000),
  prompt_overhead_tokens: tokens(0, 1_000_000),
  max_part_tokens: tokens(0, 100_000_000).check(
    z.describe(
      "The most that one part which is not text comes to (16384 for an image). Without it and `context_tokens`, video, audio and files are refused",
    ),
  ),
  part_tokens: tokens(0, 100_000_000).check(
    z.describe("What such a part counts for where the upstream's usage is not known (256 for an image)"),
  ),
  display_name: z
    .nullish(z.string().check(z.minLength(1), z.maxLength(200)))
    .check(z.describe("Of a GPU: its name for tenants")),
  vram_gb: z.nullish(whole(1, 100_000)).check(z.describe("Of a GPU")),
  cap_field: z
    .nullish(z.enum(CAP_FIELDS))
    .check(z.describe("The field in which the model's engine takes the output cap of a chat (`max_tokens`)")),
  upstream: z.nullish(z.string()).check(z.describe("Tenants may then call the model there by this name")),
};
const prices = z.strictObject(byUnit(UnitBody));
const free = z.optional(z.boolean()).check(z.describe("Costs tenants nothing"));

export const ModelBody = z
  .strictObject({
    ...settings,
    prices: z.optional(prices).check(z.describe("Prices from now on; where absent those that it has stay")),
    free,
    from: z.optional(time).check(z.describe("Refused: dated prices are put apart, under `/prices`")),
    allow_loss: allowLoss,
  })
  .register(z.globalRegistry, { id: "ModelBody" });
export const ModelPatch = z
  .strictObject({ ...settings, kind: z.optional(settings.kind) })
  .register(z.globalRegistry, { id: "ModelPatch" });

export const ModelPricesBody = z
  .strictObject({
    prices,
    free,
    from: z.optional(time).check(z.describe("When they begin to hold; now where absent")),
    allow_loss: allowLoss,
  })
  .register(z.globalRegistry, { id: "ModelPricesBody" });

const UnitAnswer = z.object({ cost_usd: usdAnswer, price_usd: z.nullable(usdAnswer) });
export const RowAnswer = z
  .object({
    model: z.string(),
    kind: z.enum(MODEL_KINDS),
    prices: z.object(byUnit(UnitAnswer)),
    free: z.boolean(),
    from: z.nullable(timeAnswer).check(z.describe("Null: the model has no prices yet")),
    max_output_tokens: z.nullable(z.int()),
    context_tokens: z.nullable(z.int()),
    prompt_overhead_tokens: z.nullable(z.int()),
    max_part_tokens: z.nullable(z.int()),
    part_tokens: z.nullable(z.int()),
    display_name: z.nullable(z.string()),
    vram_gb: z.nullable(z.int()),
    cap_field: z.nullable(z.enum(CAP_FIELDS)),
    upstream: z.nullable(z.string()),
  })
  .register(z.globalRegistry, { id: "PriceBookRow" });
export const ModelAnswer = z
  .extend(RowAnswer, {
    history: z.array(RowAnswer).check(z.describe("Every row of this model, those to come first, oldest last")),
  })
  .register(z.globalRegistry, { id: "Model" });
