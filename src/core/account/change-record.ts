/** What the log of changes keeps of a change: the fields that differ, and never a secret. */

export type JsonObject = { readonly [name: string]: unknown };

/** The most characters kept of each side. Longer ones are named by their length. */
const MOST_CHARACTERS = 16_000;
/** Keys, tokens and webhook secrets, wherever they stand in an answer. */
const SECRET = /^(sk-tg-|tg-op-|whsec_)/;

/** The top-level fields that differ. A side that was or is not there is null. */
export function difference(before: unknown, after: unknown): { before: JsonObject | null; after: JsonObject | null } {
  const [old, now] = [objectOf(before), objectOf(after)];
  if (!old || !now) return { before: old && kept(old), after: now && kept(now) };
  const names = [...new Set([...Object.keys(old), ...Object.keys(now)])];
  const differing = names.filter((name) => JSON.stringify(old[name]) !== JSON.stringify(now[name]));
  const side = (from: JsonObject) => kept(Object.fromEntries(differing.map((name) => [name, from[name] ?? null])));
  return { before: side(old), after: side(now) };
}

const objectOf = (value: unknown): JsonObject | null =>
  typeof value === "object" && value !== null && !Array.isArray(value) ? (value as JsonObject) : null;

function kept(side: JsonObject): JsonObject {
  const text = JSON.stringify(side, (_, value: unknown) =>
    typeof value === "string" && SECRET.test(value) ? "(secret)" : value,
  );
  return text.length > MOST_CHARACTERS ? { too_long: text.length } : (JSON.parse(text) as JsonObject);
}
