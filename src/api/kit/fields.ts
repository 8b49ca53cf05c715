/**
 * Fields that many bodies share: names, ids, money, times, limits, pages. Each checks its value, converts it to the
 * core's form, and describes itself in the OpenAPI document.
 */
import * as z from "zod/mini";
import { BUDGET_DURATIONS } from "../../core/account/tenant.ts";
import { parseUsd } from "../../core/pricing/money.ts";
import { UNIT_NAMES, type Unit } from "../../core/pricing/usage.ts";
import { characters, whole } from "../../core/shapes.ts";

export const name = characters(1, 200);

const USD = { description: "USD, at most 9 decimals; as a decimal string or a number", examples: ["12.50", 12.5] };

/** USD in, nano-USD out. */
export const signedUsd = z.pipe(
  z.union([z.string(), z.number()], { error: 'must be an amount in USD such as 12.5 or "12.50"' }).check(z.meta(USD)),
  z.transform((value, context): number => {
    const parsed = parseUsd(value);
    if (parsed.ok) return parsed.nanoUsd;
    context.issues.push({ code: "custom", message: parsed.reason, input: value });
    return z.NEVER;
  }),
);
export const usd = signedUsd.check(z.refine((nanoUsd) => nanoUsd >= 0, "must not be negative"));

/** USD in an answer. */
export const usdAnswer = z.number().check(z.describe("USD"));
export const timeAnswer = z.string().check(z.meta({ format: "date-time" }));

const ISO = /^\d{4}-\d{2}-\d{2}(T\d{2}:\d{2}(:\d{2}(\.\d{1,9})?)?(Z|[+-]\d{2}:\d{2}))?$/;
/** The last instant that ISO text with a four-digit year can express. */
const LATEST_MS = Date.UTC(9999, 11, 31);

/** ISO 8601 or Unix milliseconds in, milliseconds out. A day alone begins at midnight UTC. */
export const time = z.pipe(
  z.union([z.string(), z.number()], { error: "must be a time such as 2026-01-31T12:00:00Z" }).check(
    z.meta({
      description: "ISO 8601 (a day alone begins at midnight UTC) or Unix milliseconds",
      examples: ["2026-01-31T12:00:00Z", 1769860800000],
    }),
  ),
  z.transform((value, context): number => {
    const text = String(value);
    const ms = /^\d{1,15}$/.test(text) ? Number(text) : ISO.test(text) ? Date.parse(text) : Number.NaN;
    if (ms <= LATEST_MS) return ms;
    const message = "must be a time such as 2026-01-31T12:00:00Z, or Unix milliseconds";
    context.issues.push({ code: "custom", message, input: value });
    return z.NEVER;
  }),
);

const AGO = /^-(\d{1,5})([mhd])$/;
const AGO_MS = { m: 60_000, h: 3_600_000, d: 86_400_000 } as const;

/** The same, or so long ago: `-24h`. Days begin at a full hour, since old usage is kept by the hour. */
export const moment = z.pipe(
  z.transform((value) => {
    const [, count, unit] = AGO.exec(typeof value === "string" ? value : "") ?? [];
    if (count === undefined) return value;
    const ms = Date.now() - Number(count) * AGO_MS[unit as keyof typeof AGO_MS];
    return Math.max(0, unit === "d" ? ms - (ms % AGO_MS.h) : ms);
  }),
  time.check(
    z.meta({
      description: "ISO 8601, Unix milliseconds, or how long ago: `-30m`, `-24h`, `-7d`",
      examples: ["2026-01-31T12:00:00Z", "-24h"],
    }),
  ),
);

const limit = (most: number, description: string) => z.nullish(whole(0, most)).check(z.describe(description));

/** Limits, flat as bodies have them. In a body that creates something, null and absent both mean no limit. */
export const limitFields = {
  rpm_limit: limit(1_000_000_000, "Requests in the last 60 s; null: no limit"),
  tpm_limit: limit(1_000_000_000_000, "Tokens in the last 60 s; null: no limit"),
  rpd_limit: limit(1_000_000_000, "Requests in the last 24 h; null: no limit"),
  max_parallel_requests: limit(1_000_000, "Calls at once; null: no limit"),
  free_rpm_limit: limit(
    1_000_000_000,
    "Calls in the last 60 s that cost nothing and reach an upstream; ten times as many that reach none. null: of a key " +
      "120, else no limit",
  ),
  max_gpus: limit(100_000, "GPUs that may run at once; null: no limit"),
  max_budget: z.nullish(usd).check(z.describe("USD in a budget window; null: no limit")),
  budget_duration: z
    .optional(z.enum(BUDGET_DURATIONS))
    .check(z.describe("The UTC calendar window of `max_budget`; `total` (the default) never renews")),
};

export const usedAnswers = {
  spent_usd: usdAnswer.check(z.describe("Charged, ever")),
  last_used_at: z.nullable(timeAnswer).check(z.describe("The last call that was charged")),
};

export const limitAnswers = {
  rpm_limit: z.nullable(z.int()),
  tpm_limit: z.nullable(z.int()),
  rpd_limit: z.nullable(z.int()),
  max_parallel_requests: z.nullable(z.int()),
  free_rpm_limit: z.nullable(z.int()),
  max_gpus: z.nullable(z.int()),
  max_budget: z.nullable(usdAnswer),
  budget_duration: z.enum(BUDGET_DURATIONS),
};

export const ACCOUNT_ID = /^[a-z0-9][a-z0-9_-]{0,62}$/;
/** Ids that D1 assigns; callers may not choose one of this form. */
export const GIVEN_ACCOUNT_ID = /^acct_\d+$/;

/** A model's name as a caller sends it. */
export const MODEL_NAME = /^(?!__proto__$)[^\s\p{C}]{1,200}$/u;
export const modelName = z.string().check(z.regex(MODEL_NAME, "must be 1 to 200 characters without spaces"));

/** Names of upstreams and regions. */
export const slug = z
  .string()
  .check(
    z.regex(/^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$/, "must be at most 63 of letters, digits, `.`, `_`, `-`, no sign first"),
  );

/** A count in a query, 1 or more. */
export const countInQuery = (most: number, usual: number, description: string) =>
  z
    ._default(z.coerce.number<string>().check(z.int(), z.minimum(1), z.maximum(most)), usual)
    .check(z.describe(description));

/** `limit` and `cursor` of every list. Only a cursor's form is checked: an invented one reads an odd page. */
const pageQuery = (cursor: RegExp) => ({
  limit: countInQuery(1000, 100, "Rows in an answer"),
  cursor: z
    .optional(z.string().check(z.regex(cursor, "must be a `next_cursor` of this list")))
    .check(z.describe("`next_cursor` of the page before")),
});
export const numberedPage = pageQuery(/^\d{1,15}$/);
export const namedPage = pageQuery(/^[^\p{Cc}]{1,400}$/u);

export const pageRequest = (query: { limit: number; cursor?: string | undefined }) => ({
  limit: query.limit,
  cursor: query.cursor ?? null,
});

/** An object with each unit as an optional field. */
export const byUnit = <Schema extends z.core.$ZodType>(schema: Schema) =>
  Object.fromEntries(UNIT_NAMES.map((unit) => [unit, z.optional(schema)])) as Record<Unit, z.ZodMiniOptional<Schema>>;

export const allowLoss = z
  .optional(z.boolean())
  .check(z.describe("True: may make an alias cost more than it is sold for; else 409 with the figures"));

/** One page of a list. */
export const listOf = <Row extends z.core.$ZodType>(row: Row) =>
  z.object({
    data: z.array(row),
    next_cursor: z.nullable(z.string()).check(z.describe("Give it as `cursor` to go on; null at the end")),
  });

/** The answer to every DELETE. */
export const Deleted = z
  .object({ id: z.string(), deleted: z.literal(true) })
  .register(z.globalRegistry, { id: "Deleted" });
export const deleted = (id: string) => ({ id, deleted: true as const });
