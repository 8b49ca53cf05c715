/** Availability, prices, balance and transactions. */
import { availabilityRow } from "./documents.ts";
import { roomNanoUsd, usd } from "./money.ts";
import type { Region } from "./records.ts";
import { answer, type Route, route } from "./route.ts";
import type { World } from "./world.ts";

const priceRow = (region: Region) => ({
  gpu_type: region.gpuType,
  display_name: region.displayName,
  hourly_rate_usd: usd(region.rateNanoUsd),
  interruptible_hourly_rate_usd: region.interruptibleRateNanoUsd === null ? null : usd(region.interruptibleRateNanoUsd),
  vram_gb: region.vramGb,
});

/** One row for each GPU type, wherever it stands; needs no key. */
export const gpuPrices = (world: World) => [
  ...new Map(world.regions().map((region) => [region.gpuType, priceRow(region)])).values(),
];

export const MARKET: readonly Route[] = [
  route("GET /gpu-instances/availability", {
    serve: ({ world }) =>
      answer(
        200,
        world.regions().map((region) => availabilityRow(world, region)),
      ),
  }),
  route("GET /storage/availability", {
    serve: ({ world }) => {
      const rows = world.regions().map((region) => [
        region.id,
        {
          block_available_gb: world.freeStorageGb(region, "drive"),
          fs_available_gb: world.freeStorageGb(region, "filesystem"),
        },
      ]);
      return answer(200, Object.fromEntries(rows));
    },
  }),
  route("GET /billing/balance", {
    access: "key",
    serve: ({ account }) => {
      const balance = account.billsMonthly ? account.balanceNanoUsd - account.heldNanoUsd : roomNanoUsd(account);
      return answer(200, { balance: usd(balance), account_id: account.number, bills_monthly: account.billsMonthly });
    },
  }),
  route("GET /billing/transactions", {
    access: "key",
    roles: ["owner"],
    serve: ({ world, account }) =>
      answer(
        200,
        world.bookings(account.account).map((row) => ({
          id: row.id,
          type: row.kind,
          amount: usd(Number(row.amount_nano_usd)),
          balance: usd(Number(row.balance_nano_usd)),
          resource_id: row.resource,
          description: row.description,
          created_at: new Date(Number(row.at_ms)).toISOString(),
        })),
      ),
  }),
];
