import fc from "fast-check";
import { expect, it } from "vitest";
import {
  type BudgetUse,
  budgetRefusal,
  budgetRoom,
  budgetWindow,
  DAY_MS,
  dayOf,
} from "../../../src/core/account/budgets.ts";
import { BUDGET_DURATIONS } from "../../../src/core/account/tenant.ts";

const time = fc.integer({ min: Date.UTC(1970, 0, 1), max: Date.UTC(2400, 0, 1) });
const day = (text: string) => dayOf(Date.parse(text));

it("months are those of the calendar", () => {
  fc.assert(
    fc.property(time, (nowMs) => {
      const date = new Date(nowMs);
      expect(budgetWindow("month", nowMs)).toEqual({
        firstDay: dayOf(Date.UTC(date.getUTCFullYear(), date.getUTCMonth(), 1)),
        endsAtMs: Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + 1, 1),
      });
    }),
  );
});

it("weeks begin on Monday and last seven days", () => {
  fc.assert(
    fc.property(time, (nowMs) => {
      const { firstDay, endsAtMs } = budgetWindow("week", nowMs);
      expect(new Date(firstDay * DAY_MS).getUTCDay()).toBe(1);
      expect(endsAtMs).toBe((firstDay + 7) * DAY_MS);
      expect(nowMs >= firstDay * DAY_MS && nowMs < (endsAtMs ?? 0)).toBe(true);
    }),
  );
});

it("windows follow each other without a gap", () => {
  fc.assert(
    fc.property(time, fc.constantFrom(...BUDGET_DURATIONS), (nowMs, duration) => {
      const { firstDay, endsAtMs } = budgetWindow(duration, nowMs);
      if (endsAtMs === null) {
        expect({ duration, firstDay }).toEqual({ duration: "total", firstDay: 0 });
        return;
      }
      expect(budgetWindow(duration, endsAtMs - 1)).toEqual({ firstDay, endsAtMs });
      expect(budgetWindow(duration, endsAtMs).firstDay * DAY_MS).toBe(endsAtMs);
    }),
  );
});

it.each([
  ["day", "2028-02-29T23:59:59.999Z", "2028-02-29", "2028-03-01T00:00:00Z"],
  ["week", "2026-03-01T23:59:59.999Z", "2026-02-23", "2026-03-02T00:00:00Z"],
  ["week", "2026-03-02T00:00:00Z", "2026-03-02", "2026-03-09T00:00:00Z"],
  ["month", "2026-12-31T23:59:59.999Z", "2026-12-01", "2027-01-01T00:00:00Z"],
  ["month", "2100-02-28T12:00:00Z", "2100-02-01", "2100-03-01T00:00:00Z"],
] as const)("the %s of %s", (duration, now, first, end) => {
  expect(budgetWindow(duration, Date.parse(now))).toEqual({ firstDay: day(first), endsAtMs: Date.parse(end) });
});

const budget = (some: Partial<BudgetUse>): BudgetUse => ({
  level: "key",
  budgetNanoUsd: 100,
  duration: "day",
  endsAtMs: 5_000,
  spentNanoUsd: 0,
  heldNanoUsd: 0,
  ...some,
});

it("spent, held and the call itself must fit the budget; what is held counts", () => {
  const use = budget({ spentNanoUsd: 30, heldNanoUsd: 20 });
  expect(budgetRoom([use, budget({ level: "account" })])).toBe(50);
  expect(budgetRefusal([use], 50, 0)).toBeUndefined();
  expect(budgetRefusal([budget({ level: "account" }), use], 51, 1_000)).toEqual({
    kind: "budget_spent",
    level: "key",
    budgetNanoUsd: 100,
    duration: "day",
    retryAfterMs: 4_000,
  });
});

it("no wait helps a call dearer than the whole budget, nor a total that is spent", () => {
  expect(budgetRefusal([budget({})], 101, 0)).toMatchObject({ retryAfterMs: null });
  expect(budgetRefusal([budget({ spentNanoUsd: 1 })], 100, 0)).toMatchObject({ retryAfterMs: 5_000 });
  expect(budgetRefusal([budget({ duration: "total", endsAtMs: null, spentNanoUsd: 100 })], 1, 0)).toMatchObject({
    retryAfterMs: null,
  });
  expect(budgetRoom([])).toBe(Number.POSITIVE_INFINITY);
});
