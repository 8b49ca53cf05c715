/**
 * The events that carry the text of a part, e.g. `response.output_text.delta`, and the events around them. One row for
 * each kind of part.
 */
import { asObject } from "./json-fields.ts";
import type { Fields } from "./response-items.ts";

/** Events that end a stream, and the status that they tell. */
export const ENDS: Readonly<Record<string, string>> = {
  "response.completed": "completed",
  "response.incomplete": "incomplete",
};

export interface PartKind {
  /** The event name before `.delta` and `.done`. */
  readonly words: string;
  /** The event name before `.added` and `.done`. */
  readonly part: "response.content_part" | "response.reasoning_summary_part";
  /** The type of the item that has such parts, and the member that lists them. */
  readonly item: "message" | "reasoning";
  readonly list: "content" | "summary";
  /** The member with a part's position. */
  readonly index: "content_index" | "summary_index";
  /** The part's own type, and its member with the text. */
  readonly type: "output_text" | "refusal" | "reasoning_text" | "summary_text";
  readonly said: "text" | "refusal";
}

const content = { part: "response.content_part", list: "content", index: "content_index" } as const;
const KINDS: readonly PartKind[] = [
  { ...content, words: "response.output_text", item: "message", type: "output_text", said: "text" },
  { ...content, words: "response.refusal", item: "message", type: "refusal", said: "refusal" },
  { ...content, words: "response.reasoning_text", item: "reasoning", type: "reasoning_text", said: "text" },
  {
    words: "response.reasoning_summary_text",
    part: "response.reasoning_summary_part",
    item: "reasoning",
    list: "summary",
    index: "summary_index",
    type: "summary_text",
    said: "text",
  },
];

export type Step = "delta" | "done" | "part.added" | "part.done";
/** Events about whole parts name the kind inside the part. */
const STEPS: ReadonlyMap<unknown, { readonly kind: PartKind | null; readonly step: Step }> = new Map<
  string,
  { readonly kind: PartKind | null; readonly step: Step }
>([
  ...KINDS.flatMap((kind) => [
    [`${kind.words}.delta`, { kind, step: "delta" }] as const,
    [`${kind.words}.done`, { kind, step: "done" }] as const,
  ]),
  ...(["response.content_part", "response.reasoning_summary_part"] as const).flatMap((part) => [
    [`${part}.added`, { kind: null, step: "part.added" }] as const,
    [`${part}.done`, { kind: null, step: "part.done" }] as const,
  ]),
]);

const kindOf = (part: unknown): PartKind | undefined => KINDS.find(({ type }) => type === asObject(part)?.type);

/** What an event reports about a part; undefined if it is about something else. */
export function stepOf(said: Fields): { kind: PartKind; step: Step } | undefined {
  const found = STEPS.get(said.type);
  const kind = found && (found.kind ?? kindOf(said.part));
  return found && kind && { kind, step: found.step };
}

/** The parts of an item with kind, position and text. Parts of other types are left out. */
export function partsOf(item: Fields): { kind: PartKind; place: number; part: Fields; words: string }[] {
  return (["summary", "content"] as const).flatMap((list) => {
    const parts = item[list];
    if (!Array.isArray(parts)) return [];
    return parts.flatMap((entry: unknown, place) => {
      const part = asObject(entry);
      const kind = kindOf(part);
      const words = part && kind && part[kind.said];
      return part && kind?.list === list && typeof words === "string" ? [{ kind, place, part, words }] : [];
    });
  });
}

export const emptyPart = ({ type, said }: PartKind): Fields => ({
  type,
  [said]: "",
  ...(type === "output_text" && { annotations: [] }),
});
