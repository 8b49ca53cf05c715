import { describe, expect, it } from "vitest";
import {
  LONGEST_UPLOAD_MS,
  MIN_BYTES_PER_S,
  PACE_WINDOW_MS,
  UploadPace,
} from "../../../src/core/uploads/upload-pace.ts";

/** When a body of so many bytes a second is let go; null: not within eleven minutes. */
function letGoAtMs(bytesAt: (second: number) => number, startMs = 5_000_000): number | null {
  const pace = new UploadPace(startMs);
  for (let second = 1; second <= 660; second++) {
    pace.arrived(bytesAt(second));
    if (pace.isTooSlow(startMs + second * 1_000)) return second * 1_000;
  }
  return null;
}

describe("the pace of a body", () => {
  it("is judged over windows: a burst before does not pay for a drip after", () => {
    expect(letGoAtMs(() => MIN_BYTES_PER_S - 1)).toBe(PACE_WINDOW_MS);
    expect(letGoAtMs((second) => (second === 1 ? 19_000_000 : 1))).toBe(2 * PACE_WINDOW_MS);
    expect(letGoAtMs(() => 0)).toBe(PACE_WINDOW_MS);
  });

  it("may be uneven within a window, and is never above what ten minutes allow", () => {
    expect(letGoAtMs((second) => (second % 10 === 5 ? 10 * MIN_BYTES_PER_S : 0))).toBe(LONGEST_UPLOAD_MS);
    expect(letGoAtMs(() => MIN_BYTES_PER_S)).toBe(LONGEST_UPLOAD_MS);
  });

  it("is judged on where the clock was set back in the middle", () => {
    const pace = new UploadPace(3_600_000);
    expect(pace.isTooSlow(3_609_000)).toBe(false);
    expect([pace.isTooSlow(0), pace.isTooSlow(9_000), pace.isTooSlow(10_000)]).toEqual([false, false, true]);
  });
});
