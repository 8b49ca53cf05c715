import { expect, it } from "vitest";
import { LongWork } from "../../../src/core/uploads/long-work.ts";

it("pauses as long as the turns of all others take, and not at all when it is alone", () => {
  const works = new LongWork();
  const [a, b, c] = [{}, {}, {}] as const;
  expect([a, b, c].map((work) => works.pauseMs(work, 0))).toEqual([0, 4, 8]);
  works.done(b);
  expect([works.pauseMs(a, 10), works.pauseMs(c, 10)]).toEqual([4, 4]);
  works.done(c);
  expect(works.pauseMs(a, 20)).toBe(0);
});

it("forgets who says nothing for 5 s, also when the clock was set back", () => {
  const works = new LongWork();
  for (let at = 0; at < 100; at++) works.pauseMs({}, 1_000);
  expect(works.pauseMs({}, 6_001)).toBe(0);
  expect(works.pauseMs({}, 0)).toBe(0);
});
