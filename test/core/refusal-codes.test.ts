/** The table of errors in docs/tenant-api.md has every status and code that a refusal answers. */
import { readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { toHttp } from "../../src/core/http-refusal.ts";
import type { Refusal } from "../../src/core/refusal.ts";
import { isVideoCode, VIDEO_CODES } from "../../src/core/video/codes.ts";

/** One of each kind: a new one has to be added here, since the type asks for it. */
const ONE_OF_EACH: { readonly [K in Refusal["kind"]]: Extract<Refusal, { kind: K }> } = {
  no_key: { kind: "no_key" },
  bad_key: { kind: "bad_key", why: "unknown" },
  scope_missing: { kind: "scope_missing", scope: "inference" },
  not_your_instance: { kind: "not_your_instance" },
  invalid_request: { kind: "invalid_request", message: "m", param: null },
  too_large: { kind: "too_large", limitBytes: 1 },
  wrong_content_type: { kind: "wrong_content_type", expected: "application/json" },
  unknown_route: { kind: "unknown_route", method: "GET", path: "/", served: [] },
  model_not_found: { kind: "model_not_found", model: "m" },
  model_not_priced: { kind: "model_not_priced", model: "m" },
  model_not_allowed: { kind: "model_not_allowed", model: "m" },
  id_not_found: { kind: "id_not_found", what: "response" },
  rate_limit: { kind: "rate_limit", level: "key", limit: "rpm_limit", allowed: 1, retryAfterMs: 1 },
  budget_spent: { kind: "budget_spent", level: "key", budgetNanoUsd: 1, duration: "day", retryAfterMs: 1 },
  no_credit: { kind: "no_credit", neededNanoUsd: 1, availableNanoUsd: 0, heldNanoUsd: 0 },
  busy: { kind: "busy", retryAfterMs: 1 },
  unpaid_work: { kind: "unpaid_work", retryAfterMs: 1 },
  admission_unavailable: { kind: "admission_unavailable" },
  no_healthy_upstream: { kind: "no_healthy_upstream", retryAfterMs: null },
  upstream_refused: { kind: "upstream_refused", status: 400, message: "m", param: null, code: null },
  upstream_error: { kind: "upstream_error", repeatable: false },
  upstream_timeout: { kind: "upstream_timeout", repeatable: false },
  too_many_submissions: { kind: "too_many_submissions", allowed: 10, spanMs: 1, retryAfterMs: 1 },
  video_refused: {
    kind: "video_refused",
    status: 429,
    code: "capacity_exceeded",
    message: "m",
    retryable: true,
    retryAfterMs: null,
  },
  outcome_unknown: { kind: "outcome_unknown" },
  idempotency: { kind: "idempotency", why: "running" },
  internal: { kind: "internal" },
};

const TEXT = readFileSync(new URL("../../docs/tenant-api.md", import.meta.url), "utf8");
const ERRORS = TEXT.slice(TEXT.indexOf("\n## Errors"), TEXT.indexOf("\n## Limits"));
const ROWS = [...ERRORS.matchAll(/^\| (\d{3}) +\| `(\w+)`/gm)].map(([, status, code]) => `${status} ${code}`);

it("every refusal's status and code stand in the table of errors", () => {
  const answered = Object.values(ONE_OF_EACH)
    .filter(({ kind }) => kind !== "video_refused")
    .map((refusal) => toHttp(refusal))
    .map(({ status, code }) => `${status} ${code}`);
  expect(answered.filter((pair) => !ROWS.includes(pair))).toEqual([]);
});

it("the table has no row twice, and none that nothing answers but the code of a model's kind", () => {
  const answered = Object.values(ONE_OF_EACH).map((refusal) => toHttp(refusal));
  const pairs = new Set(answered.map(({ status, code }) => `${status} ${code}`));
  expect(ROWS.filter((row) => !pairs.has(row))).toEqual(["400 model_not_supported"]);
  expect(new Set(ROWS).size).toBe(ROWS.length);
});

it("the codes of video stand below it", () => {
  for (const code of Object.keys(VIDEO_CODES)) expect(ERRORS).toContain(`\`${code}\``);
  expect(isVideoCode("content_filtered.image")).toBe(true);
  expect(ERRORS).toContain("`content_filtered.*`");
});
