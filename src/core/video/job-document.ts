/**
 * A polled job as the upstream describes it, and as the tenant sees it (contract, "Video job").
 *
 * The tenant's document is rebuilt from the fields that the contract names: `billing` in the tenant's own prices, the
 * error's message scrubbed, the code one of the contract's. Other fields pass if they are plain values and do not
 * concern money or accounts, because the contract does not name the field with the aspect ratio.
 */
import { asObject } from "../formats/json-fields.ts";
import { toUsd } from "../pricing/money.ts";
import { isCount } from "../pricing/usage.ts";
import { isRetryable, isVideoCode } from "./codes.ts";
import { MOST_VIDEO_TOKENS } from "./quote.ts";
import { tierOf, type VideoUnit } from "./rates.ts";

/** What one poll's answer says about a job. */
export type JobNews =
  | { readonly kind: "running"; readonly fields: JobFields }
  /** `tokens`: null if the figure is missing or absurd. An explicit zero stays zero. */
  | { readonly kind: "completed"; readonly tokens: number | null; readonly fields: JobFields }
  | { readonly kind: "failed"; readonly code: string; readonly fields: JobFields };
type JobFields = Readonly<Record<string, unknown>>;

/** Undefined if the answer is not a job. An unknown status counts as still in progress. */
export function readJob(answer: unknown): JobNews | undefined {
  const fields = asObject(answer);
  if (!fields || typeof fields.status !== "string") return undefined;
  if (fields.status === "completed") return { kind: "completed", tokens: tokensOf(fields), fields };
  if (fields.status !== "failed") return { kind: "running", fields };
  return { kind: "failed", code: isVideoCode(fields.code) ? fields.code : "internal_error", fields };
}

function tokensOf(fields: JobFields): number | null {
  const tokens = asObject(fields.billing)?.billable_tokens;
  return isCount(tokens) && tokens <= MOST_VIDEO_TOKENS ? tokens : null;
}

/** The same, with the error's message scrubbed for tenants. */
export function scrubJob(news: JobNews, scrub: (text: string) => string): JobNews {
  const { error } = news.fields;
  return typeof error === "string" ? { ...news, fields: { ...news.fields, error: scrub(error) } } : news;
}

/** What the tenant was charged for a finished job. */
export interface Charged {
  readonly chargedNanoUsd: number;
  readonly tokens: number;
  readonly unit: VideoUnit;
}

/**
 * The tenant's document. `id`: the id that the tenant uses. `charged`: null until the job is charged, or if it failed.
 * The error's message must be scrubbed already.
 */
export function showJob(news: JobNews, id: string, charged: Charged | null): Record<string, unknown> {
  const { fields } = news;
  const shown: Record<string, unknown> = { id, status: fields.status, ...otherFields(fields) };
  for (const name of ["model", "created_at", "completed_at"]) {
    if (typeof fields[name] === "string") shown[name] = fields[name];
  }
  if (news.kind === "failed") {
    const retryable = isRetryable(news.code, fields.retryable);
    const error = typeof fields.error === "string" && fields.error ? fields.error : "The video was not made.";
    return { ...shown, error, code: news.code, retryable };
  }
  if (news.kind === "running") return shown;
  for (const name of ["width", "height"]) if (isCount(fields[name])) shown[name] = fields[name];
  if (typeof fields.url === "string") shown.url = fields.url;
  return { ...shown, ...(charged && { billing: showBilling(asObject(fields.billing) ?? {}, charged) }) };
}

function showBilling(billing: JobFields, { chargedNanoUsd, tokens, unit }: Charged): Record<string, unknown> {
  const text = (value: unknown) => typeof value === "string" && /^[\w .:-]{1,64}$/.test(value);
  return {
    charge_usd: toUsd(chargedNanoUsd),
    pricing_tier: tierOf(unit),
    ...(text(billing.resolution) && { resolution: billing.resolution }),
    ...(isCount(billing.duration_seconds) && { duration_seconds: billing.duration_seconds }),
    billable_tokens: tokens,
    ...(text(billing.usage_source) && { usage_source: billing.usage_source }),
  };
}

/** Fields of the contract, which have rules of their own above. */
const KNOWN: ReadonlySet<string> = new Set(
  "id status model width height created_at completed_at url billing error code retryable".split(" "),
);
const MONEY_OR_ACCOUNT = /usd|cost|price|charge|bill|credit|balance|margin|account|tenant|org|owner|user|key|token/i;
const MOST_OTHER_FIELDS = 32;

function otherFields(fields: JobFields): Record<string, unknown> {
  const plain = (value: unknown) =>
    typeof value === "number" || typeof value === "boolean" || (typeof value === "string" && value.length <= 64);
  return Object.fromEntries(
    Object.entries(fields)
      .filter(([name, value]) => !KNOWN.has(name) && !MONEY_OR_ACCOUNT.test(name) && plain(value))
      .slice(0, MOST_OTHER_FIELDS),
  );
}

/** Reads the acknowledgement of a submission; null if it hands out no id. */
export function readAcknowledgement(answer: unknown): { id: string; model: string | null } | null {
  const fields = asObject(answer);
  if (!fields || fields.error || typeof fields.id !== "string") return null;
  if (fields.id === "" || fields.id.length > 256) return null;
  return { id: fields.id, model: typeof fields.model === "string" ? fields.model : null };
}
