/**
 * The six rates of a video model (contract, "Video pricing"): by resolution band, with or without a reference video.
 * Each is a unit of the price book, priced per million tokens.
 */
import { toUsd } from "../pricing/money.ts";
import type { ModelRow, UnitPrices } from "../pricing/prices.ts";
import { hasReferenceVideo, type Resolution, resolutionOf, type VideoRequest } from "./request.ts";

/** Bands of resolutions that share a rate. */
const BANDS = ["720p", "1080p", "4k"] as const;
type Band = (typeof BANDS)[number];
export type VideoUnit = `video_tokens_${Band}` | `video_tokens_${Band}_reference`;

const BAND_OF: Readonly<Record<Resolution, Band>> = { "480p": "720p", "720p": "720p", "1080p": "1080p", "4k": "4k" };

const videoUnit = (band: Band, reference: boolean): VideoUnit =>
  reference ? `video_tokens_${band}_reference` : `video_tokens_${band}`;

/** The rate that applies to a request. */
export const unitOf = (body: VideoRequest): VideoUnit =>
  videoUnit(BAND_OF[resolutionOf(body)], hasReferenceVideo(body));

/** The contract's `pricing_tier` for a rate: `720p`, `720p_reference`. */
export const tierOf = (unit: VideoUnit): string => unit.slice("video_tokens_".length);

/** The answer to the pricing call: all rates that have a price, in the tenant's prices. */
export function priceList(model: string, row: ModelRow, prices: UnitPrices): unknown {
  const rates = BANDS.flatMap((band) =>
    [false, true].flatMap((reference) => {
      const priceNanoUsd = row.free ? 0 : prices[videoUnit(band, reference)];
      if (priceNanoUsd === undefined) return [];
      return [{ resolution: band, reference_video: reference, usd_per_1m_tokens: toUsd(priceNanoUsd) }];
    }),
  );
  return { model, currency: "USD", rates };
}
