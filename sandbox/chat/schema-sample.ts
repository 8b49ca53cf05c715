/** A value that roughly fits a JSON schema, for the arguments of tool calls and for JSON mode. */

const DEEPEST = 8;

export function sampleOf(schema: unknown, depth = 0): unknown {
  if (typeof schema !== "object" || schema === null || depth > DEEPEST) return null;
  const { type, properties, items, minimum, default: preset, const: fixed } = schema as Record<string, unknown>;
  const { enum: options, anyOf } = schema as Record<string, unknown>;
  if (fixed !== undefined) return fixed;
  if (Array.isArray(options) && options.length > 0) return options[0];
  if (preset !== undefined) return preset;
  if (Array.isArray(anyOf) && anyOf.length > 0) return sampleOf(anyOf[0], depth + 1);
  const named = Array.isArray(type) ? type[0] : (type ?? (properties ? "object" : undefined));
  if (named === "object") {
    return Object.fromEntries(
      Object.entries((properties ?? {}) as object).map(([name, inner]) => [name, sampleOf(inner, depth + 1)]),
    );
  }
  if (named === "array") return [sampleOf(items, depth + 1)];
  if (named === "integer" || named === "number") return typeof minimum === "number" ? minimum : 1;
  if (named === "boolean") return true;
  return named === "null" ? null : "sandbox";
}
