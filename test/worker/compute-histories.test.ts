/** Random histories of rented machines on a clock of the test's own: what is charged is what ran. */
import { env } from "cloudflare:workers";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { settled } from "../support/worker/operator.ts";
import { RentalHistory } from "../support/worker/rental-history.ts";

/**
 * How many, of how many acts each, and the first's number: `RENTAL_HISTORIES="10 300"`, each of which takes a minute.
 */
const { RENTAL_HISTORIES } = env as { RENTAL_HISTORIES?: string };
const [seeds = 2, acts = 14, first = 1] = (RENTAL_HISTORIES ?? "").split(" ").filter(Boolean).map(Number);

/** The hour of money is ten minutes, so that a history sees many of them. */
const TIMES = { COMPUTE_HOUR_MS: "600000", COMPUTE_DAY_MS: "7200000" };
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
  "history %i: every machine is charged what ran, to the nano-USD, whatever fails",
  async (seed) => {
    const history = new RentalHistory(seed);
    await history.begin();
    for (let act = 0; act < acts; act++) {
      await history.act();
      if (act % 30 === 29) {
        for (const renter of history.fleet.renters) {
          expect((await history.fleet.accountStub(renter).audit())?.problems, history.story.join("\n")).toEqual([]);
        }
      }
    }
    await history.end();
    await history.judge();
  },
  600_000,
);
