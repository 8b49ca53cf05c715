/**
 * What a video costs: tokens by pixels and seconds, at one of six rates. A quote's range always contains the real
 * usage.
 */
import type { JsonObject } from "../endpoint.ts";
import type { Usage } from "../usage.ts";
import type { Resolution, Size } from "./sizes.ts";

export const VIDEO_MODEL = "service-video-gen-2.0";

/** Resolutions that share a rate. */
type Band = "720p" | "1080p" | "4k";
const BANDS: Readonly<Record<Resolution, Band>> = { "480p": "720p", "720p": "720p", "1080p": "1080p", "4k": "4k" };

/** USD for a million tokens, without and with a reference video. */
const RATES: Readonly<Record<Band, readonly [plain: number, reference: number]>> = {
  "720p": [7, 4.3],
  "1080p": [7.7, 4.7],
  "4k": [8.8, 5.4],
};

const OUTPUT_FPS = 24;
const PIXELS_PER_TOKEN = 1_024;
const QUOTE_SPREAD = 0.1;

/** What the price depends on. */
export interface Order extends Size {
  readonly resolution: Resolution;
  readonly seconds: number;
  readonly referenceSeconds: number;
}

/** Reference video is read too, and counts like the output. */
const nominalTokens = ({ width, height, seconds, referenceSeconds }: Order): number =>
  (width * height * OUTPUT_FPS * (seconds + referenceSeconds)) / PIXELS_PER_TOKEN;

/** `luck`: in [0, 1), where in the range the real usage falls. */
export const billableTokens = (order: Order, luck: number): number =>
  Math.round(nominalTokens(order) * (1 - QUOTE_SPREAD / 2 + luck * QUOTE_SPREAD));

function rateOf({ resolution, referenceSeconds }: Order): { tier: string; unit: keyof Usage; rate: number } {
  const band = BANDS[resolution];
  const [plain, reference] = RATES[band];
  return referenceSeconds > 0
    ? { tier: `${band}_reference`, unit: `video_tokens_${band}_reference`, rate: reference }
    : { tier: band, unit: `video_tokens_${band}`, rate: plain };
}

export const usageOf = (order: Order, tokens: number): Usage => ({ [rateOf(order).unit]: tokens });

const usd = (tokens: number, rate: number): number => Math.round(tokens * rate) / 1_000_000;

export function billing(order: Order, tokens: number): JsonObject {
  const { tier, rate } = rateOf(order);
  return {
    charge_usd: usd(tokens, rate),
    pricing_tier: tier,
    resolution: order.resolution,
    duration_seconds: order.seconds,
    billable_tokens: tokens,
    usage_source: "engine",
  };
}

export function quote(order: Order): JsonObject {
  const { tier, rate } = rateOf(order);
  const [least, most] = [1 - QUOTE_SPREAD, 1 + QUOTE_SPREAD].map((factor) => Math.ceil(nominalTokens(order) * factor));
  return {
    pricing_tier: tier,
    unit_price_per_1m_tokens: rate,
    estimated_tokens_min: least,
    estimated_tokens_max: most,
    estimated_cost_min_usd: usd(least ?? 0, rate),
    estimated_cost_max_usd: usd(most ?? 0, rate),
    currency: "USD",
    note: "The charge follows the usage reported for the finished job.",
  };
}

export const priceList = (): JsonObject => ({
  model: VIDEO_MODEL,
  currency: "USD",
  rates: Object.entries(RATES).flatMap(([resolution, [plain, reference]]) => [
    { resolution, reference_video: false, usd_per_1m_tokens: plain },
    { resolution, reference_video: true, usd_per_1m_tokens: reference },
  ]),
});
