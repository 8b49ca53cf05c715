import { expect, it } from "vitest";
import type { ComputeRefusal, StateFault } from "../../../src/core/compute/refusals.ts";
import { toHttp } from "../../../src/core/http-refusal.ts";

/** One of each kind: the compiler misses a new one. */
const EACH: { readonly [K in ComputeRefusal["kind"]]: [number, Extract<ComputeRefusal, { kind: K }>] } = {
  not_enabled: [403, { kind: "not_enabled" }],
  no_seat: [403, { kind: "no_seat" }],
  invalid: [400, { kind: "invalid", message: "`hours` must be a whole number from 1 to 72.", param: "hours" }],
  not_found: [404, { kind: "not_found", what: "drive" }],
  gpu_limit: [429, { kind: "gpu_limit", level: "team", allowed: 8, used: 8 }],
  state: [409, { kind: "state", what: "instance", why: "not_running" }],
  duplicate: [409, { kind: "duplicate", what: "filesystem", field: "mount_path" }],
  too_many: [409, { kind: "too_many", what: "drive", most: 8 }],
  no_credit: [402, { kind: "no_credit", neededNanoUsd: 2_500_000_000, availableNanoUsd: 0, heldNanoUsd: 0 }],
  upstream_refused: [409, { kind: "upstream_refused", status: 409, text: "There is no free capacity. Try later." }],
  service: [409, { kind: "service", what: "cluster", why: "no_port" }],
  unanswered: [504, { kind: "unanswered" }],
  may_be_done: [504, { kind: "may_be_done" }],
  unavailable: [503, { kind: "unavailable", retryAfterMs: 1_500 }],
};
const STATES: Readonly<Record<StateFault, true>> = {
  not_running: true,
  pending: true,
  preempted: true,
  rebuilding: true,
  ending: true,
  changing: true,
  not_ended: true,
  attached: true,
  attached_elsewhere: true,
  not_available: true,
  unpaid: true,
  deleted: true,
};

it.each(Object.values(EACH))("%i: the text is a sentence and says what to do", (status, refusal) => {
  const http = toHttp({ kind: "compute", refusal });
  expect(http.status).toBe(status);
  expect(http.message).toMatch(/^[A-Z`].*\.$/);
  expect(http.retryAfterSeconds).toBe(refusal.kind === "unavailable" ? 2 : undefined);
});

it.each(Object.keys(STATES) as StateFault[])("a wrong state is 409 and says what to do: %s", (why) => {
  const http = toHttp({ kind: "compute", refusal: { kind: "state", what: "cluster", why } });
  expect(http.status).toBe(409);
  expect(http.message).toMatch(/^This GPU cluster is .*\. .*\.$|^This GPU cluster has .*\. .*\.$/);
});
