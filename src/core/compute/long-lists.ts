/**
 * Reads an upstream's list as it arrives and keeps of each thing what is read of it. An object there holds its scripts,
 * which tenants choose: hundreds of kilobytes each, for all that ended in the last days too. Long texts are cut while
 * they pass, so the memory needed depends on how many things there are and not on what tenants wrote.
 */
import { asObject } from "../formats/json-fields.ts";

/** Longer texts are left out: nothing reads them. */
const MOST_TEXT = 4_000;
/** A text is cut after so many bytes as written: then it has more than `MOST_TEXT` characters, at 6 bytes each. */
const CUT_BYTES = 6 * MOST_TEXT + 6;
/** Of a longer document only what names it is kept. */
const MOST_DOCUMENT = 64_000;
/** One thing, its long texts cut. */
const MOST_ITEM_BYTES = 1024 * 1024;
/** Never read: as long as tenants like. */
const SCRIPTS: ReadonlySet<string> = new Set(["startup_command", "init_script"]);
const ENDED: ReadonlySet<unknown> = new Set(["terminated", "stopped", "failed"]);

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const LOWER_U = 0x75;
const COMMA = 0x2c;
const [OPEN_ARRAY, CLOSE_ARRAY, OPEN_OBJECT, CLOSE_OBJECT] = [0x5b, 0x5d, 0x7b, 0x7d];
const isSpace = (byte: number): boolean => byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09;

interface Kept {
  readonly id: number;
  readonly hasEnded: boolean;
  readonly document: string;
}

export class ListReader {
  readonly #most: number;
  readonly #mostRead: number;
  #read = 0;
  readonly #kept: Kept[] = [];
  #item = new Uint8Array(1024);
  #itemBytes = 0;
  /** Brackets that are open: 0 before the list and after it. */
  #depth = 0;
  #state: "before" | "inside" | "after" | "broken" = "before";
  #isEmpty = true;
  #inText = false;
  #textBytes = 0;
  #isCut = false;
  /** Bytes of an escape sequence that are still to come. */
  #escaped = 0;

  /** `most`: characters that all that is kept may have; `mostRead`: bytes of the whole as it arrives. */
  constructor(most: number, mostRead: number) {
    this.#most = most;
    this.#mostRead = mostRead;
  }

  /** False: it is no list, or too long, whatever else comes. */
  push(chunk: Uint8Array): boolean {
    this.#read += chunk.byteLength;
    if (this.#read > this.#mostRead) this.#state = "broken";
    for (const byte of chunk) {
      if (this.#state === "broken") return false;
      if (this.#inText) this.#text(byte);
      else if (this.#state === "inside") this.#inside(byte);
      else if (!isSpace(byte)) this.#outside(byte);
    }
    return this.#state !== "broken";
  }

  /** The list as JSON; undefined for what is none, and for one that is too long. */
  end(): string | undefined {
    if (this.#state !== "after") return undefined;
    let length = this.#kept.reduce((sum, { document }) => sum + document.length + 1, 0);
    const dropped = new Set<Kept>();
    // What ended long ago is missed least: where somebody still waits for it, it is read by its id.
    const over = length > this.#most ? this.#kept.filter(({ hasEnded }) => hasEnded) : [];
    for (const one of over.sort((a, b) => a.id - b.id)) {
      if (length <= this.#most) break;
      dropped.add(one);
      length -= one.document.length + 1;
    }
    if (length > this.#most) return undefined;
    return `[${this.#kept.flatMap((one) => (dropped.has(one) ? [] : [one.document])).join(",")}]`;
  }

  #outside(byte: number): void {
    const opens = this.#state === "before" && byte === OPEN_ARRAY;
    this.#state = opens ? "inside" : "broken";
    this.#depth = 1;
  }

  #inside(byte: number): void {
    if (byte === QUOTE) {
      this.#inText = true;
      this.#textBytes = 0;
      this.#isCut = false;
    }
    if (byte === OPEN_ARRAY || byte === OPEN_OBJECT) this.#depth += 1;
    if (byte === CLOSE_ARRAY || byte === CLOSE_OBJECT) this.#depth -= 1;
    if (this.#depth === 0) this.#close(byte);
    else if (byte === COMMA && this.#depth === 1) this.#endItem();
    else this.#keep(byte);
  }

  #text(byte: number): void {
    const isEscaped = this.#escaped > 0;
    if (isEscaped) this.#escaped = this.#escaped === 1 && byte === LOWER_U ? 4 : this.#escaped - 1;
    else if (byte === BACKSLASH) this.#escaped = 1;
    else if (byte === QUOTE) this.#inText = false;
    this.#textBytes += 1;
    // Not within a character.
    if (!isEscaped && this.#textBytes > CUT_BYTES && (byte & 0xc0) !== 0x80) this.#isCut = true;
    if (!this.#isCut || !this.#inText) this.#keep(byte);
  }

  #close(byte: number): void {
    const isOnly = this.#isEmpty && this.#item.subarray(0, this.#itemBytes).every(isSpace);
    if (byte !== CLOSE_ARRAY) this.#state = "broken";
    else if (!isOnly) this.#endItem();
    if (this.#state === "inside") this.#state = "after";
  }

  #keep(byte: number): void {
    if (this.#itemBytes === MOST_ITEM_BYTES) {
      this.#state = "broken";
      return;
    }
    if (this.#itemBytes === this.#item.length) {
      const larger = new Uint8Array(this.#item.length * 2);
      larger.set(this.#item);
      this.#item = larger;
    }
    this.#item[this.#itemBytes++] = byte;
  }

  #endItem(): void {
    const text = new TextDecoder().decode(this.#item.subarray(0, this.#itemBytes));
    this.#itemBytes = 0;
    this.#isEmpty = false;
    const fields = parsed(text);
    if (fields === undefined) this.#state = "broken";
    else if (fields !== null) {
      const { id, status } = fields;
      const document = shortened(fields);
      this.#kept.push({ id: typeof id === "number" ? id : 0, hasEnded: ENDED.has(status), document });
    }
  }
}

/** Undefined: no JSON. Null: no object. */
function parsed(text: string): Record<string, unknown> | null | undefined {
  try {
    return asObject(JSON.parse(text)) ?? null;
  } catch {
    return undefined;
  }
}

export function shortened(fields: Record<string, unknown>): string {
  const { id, name, status } = fields;
  const short = Object.entries(fields).filter(
    ([field, value]) => !SCRIPTS.has(field) && (typeof value !== "string" || value.length <= MOST_TEXT),
  );
  const document = JSON.stringify(Object.fromEntries(short));
  return document.length <= MOST_DOCUMENT ? document : JSON.stringify({ id, name, status });
}
