/** How far one output item and its parts have come in a stream: which of their events have passed, and their text. */
import { type Fields, isText, wholeItem } from "./response-items.ts";
import { emptyPart, type PartKind, partsOf } from "./response-words.ts";

/** Characters of text kept of a stream for the closing events, which repeat at most that much again. */
const MOST_WORDS = 256 * 1024;

/** Counts the text of a stream against that limit. */
export class Room {
  #left = MOST_WORDS;

  take(characters: number): boolean {
    if (characters > this.#left) return false;
    this.#left -= characters;
    return true;
  }
}

export const isPlace = (value: unknown): value is number => Number.isSafeInteger(value) && (value as number) >= 0;

/** Numbers the events of a stream. An upstream's own number is shifted by the events added before it. */
export class EventNumbers {
  #last = -1;
  #added = 0;

  /** The number of an added event. */
  add(): number {
    this.#added++;
    return ++this.#last;
  }

  /** The number of an upstream event, which may have one of its own. */
  of(own: unknown): number {
    const next = this.#last + 1;
    if (!isPlace(own)) this.#last = next;
    else this.#last = this.#added > 0 ? Math.max(own + this.#added, next) : own;
    return this.#last;
  }
}

/** The position members that an event lacks. */
export function lacking(said: Fields, at: Fields): Fields {
  return Object.fromEntries(Object.entries(at).filter(([name]) => said[name] === undefined));
}

export class Part {
  readonly kind: PartKind;
  readonly place: number;
  /** True once a delta has passed. */
  said = false;
  wordsDone = false;
  partDone = false;
  /** Null once the text was too long to keep. */
  words: string | null = "";

  constructor(kind: PartKind, place: number) {
    this.kind = kind;
    this.place = place;
  }

  keep(delta: string, room: Room): void {
    this.said = true;
    if (this.words !== null) this.words = room.take(delta.length) ? this.words + delta : null;
  }

  /** Undefined if its text was not kept. */
  get made(): Fields | undefined {
    return this.words === null ? undefined : { ...emptyPart(this.kind), [this.kind.said]: this.words };
  }
}

export class Item {
  /** As it was announced. */
  readonly begun: Fields;
  readonly index: number;
  /** True if the gateway made up its id. */
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

  /** Position of a part that its event leaves out: the last of its kind, or after the existing parts. */
  placeOf(kind: PartKind): number {
    const beside = [...this.parts.values()].filter(({ kind: { list } }) => list === kind.list);
    const last = beside.filter((part) => part.kind === kind && !part.partDone).at(-1);
    return last ? last.place : beside.length;
  }

  /** The item in its present state. Undefined if its text was not kept, or only its announcement is known. */
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

/** A new item without content. */
export function begunItem(type: string, id: string, like: Fields = {}): Fields {
  if (type === "message") return { id, type, status: "in_progress", role: "assistant", content: [] };
  if (type === "reasoning") return { id, type, summary: [] };
  if (type === "function_call") return { ...like, id, type, status: "in_progress", arguments: "" };
  return { ...like, id };
}

/** Characters of text that the events which close an item repeat. */
export function wordsIn(item: Fields): number {
  const words = partsOf(item).reduce((sum, part) => sum + part.words.length, 0);
  return isText(item.arguments) ? words + item.arguments.length : words;
}

/** The item, with the announced id if that one was made up. */
export function closedItem(item: Fields, known: Item, status: string): Fields {
  const named = known.named && item.id !== known.id ? { ...item, id: known.id } : item;
  return wholeItem(named, known.id, status);
}
