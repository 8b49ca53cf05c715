/**
 * What a call consumed, in the units that prices are made for.
 *
 * `perPrice` says how many of the metered quantity one price buys: token prices are per million, seconds are metered in
 * milliseconds and priced per second, the rest is priced each.
 */
export const UNITS = {
  input_tokens: { perPrice: 1_000_000 },
  /** A subset of `input_tokens`; without a price of its own it costs what input costs. */
  cached_input_tokens: { perPrice: 1_000_000 },
  output_tokens: { perPrice: 1_000_000 },
  video_tokens_720p: { perPrice: 1_000_000 },
  video_tokens_1080p: { perPrice: 1_000_000 },
  video_tokens_4k: { perPrice: 1_000_000 },
  video_tokens_720p_reference: { perPrice: 1_000_000 },
  video_tokens_1080p_reference: { perPrice: 1_000_000 },
  video_tokens_4k_reference: { perPrice: 1_000_000 },
  /** Audio made; quantity in ms. */
  audio_seconds: { perPrice: 1_000 },
  /** Audio heard; quantity in ms. */
  transcribed_seconds: { perPrice: 1_000 },
  images: { perPrice: 1 },
  requests: { perPrice: 1 },
} as const;

export type Unit = keyof typeof UNITS;
export const UNIT_NAMES = Object.keys(UNITS) as [Unit, ...Unit[]];

/** Quantities per unit, non-negative safe integers; a missing unit is zero. */
export type Usage = { readonly [U in Unit]?: number };

/** What a call counts against `tpm_limit`: input and output, cached input not twice. */
export const countedTokens = (usage: Usage): number => (usage.input_tokens ?? 0) + (usage.output_tokens ?? 0);

/** What `after` has more than `before`, per unit; negative where it has less. */
export function usageDifference(after: Usage, before: Usage): Usage {
  const units = UNIT_NAMES.filter((unit) => (after[unit] ?? 0) !== (before[unit] ?? 0));
  return Object.fromEntries(units.map((unit) => [unit, (after[unit] ?? 0) - (before[unit] ?? 0)]));
}

/** Whether an upstream's usage figure is plausible. */
export const isCount = (value: unknown): value is number =>
  typeof value === "number" && Number.isSafeInteger(value) && value >= 0;

/**
 * What was read off one answer. `exact`: the upstream's own figures. `own_count`: they were missing, absurd or cut off,
 * so these are ours (docs/design.md, section 4, "Own count").
 */
export interface Reading {
  readonly source: "exact" | "own_count";
  readonly usage: Usage;
  /** The upstream's input figure is below a tenth of our own count: charged as reported, and marked. */
  readonly lowInput?: true;
}
