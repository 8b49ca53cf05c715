/**
 * Parameters in a URL's query. Only those that a row lists go upstream. Others are refused if they would change the
 * answer.
 */
import { type Outcome, refused } from "../../outcome.ts";
import { refusing } from "./field-fault.ts";
import { type RefusedField, textAsksForNothing } from "./refused.ts";

/** `askedPath`: as in the URL, with its query. */
export function checkQuery(askedPath: string, listed: ReadonlyMap<string, RefusedField>): Outcome<object> {
  const start = askedPath.indexOf("?");
  if (start === -1) return { ok: true };
  for (const pair of askedPath.slice(start + 1).split("&")) {
    const [name = "", ...value] = pair.split("=").map(decoded);
    const field = listed.get(name);
    if (!field || textAsksForNothing(field, value.join("="))) continue;
    return refused({ kind: "invalid_request", message: refusing(field)(name), param: name });
  }
  return { ok: true };
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text.replaceAll("+", " "));
  } catch {
    return text;
  }
}

/** Per parameter: the values allowed, and the error text for others. */
export type PassedQuery = ReadonlyMap<string, { readonly pattern: RegExp; readonly must: string }>;

/** The query that goes upstream, rewritten. If a name is repeated, its last value counts. */
export function passedQuery(askedPath: string, listed: PassedQuery = new Map()): Outcome<{ query: string }> {
  const start = askedPath.indexOf("?");
  const passed = new Map<string, string>();
  for (const pair of start === -1 ? [] : askedPath.slice(start + 1).split("&")) {
    const [name = "", ...rest] = pair.split("=").map(decoded);
    const value = rest.join("=");
    const rule = listed.get(name);
    if (!rule) continue;
    if (!rule.pattern.test(value)) {
      return refused({ kind: "invalid_request", message: `\`${name}\` must be ${rule.must}.`, param: name });
    }
    passed.set(name, value);
  }
  const pairs = [...passed].map(([name, value]) => `${name}=${encodeURIComponent(value)}`);
  return { ok: true, query: pairs.length > 0 ? `?${pairs.join("&")}` : "" };
}
