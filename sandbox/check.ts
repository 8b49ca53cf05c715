/** Checks what JSON holds against a schema. A refusal names the field. */
import type { z } from "zod";
import { done, invalid, type Outcome } from "./refusal.ts";

export function check<S extends z.ZodType>(value: unknown, schema: S): Outcome<z.output<S>> {
  const parsed = schema.safeParse(value);
  if (parsed.success) return done(parsed.data);
  const issue = parsed.error.issues[0];
  const param = issue ? pathOf(issue.path) : "";
  return invalid(`${param ? `\`${param}\`: ` : ""}${issue?.message ?? "invalid"}`, param || null);
}

/** `messages[0].content`, as OpenAI names a field. */
function pathOf(path: readonly PropertyKey[]): string {
  return path.reduce<string>((text, step) => {
    if (typeof step === "number") return `${text}[${step}]`;
    return text ? `${text}.${String(step)}` : String(step);
  }, "");
}
