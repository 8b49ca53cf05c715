/**
 * Models whose name begins with `go-` read field names as an engine in Go does: encoding/json prefers the exact name but
 * takes any of the same letters, and of several the last. Such an engine is why a gateway must not let twins of names pass.
 */
const isFolding = (model: unknown): boolean => typeof model === "string" && model.startsWith("go-");

/** Go's simple folding: letter by letter; the Kelvin sign is a k and the long s an s, the dotless i no i. */
function fold(name: string): string {
  return [...name].map((letter) => (letter === "\u0131" ? letter : letter.toUpperCase().toLowerCase())).join("");
}

/** The body as such a model reads it; of any other model as it came. `names`: those that the endpoint has. */
export function asRead(body: unknown, names: readonly string[]): unknown {
  if (typeof body !== "object" || body === null || Array.isArray(body)) return body;
  if (!isFolding((body as { model?: unknown }).model)) return body;
  const byFold = new Map(names.map((name) => [fold(name), name]));
  const read: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(body)) read[byFold.get(fold(name)) ?? name] = value;
  return read;
}
