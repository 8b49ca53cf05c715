/**
 * What a launch would hold, without launching. It is judged by what launches are judged by, in the account's prices.
 * With `replicas` it is a cluster's launch, else an instance's.
 */
import type * as z from "zod/mini";
import type { Refused } from "../outcome.ts";
import { toUsd } from "../pricing/money.ts";
import { newStorageDay } from "./attachments.ts";
import { NO_DRIVES, type QuoteBody } from "./bodies.ts";
import { type Facts, invalid } from "./facts.ts";
import { type Offers, offered } from "./launches.ts";
import { launchHold } from "./machine-rental.ts";

export interface Quote {
  readonly region_id: string;
  readonly gpu_type: string;
  readonly gpu_count: number;
  readonly replicas: number;
  readonly interruptible: boolean;
  readonly estimated_duration_hours: number | null;
  /** Of the whole instance or cluster. */
  readonly hourly_rate_usd: number;
  /** Of the storage that the launch makes, a day. */
  readonly storage_daily_usd: number;
  /** What the launch holds: an hour, or the whole run, and the first day of new storage. */
  readonly held_amount: number;
}

export function quoteOf(
  offers: Offers & Pick<Facts, "shared" | "storagePrices">,
  body: z.output<typeof QuoteBody>,
): Quote | Refused {
  const wrong = body.replicas === undefined ? undefined : clusterFault(body);
  if (wrong) return wrong;
  const replicas = body.replicas ?? 1;
  const offer = offered(
    offers,
    { ...body, gpu_type: body.replicas === undefined ? body.gpu_type : undefined },
    replicas,
  );
  if ("ok" in offer) return offer;
  const storage = newStorageDay(offers, body);
  if ("ok" in storage) return storage;
  const hours = body.estimated_duration_hours || null;
  return {
    region_id: offer.region.id,
    gpu_type: offer.region.gpuType,
    gpu_count: body.gpu_count,
    replicas,
    interruptible: body.interruptible ?? false,
    estimated_duration_hours: hours,
    hourly_rate_usd: toUsd(offer.rate.priceNanoUsd),
    storage_daily_usd: toUsd(storage.holdNanoUsd),
    held_amount: toUsd(launchHold(offer.rate, hours) + storage.holdNanoUsd),
  };
}

/** A cluster has 2 replicas or more, of 1, 2, 4 or 8 GPUs, and always an end. */
function clusterFault(body: z.output<typeof QuoteBody>): Refused | undefined {
  if (body.new_cloud_drives?.length) return invalid("new_cloud_drives", NO_DRIVES);
  if (![1, 2, 4, 8].includes(body.gpu_count)) return invalid("gpu_count", "of a cluster must be 1, 2, 4 or 8");
  if (body.estimated_duration_hours) return undefined;
  return invalid("estimated_duration_hours", "of a cluster must be 1 to 72: a cluster always has an end");
}
