/**
 * `GET /admin/upstreams/{upstream}/health`: how its targets do, by the tries that the calls of the last minutes report,
 * and what is in flight there: before it is taken away, that has to be nothing.
 */
import * as z from "zod/mini";
import { type AccountNumber, asId } from "../../core/ids.ts";
import { lastErrors, type Percentiles, targetReports, worstState } from "../../core/routing/upstream-report.ts";
import { busyAccounts, triesAt } from "../../platform/d1/upstream-tries.ts";
import { findUpstream } from "../../platform/d1/upstreams.ts";
import { type AdminContext, type AdminRoutes, known } from "../kit/context.ts";
import { countInQuery, timeAnswer } from "../kit/fields.ts";
import { answers, ok, route } from "../kit/route.ts";
import { toIso, toIsoOrNull } from "../kit/serializers.ts";
import { someAtOnce } from "../kit/some-at-once.ts";

const MOST_ERRORS = 20;
/** Accounts asked for what they have in flight. */
const MOST_ASKED = 100;
/** A call runs no longer than this, ms: an account without calls since then has none, but perhaps its first. */
const LONGEST_CALL_MS = 60 * 60_000;

const State = z.enum(["idle", "up", "failing", "down"]);
const percentiles = z.object({ p50: z.nullable(z.int()), p95: z.nullable(z.int()), p99: z.nullable(z.int()) });
const HealthAnswer = z
  .object({
    upstream: z.string(),
    state: State.check(
      z.describe("Of its worst target. `down`: the last three tries failed; `idle`: nobody called in these minutes"),
    ),
    targets: z.array(
      z.object({
        model: z.string(),
        state: State,
        tries: z.int(),
        results: z.record(z.string(), z.int()).check(z.describe("How many were `answered`, `status_503`, `lost`, ...")),
        try_ms: percentiles.check(z.describe("Of tries that were answered: until the answer began, or was whole")),
        first_byte_ms: percentiles.check(z.describe("Of the calls that it served")),
        last_answered_at: z.nullable(timeAnswer),
        last_failed_at: z.nullable(timeAnswer),
      }),
    ),
    errors: z
      .array(z.object({ at: timeAnswer, call: z.string(), model: z.string(), result: z.string(), ms: z.int() }))
      .check(z.describe("The newest tries that failed")),
    in_flight: z
      .nullable(
        z.object({
          calls: z.int().check(z.describe("Open calls that are there")),
          young_calls: z.int().check(z.describe("Open calls of the last minute, which may be there or elsewhere")),
          jobs: z.int().check(z.describe("Video jobs that run there")),
          accounts_asked: z.int(),
          complete: z.boolean().check(z.describe("False: there are more accounts than one call asks")),
        }),
      )
      .check(z.describe("Null unless it was asked for")),
  })
  .register(z.globalRegistry, { id: "UpstreamHealth" });

const health = route({
  id: "getUpstreamHealth",
  method: "get",
  path: "/admin/upstreams/{upstream}/health",
  roles: { support: "all", read: "all" },
  summary: "How an upstream does, and what is in flight there",
  query: z.strictObject({
    minutes: countInQuery(60, 5, "How far to look back"),
    in_flight: z.optional(z.enum(["true", "false"])).check(z.describe("`true`: ask accounts what they have there")),
  }),
  answers: { 200: answers("Its targets and last errors", HealthAnswer) },
});

export function addUpstreamHealth(api: AdminRoutes): void {
  api.add(health, async ({ work: context, params: { upstream: id }, query }) => {
    known(await findUpstream(context.books, id), "upstream", id);
    const tries = await triesAt(context.books, id, context.now() - query.minutes * 60_000);
    const reports = targetReports(tries);
    return ok({
      upstream: id,
      state: worstState(reports),
      targets: reports.map((report) => ({
        model: report.model,
        state: report.state,
        tries: report.tries,
        results: { ...report.results },
        try_ms: rounded(report.tryMs),
        first_byte_ms: rounded(report.firstByteMs),
        last_answered_at: toIsoOrNull(report.lastAnsweredMs),
        last_failed_at: toIsoOrNull(report.lastFailedMs),
      })),
      errors: lastErrors(tries, MOST_ERRORS).map(({ atMs, callId, model, result, ms }) => ({
        at: toIso(atMs),
        call: callId,
        model,
        result,
        ms: Math.round(ms),
      })),
      in_flight: query.in_flight === "true" ? await inFlight(context, id) : null,
    });
  });
}

const rounded = ({ p50, p95, p99 }: Percentiles) => ({ p50: whole(p50), p95: whole(p95), p99: whole(p99) });
const whole = (ms: number | null): number | null => (ms === null ? null : Math.round(ms));

async function inFlight(context: AdminContext, upstream: string) {
  const { numbers, all } = await busyAccounts(context.books, context.now() - LONGEST_CALL_MS, MOST_ASKED);
  const sum = { calls: 0, young_calls: 0, jobs: 0 };
  const ask = (number: number) => context.account(asId<AccountNumber>(number)).inFlight(upstream);
  for (const found of await someAtOnce(numbers, ask)) {
    sum.calls += found?.calls ?? 0;
    sum.young_calls += found?.youngCalls ?? 0;
    sum.jobs += found?.jobs ?? 0;
  }
  return { ...sum, accounts_asked: numbers.length, complete: all };
}
