/** Random histories of storage on a clock of the test's own, its objects evicted between all steps. */
import { env } from "cloudflare:workers";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { settled } from "../support/worker/operator.ts";
import { StorageHistory } from "../support/worker/storage-history.ts";

/** How many, of how many acts each, and the first's number: `STORAGE_HISTORIES="10 200"`. */
const { STORAGE_HISTORIES } = env as { STORAGE_HISTORIES?: string };
const [seeds = 1, acts = 14, first = 1] = (STORAGE_HISTORIES ?? "").split(" ").filter(Boolean).map(Number);

/** The day of money is ten minutes: fourteen acts take some four of them. */
const TIMES = { COMPUTE_HOUR_MS: "600000", COMPUTE_DAY_MS: "600000" };
const trueTimes = { COMPUTE_HOUR_MS: env.COMPUTE_HOUR_MS, COMPUTE_DAY_MS: env.COMPUTE_DAY_MS };

beforeEach(() => {
  Object.assign(env, TIMES);
  vi.spyOn(console, "log").mockImplementation(() => undefined);
});
afterEach(async () => {
  await settled();
  vi.restoreAllMocks();
  vi.useRealTimers();
  Object.assign(env, trueTimes);
});

it.each(Array.from({ length: seeds }, (_, index) => first + index))(
  "history %i: each day that began before a deletion is charged once, or lost after the grace, whatever fails",
  async (seed) => {
    const history = new StorageHistory(seed);
    await history.begin();
    for (let act = 0; act < acts; act++) await history.act();
    for (const renter of history.fleet.renters) {
      expect((await history.fleet.accountStub(renter).audit())?.problems, history.story.join("\n")).toEqual([]);
    }
    await history.end();
    await history.judge();
  },
  600_000,
);
