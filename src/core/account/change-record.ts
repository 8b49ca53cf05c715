/** What the log of changes keeps of a change: the fields that differ, and never a secret. */

export type JsonObject = { readonly [name: string]: unknown };

/**
 * Changes that the keys of one account may try in a minute, and make in a day: each is a row in the operator's books.
 */
export const CHANGES_A_MINUTE = 120;
export const CHANGES_A_DAY = 5_000;
/** Rows of one account's keys that are kept, and for how many days. What operators changed is kept for good. */
export const CHANGES_KEPT = 10_000;
export const CHANGES_KEPT_DAYS = 400;

/** The most bytes kept of each side. */
const MOST_BYTES = { operator: 16_000, key: 4_000 };
/** A field of more than this part of it is named by its length alone. */
const FIELD_PART = 4;
/** Keys, tokens and webhook secrets, wherever they stand in an answer. */
const SECRET = /^(sk-tg-|tg-op-|whsec_)/;

/** Figures that calls move meanwhile: no change of whoever is recorded. */
const MOVING: ReadonlySet<string> = new Set(["spent_usd", "last_used_at"]);

/** The top-level fields that differ. A side that was or is not there is null. */
export function difference(
  before: unknown,
  after: unknown,
  by: "operator" | "key" = "operator",
): { before: JsonObject | null; after: JsonObject | null } {
  const [old, now] = [objectOf(before), objectOf(after)];
  const most = MOST_BYTES[by];
  if (!old || !now) return { before: old && kept(old, most), after: now && kept(now, most) };
  const names = [...new Set([...Object.keys(old), ...Object.keys(now)])];
  const differing = names.filter(
    (name) => !MOVING.has(name) && JSON.stringify(old[name]) !== JSON.stringify(now[name]),
  );
  const side = (from: JsonObject) =>
    kept(Object.fromEntries(differing.map((name) => [name, from[name] ?? null])), most);
  return { before: side(old), after: side(now) };
}

const objectOf = (value: unknown): JsonObject | null =>
  typeof value === "object" && value !== null && !Array.isArray(value) ? (value as JsonObject) : null;

function kept(side: JsonObject, most: number): JsonObject {
  const text = textOf(side);
  if (bytesOf(text) <= most) return JSON.parse(text) as JsonObject;
  const cut = Object.entries(side).map(([name, value]) => {
    const bytes = bytesOf(textOf(value));
    return [name, bytes > most / FIELD_PART ? { too_long: bytes } : value] as const;
  });
  const shorter = textOf(Object.fromEntries(cut));
  return bytesOf(shorter) <= most ? (JSON.parse(shorter) as JsonObject) : { too_long: bytesOf(text) };
}

const textOf = (value: unknown): string =>
  JSON.stringify(value, (_, inner: unknown) => (typeof inner === "string" && SECRET.test(inner) ? "(secret)" : inner));
const bytesOf = (text: string): number => new TextEncoder().encode(text).length;
