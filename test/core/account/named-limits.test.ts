import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { ANY_KEY, roleRefusal, scopeRefusal } from "../../../src/core/account/call-access.ts";
import { namedLimitRefusal } from "../../../src/core/account/named-limits.ts";
import { ROLES } from "../../../src/core/account/tenant.ts";
import { videoGenerations } from "../../../src/core/endpoints/inference/video.ts";
import type { NamedLimit } from "../../../src/core/refusal.ts";

const SUBMISSIONS = videoGenerations.limits[0] as NamedLimit;

describe("a limit that a row names", () => {
  it("of video submissions: the 11th has room when the first of ten is a minute old", () => {
    const tenAt = (atMs: number) => Array.from({ length: 10 }, (_, index) => atMs + index);
    expect(namedLimitRefusal(SUBMISSIONS, tenAt(0).slice(1), 100)).toBeUndefined();
    const refusal = { kind: "named_limit", limit: { name: "submissions", per: "account" }, retryAfterMs: 1 };
    expect(namedLimitRefusal(SUBMISSIONS, tenAt(0), 59_999)).toMatchObject(refusal);
    expect(namedLimitRefusal(SUBMISSIONS, tenAt(0), 60_000)).toBeUndefined();
  });

  it("never admits more than `count` in any window, and refuses no longer than it must", () => {
    const shape = fc.record({ count: fc.integer({ min: 1, max: 12 }), windowMs: fc.integer({ min: 1, max: 90_000 }) });
    fc.assert(
      fc.property(shape, fc.array(fc.nat(200_000), { maxLength: 40 }), (shape, tries) => {
        const limit = { ...SUBMISSIONS, ...shape };
        const admitted: number[] = [];
        for (const atMs of tries.sort((a, b) => a - b)) {
          const refusal = namedLimitRefusal(limit, admitted.toReversed(), atMs);
          const inWindow = admitted.filter((other) => other > atMs - limit.windowMs).length;
          expect(refusal === undefined).toBe(inWindow < limit.count);
          if (!refusal) admitted.push(atMs);
          else if (refusal.kind === "named_limit") {
            expect(namedLimitRefusal(limit, admitted, atMs + refusal.retryAfterMs)).toBeUndefined();
            expect(namedLimitRefusal(limit, admitted, atMs + refusal.retryAfterMs - 1)).toBeDefined();
          }
        }
      }),
    );
  });
});

describe("what a row asks of a key", () => {
  it("the scope: a key of another API is refused, and where none is named every key passes", () => {
    const access = { scope: "compute", role: "member" } as const;
    expect(scopeRefusal({ scopes: ["inference"] }, access)).toEqual({ kind: "scope_missing", scope: "compute" });
    expect(scopeRefusal({ scopes: ["inference", "compute"] }, access)).toBeUndefined();
    expect(scopeRefusal({ scopes: [] }, ANY_KEY)).toBeUndefined();
  });

  it("the role, or a higher one", () => {
    const passes = (least: (typeof ROLES)[number]) =>
      ROLES.filter((role) => !roleRefusal({ role }, { scope: null, role: least }));
    expect(passes("owner")).toEqual(["owner"]);
    expect(passes("admin")).toEqual(["owner", "admin"]);
    expect(passes("member")).toEqual(["owner", "admin", "member"]);
    expect(roleRefusal({ role: "member" }, { scope: null, role: "admin" })).toEqual({
      kind: "role_too_low",
      role: "admin",
    });
  });
});
