/** Reads fields of answers whose content is unknown. */

export const asObject = (value: unknown): Record<string, unknown> | undefined =>
  typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Record<string, unknown>) : undefined;

/** Parses a JSON object; undefined if the text is anything else. */
export function parseObject(data: string): Record<string, unknown> | undefined {
  try {
    return asObject(JSON.parse(data));
  } catch {
    return undefined;
  }
}
