import { expect, it } from "vitest";
import { DAY_MS } from "../../../src/core/account/budgets.ts";
import { keyWarnMs } from "../../../src/core/account/key-expiry.ts";

it.each([
  ["in a month", 30, 23],
  ["in a week and a moment", 7.01, 0.01],
  ["in a week", 7, 6],
  ["in two days", 2, 1],
  ["in a day", 1, null],
  ["a day ago", -1, null],
])("a key that expires %s is told of a week or a day before", (_, days, warned) => {
  const nowMs = 1_000 * DAY_MS;
  const warnMs = keyWarnMs(nowMs + days * DAY_MS, nowMs);
  expect(warnMs === null ? null : (warnMs - nowMs) / DAY_MS).toEqual(
    warned === null ? null : expect.closeTo(warned, 5),
  );
});

it("one without an end is never told of", () => {
  expect(keyWarnMs(null, 0)).toBeNull();
});
