/**
 * Which members of an upstream's answer a tenant may see (docs/design.md, section 6): top-level names of a JSON answer
 * and members of its usage, wherever a usage stands. Anything else the upstream adds, such as costs, providers or
 * accounts, is dropped.
 *
 * The lists include everything that SDKs and their users read. The contents of `choices`, `output` and `data` pass
 * unchanged but for a usage inside them.
 */

import { AnswerFilter, type Inside, type MemberRules, type Rewrite } from "../formats/answer-filter.ts";
import { joinBytes } from "../formats/bytes.ts";
import { asObject } from "../formats/json-fields.ts";
import { isCount } from "../pricing/usage.ts";

const names = (text: string): ReadonlySet<string> => new Set(text.trim().split(/\s+/));

export const CHAT_ANSWER = names(`
  id object created model choices usage error system_fingerprint service_tier
  prompt_logprobs prompt_token_ids prompt_filter_results`);
export const RESPONSE_ANSWER = names(`
  id object created_at completed_at status model output output_text usage error incomplete_details
  background conversation frequency_penalty instructions max_output_tokens max_tool_calls metadata parallel_tool_calls
  presence_penalty previous_response_id prompt prompt_cache_key prompt_cache_retention reasoning safety_identifier
  service_tier store temperature text tool_choice tools top_logprobs top_p truncation user`);
export const DELETED_ANSWER = names("id object deleted error");
export const ITEMS_ANSWER = names("object data first_id last_id has_more error");
export const EMBEDDINGS_ANSWER = names("id object created model data usage");
export const RERANK_ANSWER = names("id object created model results usage");
export const IMAGE_ANSWER = names("id object created model data usage background output_format quality size");
export const TRANSCRIPT_ANSWER = names(`
  id object model text task language duration segments words logprobs usage`);

const FIGURES = names(`
  prompt_tokens completion_tokens total_tokens input_tokens output_tokens cached_tokens reasoning_tokens
  prompt_cache_hit_tokens prompt_cache_miss_tokens`);
const DETAILS = names(`
  prompt_tokens_details completion_tokens_details input_tokens_details output_tokens_details
  input_token_details output_token_details`);
const DETAIL_FIGURES = names(`
  cached_tokens cache_write_tokens cache_creation_tokens text_tokens audio_tokens image_tokens video_tokens
  reasoning_tokens accepted_prediction_tokens rejected_prediction_tokens`);
/** The values of `type` in a transcript's usage. */
const USAGE_TYPES = names("tokens duration");

const figure = (value: unknown): boolean => value === null || isCount(value);

/** A member of a usage object as it passes; undefined to drop it. */
function usageMember(name: string, value: unknown): unknown {
  if (FIGURES.has(name)) return figure(value) ? value : undefined;
  if (name === "type") return USAGE_TYPES.has(String(value)) ? value : undefined;
  if (name === "seconds") return typeof value === "number" && value >= 0 ? value : undefined;
  if (!DETAILS.has(name)) return undefined;
  const details = asObject(value);
  if (!details) return value === null ? null : undefined;
  return Object.fromEntries(Object.entries(details).filter(([at, inside]) => DETAIL_FIGURES.has(at) && figure(inside)));
}

function rewrittenUsage(usage: Record<string, unknown>): Record<string, unknown> {
  const known = Object.entries(usage).map(([name, value]) => [name, usageMember(name, value)] as const);
  return Object.fromEntries(known.filter(([, value]) => value !== undefined));
}

const encoder = new TextEncoder();
const decoder = new TextDecoder();

const USAGE: Rewrite = {
  maxBytes: 16 * 1024,
  rewrite(raw) {
    const text = decoder.decode(raw);
    const value: unknown = JSON.parse(text);
    if (value === null) return raw;
    const usage = asObject(value);
    if (!usage) return null;
    const anew = JSON.stringify(rewrittenUsage(usage));
    // No allowed text contains a space. If both differ only in spaces, `raw` holds nothing else and no name twice.
    return anew === text.replace(/\s+/g, "") ? raw : encoder.encode(anew);
  },
};

/** A successful answer must not show an error; null is allowed. */
const NO_ERROR: Rewrite = {
  maxBytes: 16 * 1024,
  rewrite: (raw) => (decoder.decode(raw) === "null" ? raw : null),
};

/** Kept because ownership may have to be recorded before the id passes. */
const ID: Rewrite = { maxBytes: 1024, rewrite: (raw) => raw };

const INSIDE: Inside = { inside: USAGE };
/** Members that some engines put a usage into. Others hold the caller's own data, such as tools and their schemas. */
const HOLD_USAGE = names("choices output data");

/** `allowed`: the endpoint's names; null lets every name pass. */
export function answerRules(allowed: ReadonlySet<string> | null): MemberRules {
  if (allowed === null) return () => "pass";
  return (name) => {
    if (name === null || !allowed.has(name)) return "drop";
    if (name === "usage") return USAGE;
    if (name === "error") return NO_ERROR;
    if (HOLD_USAGE.has(name)) return INSIDE;
    return name === "id" ? ID : "pass";
  };
}

const FRAME_RULES: MemberRules = (name) => (name === "usage" ? USAGE : INSIDE);
const RESPONSE_RULES: MemberRules = (name) => {
  if (name === "usage") return USAGE;
  return name === "output" ? INSIDE : "pass";
};

/** Longer than any event may be. */
const LONGEST_FRAME = 16 * 1024 * 1024;

const RESPONSE: Rewrite = { maxBytes: LONGEST_FRAME, rewrite: (raw) => passedOf(raw, RESPONSE_RULES) };
const RESPONSE_FRAME_RULES: MemberRules = (name) => (name === "response" ? RESPONSE : FRAME_RULES(name));

/** Applies the rules to a value. Returns `raw` itself if nothing changes; null if it is no JSON object. */
function passedOf(raw: Uint8Array, rules: MemberRules): Uint8Array | null {
  const filter = new AnswerFilter(rules);
  const passed = filter.push(raw);
  if (!passed || !filter.whole) return null;
  return filter.changed ? joinBytes(passed) : raw;
}

/** A usage, or an escape that nobody writes but to hide one. */
const MAY_HOLD_USAGE = /usage"\s*:\s*[{[]|\\u00(?:75|73|61|67|65)/i;

/** Whether a frame has to be searched: few have more than an empty usage. */
export const mayHoldUsage = (data: string): boolean => MAY_HOLD_USAGE.test(data);

/** Rewrites the usage in a frame; null if the frame passes unchanged. `within`: the member that contains the usage. */
export function withUsageAnew(data: string, within: "response" | null): string | null {
  const raw = encoder.encode(data);
  const passed = passedOf(raw, within === "response" ? RESPONSE_FRAME_RULES : FRAME_RULES);
  return passed === null || passed === raw ? null : decoder.decode(passed);
}

const NO_USAGE: MemberRules = (name) => (name === "usage" ? "drop" : "pass");
/** Unescaped quotes behind a comma begin a name, so this is a member wherever it stands in valid JSON. */
const NULL_USAGE = /,\s*"usage"\s*:\s*null/;
/** A letter of `usage`, escaped. */
const ESCAPED_LETTER = /\\u00[67]/i;

/** A chunk whose usage is null, without it: nobody asked for usage. The quick way serves where the name stands once. */
export function withoutNullUsage(data: string): string {
  const once = data.indexOf('"usage"') === data.lastIndexOf('"usage"') && !ESCAPED_LETTER.test(data);
  if (once && NULL_USAGE.test(data)) return data.replace(NULL_USAGE, "");
  const passed = passedOf(encoder.encode(data), NO_USAGE);
  return passed === null ? data : decoder.decode(passed);
}
