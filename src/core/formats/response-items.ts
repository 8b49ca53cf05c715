/**
 * Adds the members that OpenAI's clients need in a response and its items, and that the service's contract does not
 * name: ids, statuses, annotations. An object that has them is returned itself, not a copy.
 *
 * An item without an id gets one derived from the response's id and the item's position, so reading the response again
 * gives the same id.
 */
import { asObject, parseObject } from "./json-fields.ts";

export type Fields = Record<string, unknown>;

/** Values for members of a response that the upstream left out. */
export interface ResponseFacts {
  readonly model: string;
  /** Unix seconds. */
  readonly createdAt: number;
}

const ID_PREFIX: Readonly<Record<string, string>> = { message: "msg", function_call: "fc", reasoning: "rs" };

export const itemIdOf = (responseId: string, type: string, index: number): string =>
  `${ID_PREFIX[type] ?? "item"}_${responseId.replace(/^resp_/, "")}_${index}`;

export const isText = (value: unknown): value is string => typeof value === "string" && value !== "";

/** Items with a status that clients read. */
const HAS_STATUS: ReadonlySet<unknown> = new Set(["message", "function_call"]);

/** `id` and `status` are used if the item has none of its own. */
export function wholeItem(item: Fields, id: string, status: string): Fields {
  const added: Fields = {};
  if (!isText(item.id)) added.id = id;
  if (HAS_STATUS.has(item.type) && !isText(item.status)) added.status = status;
  if (item.type === "message") {
    if (!isText(item.role)) added.role = "assistant";
    const content = Array.isArray(item.content) ? wholeList(item.content, wholePart) : [];
    if (content !== item.content) added.content = content;
  }
  if (item.type === "reasoning" && !Array.isArray(item.summary)) added.summary = [];
  return Object.keys(added).length > 0 ? { ...item, ...added } : item;
}

export function wholePart(part: Fields): Fields {
  return part.type === "output_text" && !Array.isArray(part.annotations) ? { ...part, annotations: [] } : part;
}

/**
 * `facts`: null for a response that is read again. `idOf`: the id in the item's announcement; undefined if there was
 * none.
 */
export function wholeResponse(
  response: Fields,
  status: string,
  facts: ResponseFacts | null,
  idOf: (index: number) => string | undefined = () => undefined,
): Fields {
  const added: Fields = {};
  if (response.object === undefined) added.object = "response";
  if (facts && response.created_at === undefined) added.created_at = facts.createdAt;
  if (facts && response.model === undefined) added.model = facts.model;
  if (facts && response.status === undefined) added.status = status;
  const id = String(response.id);
  const output = Array.isArray(response.output)
    ? wholeList(response.output, (item, index) => {
        const announced = idOf(index);
        // Clients match items by the announced id.
        const named = announced !== undefined && item.id !== announced ? { ...item, id: announced } : item;
        return wholeItem(named, itemIdOf(id, String(item.type), index), statusOfItems(response.status ?? status));
      })
    : [];
  if (output !== response.output) added.output = output;
  return Object.keys(added).length > 0 ? { ...response, ...added } : response;
}

const statusOfItems = (status: unknown): string =>
  status === "incomplete" || status === "in_progress" ? status : "completed";

/** Returns the list itself if no entry changes. */
function wholeList(list: readonly unknown[], whole: (fields: Fields, index: number) => Fields): readonly unknown[] {
  let changed = false;
  const anew = list.map((entry, index) => {
    const fields = asObject(entry);
    const filled = fields ? whole(fields, index) : entry;
    if (filled !== entry) changed = true;
    return filled;
  });
  return changed ? anew : list;
}

const encoder = new TextEncoder();
const decoder = new TextDecoder();

/** Completes a whole response; returns the same bytes if nothing is missing. */
export const completionOf =
  (facts: ResponseFacts | null) =>
  (passes: Uint8Array<ArrayBuffer>): Uint8Array<ArrayBuffer> => {
    const response = parseObject(decoder.decode(passes));
    if (!response || !isText(response.id)) return passes;
    const whole = wholeResponse(response, "completed", facts);
    return whole === response ? passes : encoder.encode(JSON.stringify(whole));
  };
