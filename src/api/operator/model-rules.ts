/** What a row of the price book must be, beyond the form of its body. */
import type { DatedPrices, ModelKind, ModelSettings } from "../../core/pricing/prices.ts";
import { UNIT_NAMES, type Unit } from "../../core/pricing/usage.ts";
import { modelName } from "../kit/fields.ts";
import { invalid } from "../kit/problem.ts";
import { type PricesBody, pricesFrom } from "../kit/serializers.ts";

/** How far `from` may lie in the past, ms: the clocks of the sender and of the gateway differ. */
const BACKDATED_MS = 60_000;

export function fromTime(fromMs: number | undefined, nowMs: number, param: string): number {
  if (fromMs !== undefined && fromMs < nowMs - BACKDATED_MS) {
    throw invalid(param, `\`${param}\` is past: what was charged stays as it was. Leave it out for now.`);
  }
  return fromMs ?? nowMs;
}

export function checkSettings(model: ModelSettings): ModelSettings {
  if (!modelName.safeParse(model.model).success) {
    throw invalid("model", "`model` must be 1 to 200 characters without spaces.");
  }
  const sold = SOLD[model.kind];
  if (sold ? !sold.name.test(model.model) : /^(gpu|storage)\//.test(model.model)) {
    const hint = sold ? sold.hint : "Names with `gpu/` and `storage/` are for those kinds.";
    throw invalid("model", `\`${model.model}\` cannot be of the kind \`${model.kind}\`. ${hint}`);
  }
  if (sold && model.upstream) {
    throw invalid(
      "upstream",
      `\`upstream\` is for models. A \`${model.kind}\` is sold where the account has its seat.`,
    );
  }
  if (model.kind === "chat" && !model.maxOutputTokens) {
    throw invalid(
      "max_output_tokens",
      "`max_output_tokens` is required for chat models: the money held for a call is computed from it.",
    );
  }
  if (model.kind !== "chat" && model.capField) {
    throw invalid("cap_field", "`cap_field` is for chat models: no other call has an output cap.");
  }
  return model;
}

interface GivenPrices {
  readonly prices: PricesBody;
  readonly free?: boolean | undefined;
}

export function checkedPrices(kind: ModelKind, given: GivenPrices, fromMs: number): DatedPrices {
  checkUnits(kind, given);
  checkAmounts(given);
  return { fromMs, ...pricesFrom(given.prices), free: given.free ?? false };
}

interface Sold {
  readonly name: RegExp;
  readonly hint: string;
  readonly units: readonly Unit[];
}
/** Rows for rented machines and storage have names and units of their own, which a model's row must not use. */
const SOLD: { readonly [K in ModelKind]?: Sold } = {
  gpu: {
    name: /^gpu\/./,
    hint: "Name it `gpu/<gpu_type>`, the type URI-encoded.",
    units: ["gpu_hours", "interruptible_gpu_hours"],
  },
  storage: {
    name: /^storage\/(drive|filesystem)$/,
    hint: "Name it `storage/drive` or `storage/filesystem`.",
    units: ["storage_gb_days"],
  },
};
const SOLD_UNITS = Object.values(SOLD).flatMap(({ units }) => units);
const MODEL_UNITS: readonly Unit[] = UNIT_NAMES.filter((unit) => !SOLD_UNITS.includes(unit));

function checkUnits(kind: ModelKind, { prices, free }: GivenPrices): void {
  const sold = SOLD[kind];
  const units = sold?.units ?? MODEL_UNITS;
  const other = UNIT_NAMES.find((unit) => prices[unit] !== undefined && !units.includes(unit));
  if (other) {
    throw invalid(
      `prices.${other}`,
      `\`prices.${other}\` is no unit of the kind \`${kind}\`: it has ${units.join(", ")}.`,
    );
  }
  if (sold && free) throw invalid("free", `A \`${kind}\` cannot be free: leave out \`free\`.`);
}

/** Guards against giving a model away by mistake: unless it is marked free, it needs a price above zero. */
function checkAmounts({ prices, free }: GivenPrices): void {
  const priced = UNIT_NAMES.filter((unit) => prices[unit] !== undefined);
  if (priced.length === 0) throw invalid("prices", "`prices` must name at least one unit.");
  for (const unit of priced) {
    const { cost_usd: cost, price_usd: price } = prices[unit] ?? { cost_usd: 0 };
    if (free) {
      if (price)
        throw invalid(
          `prices.${unit}.price_usd`,
          `\`prices.${unit}.price_usd\` must not be set for a free model. Leave it out, or leave out \`free\`.`,
        );
    } else if (price === 0) {
      throw invalid(
        `prices.${unit}.price_usd`,
        `\`prices.${unit}.price_usd\` must be above zero. Set \`free\` if the model costs tenants nothing.`,
      );
    } else if (!price && cost === 0) {
      throw invalid(
        `prices.${unit}.cost_usd`,
        `\`prices.${unit}.cost_usd\` must be above zero where no \`price_usd\` is given: the price is made of it.`,
      );
    }
  }
}
