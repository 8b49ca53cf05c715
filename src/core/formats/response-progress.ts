/** What was said so far of one output item and its parts in a stream of events: which of its events have passed. */
import { type Fields, isText, wholeItem } from "./response-items.ts";
import { emptyPart, type PartKind, partsOf } from "./response-words.ts";

/** Words kept of a stream for events that repeat them; the same again is the most that those events repeat. */
const MOST_WORDS = 256 * 1024;

/** Counts what a stream's words may take. */
export class Room {
  #left = MOST_WORDS;

  take(characters: number): boolean {
    if (characters > this.#left) return false;
    this.#left -= characters;
    return true;
  }
}

export const isPlace = (value: unknown): value is number => Number.isSafeInteger(value) && (value as number) >= 0;

/** Numbers the events of a stream. An upstream's own numbers are moved by what was added before them. */
export class EventNumbers {
  #last = -1;
  #added = 0;

  /** Of an event that is added. */
  add(): number {
    this.#added++;
    return ++this.#last;
  }

  /** Of an event of the upstream's, which may have one. */
  of(own: unknown): number {
    const next = this.#last + 1;
    if (!isPlace(own)) this.#last = next;
    else this.#last = this.#added > 0 ? Math.max(own + this.#added, next) : own;
    return this.#last;
  }
}

/** What an event lacks of its place. */
export function lacking(said: Fields, at: Fields): Fields {
  return Object.fromEntries(Object.entries(at).filter(([name]) => said[name] === undefined));
}

export class Part {
  readonly kind: PartKind;
  readonly place: number;
  /** A delta has passed. */
  said = false;
  wordsDone = false;
  partDone = false;
  /** Null once they were too many to be kept. */
  words: string | null = "";

  constructor(kind: PartKind, place: number) {
    this.kind = kind;
    this.place = place;
  }

  keep(delta: string, room: Room): void {
    this.said = true;
    if (this.words !== null) this.words = room.take(delta.length) ? this.words + delta : null;
  }

  /** Undefined where its words were not kept. */
  get made(): Fields | undefined {
    return this.words === null ? undefined : { ...emptyPart(this.kind), [this.kind.said]: this.words };
  }
}

export class Item {
  /** As it was announced. */
  readonly begun: Fields;
  readonly index: number;
  /** Its id was made up here. */
  readonly named: boolean;
  readonly parts = new Map<string, Part>();
  done = false;
  argumentsSaid = false;
  argumentsDone = false;

  constructor(index: number, begun: Fields, named: boolean) {
    this.index = index;
    this.begun = begun;
    this.named = named;
  }

  get id(): string {
    return String(this.begun.id);
  }

  get type(): unknown {
    return this.begun.type;
  }

  part(kind: PartKind, place: number): Part | undefined {
    return this.parts.get(`${kind.list} ${place}`);
  }

  open(kind: PartKind, place: number): Part {
    const part = new Part(kind, place);
    this.parts.set(`${kind.list} ${place}`, part);
    return part;
  }

  /** Where a part is that an event does not place: the last of its kind, or behind those that are there. */
  placeOf(kind: PartKind): number {
    const beside = [...this.parts.values()].filter(({ kind: { list } }) => list === kind.list);
    const last = beside.filter((part) => part.kind === kind && !part.partDone).at(-1);
    return last ? last.place : beside.length;
  }

  /** The item as it has become; undefined where its words were not kept, or it is known by its announcement alone. */
  made(status: string): Fields | undefined {
    const parts = [...this.parts.values()];
    if (parts.length === 0) return this.type === "message" ? { ...this.begun, status } : undefined;
    const made = parts.map((part) => ({ list: part.kind.list, part: part.made }));
    if (made.some(({ part }) => part === undefined)) return undefined;
    const listed = (list: string) => made.filter((one) => one.list === list).map(({ part }) => part);
    const [content, summary] = [listed("content"), listed("summary")];
    return {
      ...this.begun,
      ...(this.type === "message" && { status }),
      ...(content.length > 0 && { content }),
      ...(summary.length > 0 && { summary }),
    };
  }
}

/** An item before anything of it was said. */
export function begunItem(type: string, id: string, like: Fields = {}): Fields {
  if (type === "message") return { id, type, status: "in_progress", role: "assistant", content: [] };
  if (type === "reasoning") return { id, type, summary: [] };
  if (type === "function_call") return { ...like, id, type, status: "in_progress", arguments: "" };
  return { ...like, id };
}

/** Characters that the events which close an item repeat. */
export function wordsIn(item: Fields): number {
  const words = partsOf(item).reduce((sum, part) => sum + part.words.length, 0);
  return isText(item.arguments) ? words + item.arguments.length : words;
}

/** The item under the id that it was announced with, where that was made up. */
export function closedItem(item: Fields, known: Item, status: string): Fields {
  const named = known.named && item.id !== known.id ? { ...item, id: known.id } : item;
  return wholeItem(named, known.id, status);
}
