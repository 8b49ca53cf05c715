/** The table of errors in docs/tenant-api.md has every status and code that a refusal answers. */
import { readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { toHttp } from "../../src/core/http-refusal.ts";
import type { Refusal } from "../../src/core/refusal.ts";
import { isVideoCode, VIDEO_CODES } from "../../src/core/video/codes.ts";
import { REFUSALS } from "../support/refusals.ts";

const ONE_OF_EACH: readonly Refusal[] = [...Object.values(REFUSALS), { kind: "idempotency", why: "running" }];

const TEXT = readFileSync(new URL("../../docs/tenant-api.md", import.meta.url), "utf8");
const ERRORS = TEXT.slice(TEXT.indexOf("\n## Errors"), TEXT.indexOf("\n## Limits"));
const ROWS = [...ERRORS.matchAll(/^\| (\d{3}) +\| `(\w+)`/gm)].map(([, status, code]) => `${status} ${code}`);

it("every refusal's status and code stand in the table of errors", () => {
  const answered = ONE_OF_EACH.filter(({ kind }) => kind !== "video_refused")
    .map((refusal) => toHttp(refusal))
    .map(({ status, code }) => `${status} ${code}`);
  expect(answered.filter((pair) => !ROWS.includes(pair))).toEqual([]);
});

it("the table has no row twice, and none that nothing answers but the code of a model's kind", () => {
  const answered = ONE_OF_EACH.map((refusal) => toHttp(refusal));
  const pairs = new Set(answered.map(({ status, code }) => `${status} ${code}`));
  expect(ROWS.filter((row) => !pairs.has(row))).toEqual(["400 model_not_supported"]);
  expect(new Set(ROWS).size).toBe(ROWS.length);
});

it("the codes of video stand below it", () => {
  for (const code of Object.keys(VIDEO_CODES)) expect(ERRORS).toContain(`\`${code}\``);
  expect(isVideoCode("content_filtered.image")).toBe(true);
  expect(ERRORS).toContain("`content_filtered.*`");
});
