/** When a client may come back, and whether its SDK should by itself. */
import { describe, expect, it } from "vitest";
import { toHttp } from "../../src/core/http-refusal.ts";

const limited = (retryAfterMs: number | null) =>
  toHttp({ kind: "rate_limit", level: "key", limit: "rpm_limit", allowed: 1, retryAfterMs });
const unserved = (retryAfterMs: number | null) => toHttp({ kind: "no_healthy_upstream", retryAfterMs });

describe("retry-after of a limit", () => {
  it.each([
    [1, 1, true],
    [1_001, 2, true],
    [60_000, 60, true],
    // A used-up limit of a minute: SDKs take no notice of more than 60 s.
    [61_000, 60, true],
    [65_000, 60, true],
    [65_001, 60, false],
    [86_400_000, 60, false],
  ])("after %i ms is %i s, and repeated: %s", (ms, seconds, repeated) => {
    expect(limited(ms)).toMatchObject({ retryAfterSeconds: seconds, shouldRetry: repeated });
    expect(limited(ms)).not.toHaveProperty("retryAfterMs");
  });

  it("is none where no time will do", () => {
    expect(limited(null)).toMatchObject({ shouldRetry: false });
    expect(limited(null)).not.toHaveProperty("retryAfterSeconds");
  });
});

describe("retry-after where no target can serve", () => {
  it.each([
    [1_000, 1],
    [1_499, 1],
    [1_500, 2],
    [1_999, 2],
  ])("of %i ms differs in both headers, so that clients do not come back together", (ms, seconds) => {
    expect(unserved(ms)).toMatchObject({ retryAfterMs: ms, retryAfterSeconds: seconds, shouldRetry: true });
  });

  it("is what a busy target named", () => {
    expect(unserved(30_000)).toMatchObject({ retryAfterSeconds: 30, shouldRetry: true });
    expect(unserved(3_600_000)).toMatchObject({ retryAfterSeconds: 60, shouldRetry: false });
    expect(unserved(null)).toMatchObject({ shouldRetry: true });
  });
});
