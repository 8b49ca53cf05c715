/** Upstreams in bodies and answers. */
import * as z from "zod/mini";
import { whole } from "../../core/shapes.ts";
import { slug, timeAnswer } from "../kit/fields.ts";

/** The longest time for one call, ms: holds are not renewed for longer. */
const LONGEST_MS = 3_600_000;
const milliseconds = z.optional(whole(1, LONGEST_MS));

const baseUrl = z
  .pipe(
    z.string().check(z.maxLength(2000)),
    z.transform((text, context) => {
      const root = serviceRoot(text);
      if (root !== undefined) return root;
      const message = "must be an http or https URL without credentials, query or fragment";
      context.issues.push({ code: "custom", message, input: text });
      return z.NEVER;
    }),
  )
  .check(
    z.meta({
      type: "string",
      description: "The service's root; a trailing `/v1` is stripped",
      example: "https://inference.example/v1",
    }),
  );

const timeouts = z.strictObject({
  connect_ms: milliseconds,
  first_byte_ms: milliseconds,
  answer_ms: milliseconds,
  idle_ms: milliseconds,
  total_ms: milliseconds,
});

const credential = z.string().check(z.regex(/^[\x21-\x7e]{1,4096}$/, "must be 1 to 4096 visible ASCII characters"));

const fields = {
  base_url: baseUrl,
  api_key: z
    .optional(credential)
    .check(
      z.describe(
        "Write-only. Needed at first and with another scheme, host or port; else absent keeps the one that is there",
      ),
    ),
  service_api_key: z
    .nullish(credential)
    .check(
      z.describe(
        "Write-only: a second key of the same account, for service paths of instances and clusters alone. Absent keeps the one that is there, null removes it",
      ),
    ),
  region: z.nullish(slug),
  shared: z
    .optional(z.boolean())
    .check(z.describe("For compute: seats many accounts, which then share what the upstream account cannot part")),
  timeouts: z
    .optional(timeouts)
    .check(
      z.describe(
        "To the connection, to a stream's first byte, to the last byte of an answer that is not streamed, between two reads, and of the whole call",
      ),
    ),
};
export const UpstreamBody = z.strictObject(fields).register(z.globalRegistry, { id: "UpstreamBody" });
export const UpstreamPatch = z
  .strictObject({ ...fields, base_url: z.optional(baseUrl) })
  .register(z.globalRegistry, { id: "UpstreamPatch" });

export const UpstreamAnswer = z
  .object({
    id: z.string(),
    base_url: z.string(),
    api_key_set: z.literal(true),
    service_api_key_set: z.boolean(),
    service_checked_at: z
      .nullable(timeAnswer)
      .check(z.describe("When a check with `echo` last passed; null: service paths are off")),
    region: z.nullable(z.string()),
    shared: z.boolean(),
    timeouts: z.object({
      connect_ms: z.int(),
      first_byte_ms: z.int(),
      answer_ms: z.int(),
      idle_ms: z.int(),
      total_ms: z.int(),
    }),
  })
  .register(z.globalRegistry, { id: "Upstream" });

/** The URL as it is stored: without trailing slash and trailing `/v1`. Undefined for an invalid one. */
function serviceRoot(text: string): string | undefined {
  if (!URL.canParse(text)) return undefined;
  const url = new URL(text);
  if (url.protocol !== "http:" && url.protocol !== "https:") return undefined;
  if (url.username || url.password || /[?#]/.test(text)) return undefined;
  return url.origin + url.pathname.replace(/\/+$/, "").replace(/\/v1$/, "").replace(/\/+$/, "");
}
