/** Adds the events that close a part's text or a call's arguments. */
import { type Fields, isText } from "./response-items.ts";
import type { Item, Part } from "./response-progress.ts";
import type { PartKind } from "./response-words.ts";

/** Adds an event. */
type Add = (type: string, fields: Fields) => void;

/** Text that came in no delta goes into one delta, because clients build the text from deltas. */
export function sayWords(item: Item, part: Part, words: unknown, add: Add): void {
  if (part.said || !isText(words)) return;
  part.said = true;
  add(`${part.kind.words}.delta`, { ...placeOf(item, part), delta: words, ...logprobsOf(part.kind) });
}

export function closeWords(item: Item, part: Part, words: string, add: Add): void {
  if (part.wordsDone) return;
  part.wordsDone = true;
  sayWords(item, part, words, add);
  add(`${part.kind.words}.done`, { ...placeOf(item, part), [part.kind.said]: words, ...logprobsOf(part.kind) });
}

/** `call`: the finished call, with its name and all of its arguments. */
export function closeArguments(item: Item, call: Fields, add: Add): void {
  const at = { item_id: item.id, output_index: item.index };
  const name = "response.function_call_arguments";
  const unsaid = !item.argumentsSaid && !item.argumentsDone && call.arguments !== "";
  if (unsaid) add(`${name}.delta`, { ...at, delta: call.arguments });
  if (!item.argumentsDone) add(`${name}.done`, { ...at, name: call.name, arguments: call.arguments });
  item.argumentsSaid = true;
  item.argumentsDone = true;
}

export const placeOf = (item: Item, { kind, place }: Part): Fields => ({
  item_id: item.id,
  output_index: item.index,
  [kind.index]: place,
});

const logprobsOf = ({ type }: PartKind): Fields => (type === "output_text" ? { logprobs: [] } : {});
