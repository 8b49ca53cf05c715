/**
 * What a call used, in the units that have prices.
 *
 * `perPrice` is how much of the metered quantity one price buys: tokens are priced per million, seconds and hours are
 * metered in milliseconds, everything else is priced each.
 */
export const UNITS = {
  input_tokens: { perPrice: 1_000_000 },
  /** A subset of `input_tokens`. Without a price of its own, it costs the input price. */
  cached_input_tokens: { perPrice: 1_000_000 },
  output_tokens: { perPrice: 1_000_000 },
  video_tokens_720p: { perPrice: 1_000_000 },
  video_tokens_1080p: { perPrice: 1_000_000 },
  video_tokens_4k: { perPrice: 1_000_000 },
  video_tokens_720p_reference: { perPrice: 1_000_000 },
  video_tokens_1080p_reference: { perPrice: 1_000_000 },
  video_tokens_4k_reference: { perPrice: 1_000_000 },
  /** Audio produced, in ms. */
  audio_seconds: { perPrice: 1_000 },
  /** Audio transcribed, in ms. */
  transcribed_seconds: { perPrice: 1_000 },
  images: { perPrice: 1 },
  requests: { perPrice: 1 },
  /** GPU-ms of rented machines. */
  gpu_hours: { perPrice: 3_600_000 },
  interruptible_gpu_hours: { perPrice: 3_600_000 },
  storage_gb_days: { perPrice: 1 },
} as const;

export type Unit = keyof typeof UNITS;
export const UNIT_NAMES = Object.keys(UNITS) as [Unit, ...Unit[]];

/** Quantities per unit, non-negative safe integers; a missing unit is zero. */
export type Usage = { readonly [U in Unit]?: number };

/** Tokens that count against `tpm_limit`: input and output. Cached input is part of input and not added again. */
export const countedTokens = (usage: Usage): number => (usage.input_tokens ?? 0) + (usage.output_tokens ?? 0);

/** `after` minus `before`, per unit; may be negative. */
export function usageDifference(after: Usage, before: Usage): Usage {
  const units = UNIT_NAMES.filter((unit) => (after[unit] ?? 0) !== (before[unit] ?? 0));
  return Object.fromEntries(units.map((unit) => [unit, (after[unit] ?? 0) - (before[unit] ?? 0)]));
}

/** Whether a usage figure from an upstream is plausible: a non-negative safe integer. */
export const isCount = (value: unknown): value is number =>
  typeof value === "number" && Number.isSafeInteger(value) && value >= 0;

/**
 * The usage of one answer. `exact`: the upstream's own figures. `own_count`: those were missing, absurd or cut off, so
 * the gateway counted (docs/design.md, section 4, "Own count").
 */
export interface Reading {
  readonly source: "exact" | "own_count";
  readonly usage: Usage;
  /**
   * The upstream reported less than a tenth of the input that we counted ourselves. Charged as reported, but marked.
   */
  readonly lowInput?: true;
}
