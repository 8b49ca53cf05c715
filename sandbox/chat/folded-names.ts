/**
 * Models whose name begins with `go-` read field names as an engine in Go does: encoding/json prefers the exact name
 * but accepts any case, and takes the last of several. Because of such engines a gateway must not let near-duplicates
 * of names pass.
 */
const isFolding = (model: unknown): boolean => typeof model === "string" && model.startsWith("go-");

/**
 * Go's simple case folding, letter by letter: the Kelvin sign is a k and the long s an s, but the dotless i is not an
 * i.
 */
function fold(name: string): string {
  return [...name].map((letter) => (letter === "\u0131" ? letter : letter.toUpperCase().toLowerCase())).join("");
}

/** The body as such a model reads it; unchanged for other models. `names`: the endpoint's field names. */
export function asRead(body: unknown, names: readonly string[]): unknown {
  if (typeof body !== "object" || body === null || Array.isArray(body)) return body;
  if (!isFolding((body as { model?: unknown }).model)) return body;
  const byFold = new Map(names.map((name) => [fold(name), name]));
  const read: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(body)) read[byFold.get(fold(name)) ?? name] = value;
  return read;
}
