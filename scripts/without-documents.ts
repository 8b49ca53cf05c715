/**
 * Leaves out of a Worker what only its OpenAPI documents show, which are made ahead (`assets.ts`): the descriptions,
 * ids and examples of schemas, and the summaries and answers of routes.
 */
import type { Plugin } from "rolldown";
import { parseSync, Visitor } from "rolldown/utils";

interface Span {
  readonly start: number;
  readonly end: number;
}
/** A node of the syntax tree, of which each kind has some of these. */
interface Node extends Span {
  readonly type: string;
  readonly name?: string;
  readonly object?: Node;
  readonly property?: Node;
  readonly key?: Node;
  readonly callee?: Node;
  readonly arguments?: readonly Node[];
  readonly properties?: readonly Node[];
}

/** What a call may be given that says what a schema is for. */
const SAYINGS = ["describe", "meta"];
/** What a row is told besides. */
const OF_ROWS = ["summary", "answers"];
/** The functions that take a row. */
const ROWS = ["route", "endpoint", "compute"];

export const withoutDocuments: Plugin = {
  name: "without-documents",
  transform: {
    filter: { id: /\/src\/(api|core)\/.*\.ts$/, code: /\bz\s*\.(describe|meta|globalRegistry)\b|\bsummary:/ },
    handler: (source, id) => leaveOut(source, id),
  },
};

export function leaveOut(source: string, id: string): string {
  const cuts: Span[] = [];
  // A member of a list goes with the comma after it.
  const withComma = ({ start, end }: Span): Span => ({
    start,
    end: end + (/^\s*,/.exec(source.slice(end))?.[0].length ?? 0),
  });
  new Visitor({ CallExpression: (call) => cuts.push(...cutsOf(call as unknown as Node, withComma)) }).visit(
    parseSync(id, source).program,
  );
  // A cut may stand within another: the outer one, which begins earlier, takes it along.
  let [text, from] = ["", 0];
  for (const { start, end } of cuts.sort((a, b) => a.start - b.start || b.end - a.end)) {
    if (start < from) continue;
    text += source.slice(from, start);
    from = end;
  }
  return text + source.slice(from);
}

function cutsOf(call: Node, withComma: (member: Span) => Span): Span[] {
  const { callee, arguments: given = [] } = call;
  if (callee?.type === "Identifier" && ROWS.includes(callee.name ?? "")) {
    const properties = given[0]?.properties ?? [];
    return properties.filter(({ key }) => OF_ROWS.includes(key?.name ?? "")).map(withComma);
  }
  const method = callee?.property?.name;
  if (callee?.type !== "MemberExpression" || !callee.object) return [];
  // `.register(z.globalRegistry, { id })` and `.check(z.describe("..."))` go with their dot.
  const whole = { start: callee.object.end, end: call.end };
  if (method === "register") return [whole];
  if (method !== "check") return [];
  const sayings = given.filter(isSaying);
  return sayings.length === given.length ? [whole] : sayings.map(withComma);
}

const isSaying = ({ callee }: Node): boolean =>
  callee?.object?.name === "z" && SAYINGS.includes(callee.property?.name ?? "");
