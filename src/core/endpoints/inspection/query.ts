/** Parameters in a URL's query. The upstream never gets the query, so one that would change the answer is refused. */
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
