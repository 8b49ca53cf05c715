/** What the operator sees of compute: resources of an account, and what lists of an upstream showed. */
import * as z from "zod/mini";
import type { KnownTag } from "../../core/compute/calls.ts";
import type { BrokerView, Seen } from "../../core/compute/control.ts";
import { type InferenceRow, isUnpaid } from "../../core/compute/inference.ts";
import { shownStatus } from "../../core/compute/remains.ts";
import { clusterStatus, instanceStatus, isMachine, type RentedRow } from "../../core/compute/resource.ts";
import { storageStatus } from "../../core/compute/storage-life.ts";
import { parseTag } from "../../core/compute/tag.ts";
import { asObject } from "../../core/formats/json-fields.ts";
import { toUsd } from "../../core/pricing/money.ts";
import type { AdminContext } from "../kit/context.ts";
import { timeAnswer, usdAnswer } from "../kit/fields.ts";
import { toIso, toIsoOrNull } from "../kit/serializers.ts";
import { someAtOnce } from "../kit/some-at-once.ts";

export const ResourceAnswer = z
  .object({
    id: z.int(),
    kind: z
      .enum(["instance", "cluster", "drive", "filesystem", "inference"])
      .check(z.describe("`inference`: an instance by the hour")),
    name: z.string(),
    status: z.string(),
    upstream: z.string(),
    upstream_id: z.nullable(z.int()),
    tag: z.string().check(z.describe("Its name upstream")),
    key: z.string(),
    gpu_type: z.nullable(z.string()),
    gpus: z.int(),
    size_gb: z.nullable(z.int()).check(z.describe("Of a drive or filesystem")),
    hourly_price_usd: z.nullable(usdAnswer),
    hourly_cost_usd: z.nullable(usdAnswer),
    daily_price_usd: z.nullable(usdAnswer).check(z.describe("Of a drive or filesystem")),
    daily_cost_usd: z.nullable(usdAnswer),
    unpaid_days: z.nullable(z.int()).check(z.describe("Of a drive or filesystem: begun and not paid yet")),
    held_usd: usdAnswer,
    paid_until: z.nullable(timeAnswer),
    end_wanted: z.nullable(z.string()).check(z.describe("Why its end is wanted; null: it is not")),
    created_at: timeAnswer,
  })
  .register(z.globalRegistry, { id: "ComputeResource" });

export function serializeResource(upstream: string, row: RentedRow, mounted: boolean): z.input<typeof ResourceAnswer> {
  const shared = {
    id: row.id,
    kind: row.kind,
    upstream,
    upstream_id: row.upstreamId,
    tag: row.tag,
    key: row.by.keyId,
    held_usd: toUsd(row.rental.heldNanoUsd ?? 0),
    end_wanted: row.wants.end?.reason ?? null,
    created_at: toIso(row.createdAtMs),
  };
  const [price, cost] = [toUsd(row.rental.rate.priceNanoUsd), toUsd(row.rental.rate.costNanoUsd)];
  const none = { hourly_price_usd: null, hourly_cost_usd: null, daily_price_usd: null, daily_cost_usd: null };
  if (!isMachine(row)) {
    return {
      ...shared,
      ...none,
      name: row.asked.name,
      status: storageStatus(row, mounted),
      gpu_type: null,
      gpus: 0,
      size_gb: row.asked.sizeGb,
      daily_price_usd: price,
      daily_cost_usd: cost,
      unpaid_days: row.rental.unpaid.length,
      paid_until: null,
    };
  }
  return {
    ...shared,
    ...none,
    name: row.launched.name,
    status: row.kind === "instance" ? instanceStatus(row) : clusterStatus(row),
    gpu_type: row.launched.gpuType,
    gpus: row.launched.gpuCount * row.wants.replicas,
    size_gb: null,
    hourly_price_usd: price,
    hourly_cost_usd: cost,
    unpaid_days: null,
    paid_until: row.rental.phase.at === "running" ? toIso(row.rental.phase.paidUntilMs) : null,
  };
}

/** An inference instance by the hour: its rental's id, and the instance's as the one upstream. */
export const serializeInference = (upstream: string, row: InferenceRow): z.input<typeof ResourceAnswer> => {
  const { rate, phase, heldNanoUsd } = row.rental;
  const gpus = row.hourly.gpuCount * row.hourly.replicas;
  const hourly = (nanoUsd: number) => toUsd(Math.round((nanoUsd * gpus) / rate.size));
  return {
    id: row.id,
    kind: row.kind,
    name: `instance ${row.instanceId}`,
    status: isUnpaid(row) ? "unpaid" : "running",
    upstream,
    upstream_id: row.instanceId,
    tag: row.tag,
    key: row.by.keyId,
    gpu_type: row.hourly.gpuType,
    gpus,
    size_gb: null,
    hourly_price_usd: hourly(rate.priceNanoUsd),
    hourly_cost_usd: hourly(rate.costNanoUsd),
    daily_price_usd: null,
    daily_cost_usd: null,
    unpaid_days: null,
    held_usd: toUsd(heldNanoUsd ?? 0),
    paid_until: phase.at === "running" ? toIso(phase.paidUntilMs) : null,
    end_wanted: null,
    created_at: toIso(row.createdAtMs),
  };
};

const MARKS = ["live", "ended", "unknown", "foreign"] as const;
const SeenAnswer = z
  .object({
    kind: z.string(),
    upstream_id: z.int(),
    name: z.string(),
    mark: z
      .enum(MARKS)
      .check(
        z.describe(
          "`live`, `ended`: a row of ours has it; `unknown`: none has, by our tag or without one; `foreign`: another gateway's tag",
        ),
      ),
    account: z.nullable(z.int()).check(z.describe("The account's number by its tag; null: not ours")),
    id: z.nullable(z.int()).check(z.describe("The id that the account knows it by")),
    status: z.nullable(z.string()).check(z.describe("As upstream shows it")),
    gpus: z.nullable(z.int()),
    hourly_cost_usd: z.nullable(usdAnswer),
    hourly_price_usd: z.nullable(usdAnswer),
  })
  .register(z.globalRegistry, { id: "ComputeSeen" });

export const UpstreamComputeAnswer = z
  .object({
    upstream: z.string(),
    balance_usd: z.nullable(usdAnswer).check(z.describe("The upstream account's own; null: not read yet")),
    balance_at: z.nullable(timeAnswer),
    burn_usd_per_hour: usdAnswer,
    runway_hours: z.nullable(z.number()).check(z.describe("Until that balance is used up; null: nothing runs")),
    calls_last_minute: z.object({ stop: z.int(), create: z.int(), call: z.int(), list: z.int() }),
    paused_until: z.nullable(timeAnswer),
    seen: z.array(SeenAnswer).check(z.describe("What the last lists showed")),
  })
  .register(z.globalRegistry, { id: "UpstreamCompute" });

type Mark = (typeof MARKS)[number];

/** A thing upstream with the row of ours that has it. */
export interface Marked {
  readonly seen: Seen;
  readonly mark: Mark;
  readonly known: KnownTag | null;
}

/** Asks the accounts in the tags which of these are theirs. */
export async function marked(context: AdminContext, upstream: string, seen: readonly Seen[]): Promise<Marked[]> {
  const known = new Map<string, KnownTag>();
  const accounts = [...new Set(seen.flatMap(({ account }) => account ?? []))];
  const answers = await someAtOnce(accounts, (number) => {
    const tags = seen.filter(({ account }) => account === number).map(({ tag }) => tag);
    return context.account(number).knownTags([...new Set(tags)]);
  });
  for (const found of answers.flatMap((tags) => tags ?? [])) {
    if (found.upstream === upstream) known.set(found.tag, found);
  }
  return seen.map((one) => {
    const found = known.get(one.tag) ?? null;
    if (found) return { seen: one, mark: found.live ? "live" : "ended", known: found };
    return { seen: one, mark: one.account === null && parseTag(one.tag) ? "foreign" : "unknown", known: null };
  });
}

function serializeSeen({ seen, mark, known }: Marked): z.input<typeof SeenAnswer> {
  const { hourly_rate_usd, gpu_count, replicas } = asObject(JSON.parse(seen.document)) ?? {};
  const shownGpus = typeof gpu_count === "number" ? gpu_count * (typeof replicas === "number" ? replicas : 1) : null;
  const price = known?.hourlyPriceNanoUsd ?? null;
  return {
    kind: seen.kind,
    upstream_id: seen.upstreamId,
    name: seen.tag,
    mark,
    account: seen.account,
    id: known?.id ?? null,
    status: shownStatus(seen),
    gpus: Number.isSafeInteger(shownGpus) ? shownGpus : null,
    hourly_cost_usd: typeof hourly_rate_usd === "number" ? hourly_rate_usd : null,
    hourly_price_usd: price === null ? null : toUsd(price),
  };
}

export const serializeView = (
  upstream: string,
  view: BrokerView,
  seen: readonly Marked[],
): z.input<typeof UpstreamComputeAnswer> => ({
  upstream,
  balance_usd: view.balanceNanoUsd === null ? null : toUsd(view.balanceNanoUsd),
  balance_at: toIsoOrNull(view.balanceAtMs),
  burn_usd_per_hour: toUsd(view.burnNanoUsdPerHour),
  runway_hours:
    view.balanceNanoUsd === null || view.burnNanoUsdPerHour === 0
      ? null
      : Math.max(0, view.balanceNanoUsd / view.burnNanoUsdPerHour),
  calls_last_minute: view.calls,
  paused_until: toIsoOrNull(view.pausedUntilMs),
  seen: seen.map(serializeSeen),
});
