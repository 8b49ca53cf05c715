import { describe, expect, it } from "vitest";
import { disabledBy, FAILING_LIFE_MS, putOffMs, retryAfterMs } from "../../../src/core/alerts/retries.ts";

describe("retries", () => {
  it("come after 5 s, 5 min, 30 min, 2, 5, 10, 14, 20 and 24 h, up to a tenth later, and then no more", () => {
    const waits = Array.from({ length: 10 }, (_, failed) => retryAfterMs(failed + 1, 0));
    const hours = [2, 5, 10, 14, 20, 24].map((count) => count * 3_600_000);
    expect(waits).toEqual([5_000, 300_000, 1_800_000, ...hours, null]);
    expect(retryAfterMs(2, 1)).toBe(330_000);
    expect(putOffMs(0)).toBe(60_000);
  });

  it("end for good with a 410, or after five days of failures", () => {
    expect(disabledBy(410, 0, 0)).toBe("gone");
    expect(disabledBy(500, 0, FAILING_LIFE_MS - 1)).toBeUndefined();
    expect(disabledBy(null, 0, FAILING_LIFE_MS)).toBe("failing");
  });
});
