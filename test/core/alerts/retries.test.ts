import { describe, expect, it } from "vitest";
import {
  disabledBy,
  FAILING_LIFE_MS,
  FAILING_PAUSE_MS,
  pauseMs,
  putOffMs,
  retryAfterMs,
} from "../../../src/core/alerts/retries.ts";

describe("retries", () => {
  it("come after 5 s, 5 min, 30 min, 2, 5, 10, 14, 20 and 24 h, up to a tenth later, and then no more", () => {
    const waits = Array.from({ length: 10 }, (_, failed) => retryAfterMs(failed + 1, 0));
    const hours = [2, 5, 10, 14, 20, 24].map((count) => count * 3_600_000);
    expect(waits).toEqual([5_000, 300_000, 1_800_000, ...hours, null]);
    expect(retryAfterMs(2, 1)).toBe(330_000);
  });

  it("leave a receiver that fails or is slow alone for a while, and what waits there comes back as it can be served", () => {
    expect([pauseMs(false, 3_000), pauseMs(true, 3_000)]).toEqual([0, FAILING_PAUSE_MS]);
    expect([pauseMs(false, 3_100), pauseMs(true, 10_000)]).toEqual([31_000, 100_000]);
    expect([0, 90_000, 9e9].map((backlogMs) => putOffMs(backlogMs, 0))).toEqual([60_000, 90_000, 3_600_000]);
    expect(putOffMs(0, 1)).toBe(120_000);
  });

  it("end for good with a 410, or after five days of failures", () => {
    expect(disabledBy(410, 0, 0)).toBe("gone");
    expect(disabledBy(500, 0, FAILING_LIFE_MS - 1)).toBeUndefined();
    expect(disabledBy(null, 0, FAILING_LIFE_MS)).toBe("failing");
  });
});
