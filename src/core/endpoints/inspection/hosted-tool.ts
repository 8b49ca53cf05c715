/**
 * Finds tools that the service would run. They have a price of their own, which no hold covers. The caller runs all
 * others: the model only asks for them.
 */
import { SEARCH } from "./refused.ts";

/** Tools that the caller always runs. A namespace groups others, which are checked too. */
const CALLERS_TOOLS: ReadonlySet<unknown> = new Set([
  ...["function", "custom", "namespace", "local_shell", "apply_patch", "computer", "computer_use_preview"],
]);

/** Fields that say where a tool runs. Their names are checked for look-alikes. */
export const PLACE_NAMES = ["environment", "execution"] as const;

type Fields = Readonly<Record<string, unknown>>;

/** The path to the first tool that the service would run; undefined if there is none. */
export function hostedTool(tools: unknown): readonly (string | number)[] | undefined {
  if (tools === null || tools === undefined) return undefined;
  if (!Array.isArray(tools)) return [];
  for (const [index, tool] of tools.entries()) {
    const field = hostedBy(tool);
    if (field !== undefined) return field === null ? [index] : [index, field];
  }
  return undefined;
}

/** The field that makes it a hosted tool; null for the whole tool; undefined if the caller runs it. */
function hostedBy(tool: unknown): string | null | undefined {
  // Some engines accept the bare name of a tool that they run. The schema refuses other values.
  if (typeof tool !== "object" || tool === null) return typeof tool === "string" ? null : undefined;
  const { type, environment, execution } = tool as Fields;
  if (CALLERS_TOOLS.has(type)) return undefined;
  if (type === "shell") return isLocal(environment) ? undefined : "environment";
  if (type === "tool_search") return execution === "client" ? undefined : "execution";
  return "type";
}

/** A shell that names no container is the caller's own. */
const isLocal = (environment: unknown): boolean =>
  environment === null || environment === undefined || (environment as Fields).type === "local";

export const HOSTED_TOOL = `${SEARCH}; use \`function\``;
