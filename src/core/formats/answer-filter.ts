/**
 * Filters a JSON answer while it passes: removes top-level members that tenants may not see, and remembers what must be
 * known of the rest: the few small members that are asked for, and the kinds of the others.
 *
 * What passes is the upstream's bytes; where nothing is taken out, all of them. Memory: one small member at a time.
 */
import { JsonScan, OPEN_ARRAY, OPEN_OBJECT, type TopLevel } from "./json-scan.ts";

/** Whether a member passes, or what of it does: `rewrite` gives its value's bytes as they pass, null to drop the member. */
export type MemberRule = "pass" | "drop" | Rewrite;
export interface Rewrite {
  /** A longer value is removed. */
  readonly maxBytes: number;
  rewrite(raw: Uint8Array): Uint8Array | null;
}
/** The rule for each name; null stands for names too long to be known. */
export type MemberRules = (name: string | null) => MemberRule;

/** What is known of an answer that was not held. */
export interface Skimmed {
  /**
   * Its outermost members that have ended: those with a rule to rewrite as they were, of the others what kind they are (an
   * array with as many places as it has elements, but for very long ones; an empty object or text).
   */
  readonly members: Readonly<Record<string, unknown>>;
  /** Bytes of the texts inside a member, so far. */
  textBytes(member: string): number;
}

/** Between two members stand a comma, spaces and a name. */
const LONGEST_GAP = 64 * 1024;
/** Longer arrays are told as this long. */
const MOST_PLACES = 1_000;

/** What becomes of the bytes that are being read. `gap`: kept back until the next member's name is known. */
type Mode = "pass" | "drop" | "gap" | "keep";

const decoder = new TextDecoder();

export class AnswerFilter implements TopLevel, Skimmed {
  readonly #rules: MemberRules;
  readonly #scan = new JsonScan(this);
  readonly members: Record<string, unknown> = Object.create(null);
  readonly #textBytes = new Map<string, number>();
  #chunk: Uint8Array = new Uint8Array();
  /** Where in the chunk begins what nothing was done with. */
  #from = 0;
  #mode: Mode = "pass";
  #out: Uint8Array[] = [];
  readonly #gap = new Kept(LONGEST_GAP);
  #value = new Kept(0);
  #rule: MemberRule = "pass";
  #name: string | null = null;
  #first = 0;
  #anyPassed = false;
  #overlong = false;
  /** Something was removed or rewritten. */
  changed = false;

  constructor(rules: MemberRules) {
    this.#rules = rules;
  }

  /** The bytes that pass now, of this chunk and of those kept back; null once this is no JSON object. */
  push(chunk: Uint8Array): Uint8Array[] | null {
    this.#chunk = chunk;
    this.#from = 0;
    this.#out = [];
    const sound = this.#scan.push(chunk);
    this.#take(chunk.length);
    if (this.#name !== null) this.#textBytes.set(this.#name, this.#scan.textBytes);
    return sound && !this.#overlong ? this.#out : null;
  }

  /** The whole document has come. */
  get whole(): boolean {
    return this.#scan.done;
  }

  /** Values that it holds so far, of any kind and depth. */
  get values(): number {
    return this.#scan.values;
  }

  textBytes(member: string): number {
    return this.#textBytes.get(member) ?? 0;
  }

  open(at: number): void {
    this.#take(at + 1);
    this.#mode = "gap";
  }

  name(name: string | null, at: number): void {
    this.#take(at);
    this.#name = name;
    this.#rule = this.#rules(name);
    if (this.#rule === "pass") this.#passGap();
    else if (this.#rule === "drop") this.#drop();
  }

  begin(first: number, at: number): void {
    this.#first = first;
    if (typeof this.#rule === "string") return;
    this.#take(at);
    this.#value = new Kept(this.#rule.maxBytes);
    this.#mode = "keep";
  }

  end(at: number): void {
    this.#take(at);
    if (typeof this.#rule !== "string") this.#passAnew(this.#rule);
    else if (this.#name !== null) this.members[this.#name] = this.#kindOf();
    if (this.#name !== null) this.#textBytes.set(this.#name, this.#scan.textBytes);
    this.#name = null;
    this.#mode = "gap";
  }

  close(at: number): void {
    this.#take(at + 1);
    this.#out.push(...this.#gap.takeAll());
    this.#mode = "pass";
  }

  /** Does what the mode says with what came before `at`. */
  #take(at: number): void {
    if (at === this.#from) return;
    const piece = this.#chunk.subarray(this.#from, at);
    this.#from = at;
    if (this.#mode === "pass") this.#out.push(piece);
    else if (this.#mode === "keep") this.#value.add(piece);
    else if (this.#mode === "gap" && !this.#gap.add(piece)) this.#overlong = true;
  }

  /** Of a document whose first members were left out the comma goes with them. */
  #passGap(): void {
    const gap = this.#gap.takeAll();
    this.#out.push(...(this.#anyPassed ? gap : withoutComma(gap)));
    this.#anyPassed = true;
    this.#mode = "pass";
  }

  #drop(): void {
    this.#gap.takeAll();
    this.changed = true;
    this.#mode = "drop";
  }

  #passAnew(rule: Rewrite): void {
    const { overlong } = this.#value;
    const raw = concat(this.#value.takeAll());
    if (this.#name !== null) this.members[this.#name] = overlong ? this.#kindOf() : parse(raw);
    const anew = overlong ? null : rule.rewrite(raw);
    if (anew !== raw) this.changed = true;
    if (anew === null) {
      this.#drop();
    } else {
      this.#passGap();
      this.#out.push(anew);
    }
  }

  #kindOf(): unknown {
    if (this.#first === OPEN_ARRAY) return Array.from({ length: Math.min(this.#scan.elements, MOST_PLACES) });
    if (this.#first === OPEN_OBJECT) return {};
    return this.#first === 0x22 ? "" : undefined;
  }
}

/** Bytes that are kept back, up to so many. */
class Kept {
  readonly #maxBytes: number;
  #pieces: Uint8Array[] = [];
  #bytes = 0;
  overlong = false;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  /** False if it is too much; then nothing is kept. */
  add(piece: Uint8Array): boolean {
    this.#bytes += piece.length;
    if (this.#bytes > this.#maxBytes) {
      this.overlong = true;
      this.#pieces = [];
      return false;
    }
    // A copy: the chunk's buffer may be used again.
    this.#pieces.push(piece.slice());
    return true;
  }

  takeAll(): Uint8Array[] {
    const pieces = this.#pieces;
    this.#pieces = [];
    this.#bytes = 0;
    return pieces;
  }
}

/** A gap without its comma, the first byte in it that is no space. */
function withoutComma(gap: readonly Uint8Array[]): Uint8Array[] {
  const whole = concat(gap);
  const comma = whole.indexOf(0x2c);
  const quote = whole.indexOf(0x22);
  return comma === -1 || comma > quote ? [whole] : [whole.subarray(0, comma), whole.subarray(comma + 1)];
}

/** One piece is given back as it is. */
export function concat(pieces: readonly Uint8Array[]): Uint8Array {
  const [only] = pieces;
  if (only && pieces.length === 1) return only;
  const whole = new Uint8Array(pieces.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const piece of pieces) {
    whole.set(piece, at);
    at += piece.length;
  }
  return whole;
}

const parse = (raw: Uint8Array): unknown => JSON.parse(decoder.decode(raw));
