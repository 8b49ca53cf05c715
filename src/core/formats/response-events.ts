/**
 * Completes the events of a streamed response: the service sends fewer than OpenAI's clients need to build one. They
 * expect created, in_progress, each item with its parts and deltas, and completed, all numbered. Missing events are
 * added before the first that needs them; the upstream's own events pass.
 *
 * Closing events repeat an item's text, from the item or response that the upstream sends whole, else from the deltas.
 * Streams with more than 256 kB of text get no closing events: the last event has all. A stream that begins without a
 * response id passes unchanged.
 */
import type { Added } from "./added-events.ts";
import { asObject } from "./json-fields.ts";
import { closeArguments, closeWords, placeOf, sayWords } from "./response-closing.ts";
import {
  type Fields,
  isText,
  itemIdOf,
  type ResponseFacts,
  wholeItem,
  wholePart,
  wholeResponse,
} from "./response-items.ts";
import type { Part } from "./response-progress.ts";
import { begunItem, closedItem, EventNumbers, Item, isPlace, lacking, Room, wordsIn } from "./response-progress.ts";
import { ENDS, emptyPart, type PartKind, partsOf, type Step, stepOf } from "./response-words.ts";

/** The most items and parts of one stream. A stream with more passes unchanged from there on. */
const MOST_ITEMS = 1_000;

export class ResponseEvents {
  readonly #facts: ResponseFacts | null;
  readonly #items = new Map<number, Item>();
  readonly #kept = new Room();
  readonly #repeated = new Room();
  #before: Fields[] = [];
  /** The response as it began; null until its id is known. */
  #begun: Fields | null = null;
  #inProgress = false;
  /** The part that the last event was about, if it was a delta. `at`: its position; `place`: the same as members. */
  #last: { readonly type: unknown; readonly part: Part; readonly at: Fields; readonly place: string } | null = null;
  /** True once nothing more is added. */
  #off = false;
  #current = -1;
  #parts = 0;
  readonly #numbers = new EventNumbers();

  constructor(facts: ResponseFacts | null) {
    this.#facts = facts;
  }

  /** Completes one event of the stream. Undefined: it passes unchanged, with nothing before it. */
  next(said: Fields): Added | undefined {
    if (this.#off || typeof said.type !== "string" || !said.type.startsWith("response.")) return undefined;
    const again = this.#again(said);
    if (again) return again === "passes" ? undefined : again;
    this.#last = null;
    this.#before = [];
    const anew = this.#judge(said.type, said);
    if (anew === "unknown") return undefined;
    if (anew === "drops") return { before: this.#before, drops: true };
    const numbered = this.#numbered(said, anew);
    if (this.#before.length === 0 && numbered === undefined) return undefined;
    return this.#before.length > 0 ? { before: this.#before, ...numbered } : numbered;
  }

  /** The fast path for most events of a stream: another delta of the same part, with its position or without. */
  #again(said: Fields): Added | "passes" | undefined {
    const last = this.#last;
    if (!last || said.type !== last.type || typeof said.delta !== "string" || said.response !== undefined)
      return undefined;
    const own = said.sequence_number;
    const placed = isPlace(own);
    if (!placed && own !== undefined) return undefined;
    for (const name in last.at) if (said[name] !== (placed ? last.at[name] : undefined)) return undefined;
    last.part.keep(said.delta, this.#kept);
    const number = this.#numbers.of(own);
    if (placed) return own === number ? "passes" : { number };
    return { members: `"sequence_number":${number},${last.place}` };
  }

  /** Members that the event lacks or has wrong. */
  #judge(type: string, said: Fields): Fields | "drops" | "unknown" {
    const response = asObject(said.response);
    if (response) return this.#lifecycle(type, response);
    if (!this.#begun) {
      this.#off = true;
      return "unknown";
    }
    this.#start();
    if (type === "response.output_item.added") return this.#itemAdded(said);
    if (type === "response.output_item.done") return this.#itemDone(said);
    if (/^response\.function_call_arguments\.(delta|done)$/.test(type)) return this.#arguments(type, said);
    const step = stepOf(said);
    return step ? this.#part(step.kind, step.step, said) : {};
  }

  #lifecycle(type: string, response: Fields): Fields | "unknown" {
    if (!isText(response.id)) {
      this.#off = true;
      return "unknown";
    }
    const end = ENDS[type];
    const status = end ?? (type === "response.queued" ? "queued" : "in_progress");
    if (type === "response.created" || type === "response.queued") {
      const whole = wholeResponse(response, status, this.#facts);
      this.#begun ??= whole;
      return whole === response ? {} : { response: whole };
    }
    if (!this.#begun) this.#create(response);
    if (type === "response.in_progress") {
      this.#inProgress = true;
      const whole = wholeResponse(response, status, this.#facts);
      return whole === response ? {} : { response: whole };
    }
    if (end === undefined) return {};
    this.#start();
    return this.#end(response, end);
  }

  #create(response: Fields): void {
    const begun = { ...response, status: "in_progress", output: [], usage: null };
    this.#begun = wholeResponse(begun, "in_progress", this.#facts);
    this.#add("response.created", { response: this.#begun });
  }

  #start(): void {
    if (this.#inProgress) return;
    this.#inProgress = true;
    this.#add("response.in_progress", { response: { ...this.#begun, status: "in_progress" } });
  }

  #end(response: Fields, status: string): Fields {
    this.#off = true;
    const given = Array.isArray(response.output) ? response.output : undefined;
    for (const [index, entry] of (given ?? []).entries()) {
      const item = asObject(entry);
      if (item) this.#close(index, item, status);
    }
    const open = [...this.#items.values()].sort((one, other) => one.index - other.index);
    const made = open.map((item) => {
      const final = item.made(status);
      if (final && item.index >= (given?.length ?? 0)) this.#close(item.index, final, status);
      return final;
    });
    const output = given ?? made.filter((item) => item !== undefined);
    const named = (index: number) => {
      const item = this.#items.get(index);
      return item?.named ? item.id : undefined;
    };
    const full = response.output === undefined || response.output === null ? { ...response, output } : response;
    const whole = wholeResponse(full, status, this.#facts, named);
    return whole === response ? {} : { response: whole };
  }

  #itemAdded(said: Fields): Fields {
    const given = asObject(said.item);
    if (!given) return {};
    const index = isPlace(said.output_index) ? said.output_index : this.#items.size;
    if (this.#items.has(index) || this.#full()) return {};
    const whole = wholeItem(given, this.#nameOf(String(given.type), index), "in_progress");
    this.#items.set(index, new Item(index, whole, !isText(given.id)));
    this.#current = index;
    return {
      ...(whole !== given && { item: whole }),
      ...(said.output_index === undefined && { output_index: index }),
    };
  }

  #itemDone(said: Fields): Fields {
    const given = asObject(said.item);
    if (!given) return {};
    const index = this.#indexOf(said, String(given.type), given.id);
    const item = this.#open(index, String(given.type), given);
    if (!item) return {};
    this.#closeParts(item, given);
    item.done = true;
    const whole = closedItem(given, item, "completed");
    return {
      ...(whole !== given && { item: whole }),
      ...(said.output_index === undefined && { output_index: index }),
    };
  }

  /** Arguments of an unannounced call wait for the call itself: only it names the function. */
  #arguments(type: string, said: Fields): Fields | "drops" {
    const index = this.#indexOf(said, "function_call", said.item_id);
    const item = this.#items.get(index);
    if (!item) return "drops";
    if (type.endsWith(".done")) item.argumentsDone = true;
    else item.argumentsSaid = true;
    return lacking(said, { item_id: item.id, output_index: index });
  }

  #part(kind: PartKind, step: Step, said: Fields): Fields {
    const index = this.#indexOf(said, kind.item, said.item_id);
    const item = this.#open(index, kind.item, isText(said.item_id) ? { id: said.item_id } : {});
    if (!item) return {};
    const given = said[kind.index];
    const place = isPlace(given) ? given : item.placeOf(kind);
    const known = item.part(kind, place);
    if (!known && this.#full()) return {};
    const part = known ?? item.open(kind, place);
    const at = placeOf(item, part);
    if (!known && step !== "part.added") this.#add(`${kind.part}.added`, { ...at, part: emptyPart(kind) });
    if (step === "delta" && typeof said.delta === "string") {
      part.keep(said.delta, this.#kept);
      this.#last = { type: said.type, part, at, place: JSON.stringify(at).slice(1, -1) };
    }
    if (step === "done") {
      sayWords(item, part, said[kind.said], this.#add);
      part.wordsDone = true;
    }
    const full = asObject(said.part);
    if (step === "part.done") {
      closeWords(item, part, String(full?.[kind.said] ?? ""), this.#add);
      part.partDone = true;
    }
    const whole = full && wholePart(full);
    return { ...(whole !== full && { part: whole }), ...lacking(said, at) };
  }

  /** The item of an event, announced first if needed. Undefined where there are too many. */
  #open(index: number, type: string, like: Fields): Item | undefined {
    const known = this.#items.get(index);
    if (known) {
      this.#current = index;
      return known;
    }
    if (this.#full()) return undefined;
    const id = isText(like.id) ? like.id : this.#nameOf(type, index);
    const item = new Item(index, begunItem(type, id, like), !isText(like.id));
    this.#items.set(index, item);
    this.#current = index;
    this.#add("response.output_item.added", { output_index: index, item: item.begun });
    return item;
  }

  /** Closes an item with the content that the final response has. */
  #close(index: number, given: Fields, status: string): void {
    if (this.#items.get(index)?.done) return;
    // Three events repeat the text, so count it before writing anything.
    if (!this.#repeated.take(wordsIn(given))) return;
    const item = this.#open(index, String(given.type), given);
    if (!item) return;
    this.#closeParts(item, given, true);
    item.done = true;
    this.#add("response.output_item.done", { output_index: index, item: closedItem(given, item, status) });
  }

  /** `counted`: its text was counted already. */
  #closeParts(item: Item, given: Fields, counted = false): void {
    if (!counted && !this.#repeated.take(wordsIn(given))) return;
    for (const { kind, place, part: final, words } of partsOf(given)) {
      const known = item.part(kind, place);
      if (!known && this.#full()) return;
      const part = known ?? item.open(kind, place);
      const at = placeOf(item, part);
      if (!known) this.#add(`${kind.part}.added`, { ...at, part: emptyPart(kind) });
      closeWords(item, part, words, this.#add);
      if (!part.partDone) this.#add(`${kind.part}.done`, { ...at, part: wholePart(final) });
      part.partDone = true;
    }
    if (item.type === "function_call" && typeof given.arguments === "string") closeArguments(item, given, this.#add);
  }

  /** Which item an event is about: by its index or id, else the last item if it is open and of this type. */
  #indexOf(said: Fields, type: string, id: unknown): number {
    if (isPlace(said.output_index)) return said.output_index;
    if (isText(id)) for (const item of this.#items.values()) if (item.id === id) return item.index;
    const current = this.#items.get(this.#current);
    if (current && current.type === type && !current.done && !isText(id)) return current.index;
    return Math.max(-1, ...this.#items.keys()) + 1;
  }

  #nameOf(type: string, index: number): string {
    return itemIdOf(String(this.#begun?.id), type, index);
  }

  #full(): boolean {
    this.#parts++;
    if (this.#parts > MOST_ITEMS) this.#off = true;
    return this.#off && this.#parts > MOST_ITEMS;
  }

  readonly #add = (type: string, fields: Fields): void => {
    this.#before.push({ type, sequence_number: this.#numbers.add(), ...fields });
  };

  /** The event with its missing members and its number, which is shifted by the events added before it. */
  #numbered(said: Fields, anew: Fields): Pick<Added, "members" | "number" | "data"> | undefined {
    const own = said.sequence_number;
    const number = this.#numbers.of(own);
    if (isPlace(own) && Object.keys(anew).length === 0) return own === number ? undefined : { number };
    const missing = own === number ? anew : { sequence_number: number, ...anew };
    if (Object.keys(missing).some((name) => name in said)) return { data: JSON.stringify({ ...said, ...missing }) };
    return { members: JSON.stringify(missing).slice(1, -1) };
  }
}
